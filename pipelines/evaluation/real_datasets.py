"""`fingerprint evaluate --real`: the real sets of the project, each by itself, with a note on what so small a set can show.

invictus_stratus       one hour with labelled attacks, scored like any labelled folder
prod_slice_anonymised  five minutes without labels: three are learned and two are scored, and the alerts are counted
schema_variety         shapes of records from four projects, which must be read and break nothing
panther_rule_tests     events that a rule of Panther finds, and events that it does not find, of made-up people. A bank that
                       learned a simulated organisation scores them, so it knows none of these people.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

from fingerprint.adapters import files
from fingerprint.adapters.event_spool import EventSpool
from fingerprint.compute import hashing
from fingerprint.core.alert import vote_column, z_column
from fingerprint.core.settings import Settings
from fingerprint.detection.detectors import detector_names
from fingerprint.detection.detectors.autoencoder import AutoencoderDetector
from fingerprint.evaluation.labels import read_labels
from fingerprint.evaluation.metrics import Figures
from fingerprint.evaluation.quorums import MultiQuorumPipeline
from fingerprint.registry.bank import Bank
from fingerprint.sources.cloudtrail import samples
from fingerprint.state.scorer_state import ScorerState
from fingerprint.training import pipeline
from pipelines.cli.console import Progress
from pipelines.evaluation.backtest import events_between
from pipelines.evaluation.evaluate import EvaluationOptions, OrganisationEvaluation
from pipelines.runtime import backend
from pipelines.simulate import simulate_organisation

LABELLED, UNLABELLED = "invictus_stratus", ("prod_slice_anonymised", "schema_variety")
RULE_TESTS = "panther_rule_tests"
TRAINING_SHARE = 3 / 5  # of the span, for sets without labels
PRINCIPALS, DAYS = 30, 14


def evaluate_real_datasets(
    settings: Settings, progress: Progress, principals: int = PRINCIPALS, days: int = DAYS
) -> list[Figures]:
    """Return the figures of each set, with a note on what they can show.

    `principals` and `days` are those of the simulated organisation, whose bank does not know Panther's people.
    """
    unlabelled = [_evaluate_unlabelled(name, settings, progress) for name in UNLABELLED]
    bank = _bank_of_simulated_organisation(principals, days, settings, progress)
    return [_evaluate_labelled(settings, progress), *unlabelled, _evaluate_rule_tests(bank, settings)]


def _evaluate_labelled(settings: Settings, progress: Progress) -> Figures:
    run = OrganisationEvaluation(
        [_dataset_folder(LABELLED)],
        settings,
        progress,
        EvaluationOptions(peers=False, third=False, terms=False),
    ).run()
    about, methods = run.about, {method["name"]: method for method in run.methods}
    served = run.methods[0]
    alone = methods.get(f"{AutoencoderDetector.name} alone", served)
    return {
        "set": LABELLED,
        **{name: about[name] for name in ("records", "rejects")},
        "learned": about["events"] - about["events_judged"],
        "judged": about["events_judged"],
        "votes": {
            name: methods.get(f"{name} alone", served)["per_event"]["reported"]
            for name in detector_names(settings)
        },
        "verdicts": served["per_event"]["reported"],
        "alerts": served["per_session"]["reported"],
        "sessions": served["sessions"],
        "found": served["found"],
        "found_by_event_detector": alone["found"],
        "note": f"of {served['sessions']} attack sessions the quorum finds {served['found']}, the autoencoder alone "
        f"{alone['found']}: an hour is too short for the spectral detector to have an opinion, so the autoencoder decides, and "
        "most of what is learned is the attackers' own work.",
    }


def _evaluate_unlabelled(name: str, settings: Settings, progress: Progress) -> Figures:
    with backend.open_history(settings) as history:
        history.add_batches(files.read_sources([_dataset_folder(name)], settings.reading))
        first, last = history.earliest_event_time() or 0, history.activity_end()
        cut = int(first + (last.timestamp() - first) * TRAINING_SHARE) if last else first
        bank = pipeline.train(events_between(history, None, cut), settings, progress)
        panel = MultiQuorumPipeline(bank, ScorerState.from_arrays(settings, bank.scorer_state), settings, {})
        figures, _ = _run_pipeline(panel, events_between(history, cut, None))
        return {
            **_dataset_counts(name, history),
            "learned": bank.manifest["events"],
            **figures,
            "note": "too little to know a principal by: this says that records are read and that nothing breaks.",
        }


def _evaluate_rule_tests(bank: Bank, settings: Settings) -> Figures:
    """Score Panther's examples, with their line as id, because many have made-up ids that others have, too."""
    with tempfile.TemporaryDirectory(prefix="fingerprint-") as folder, EventSpool(settings) as history:
        lines = Path(folder) / "events.jsonl"
        numbered = enumerate(samples.sample_records(f"real/{RULE_TESTS}"))
        lines.write_text(
            "".join(json.dumps({**event, "eventID": f"{line}"}) + "\n" for line, event in numbered)
        )
        history.add_batches(files.read_sources([str(lines)], settings.reading))
        figures, judged = _run_pipeline(
            MultiQuorumPipeline(bank, ScorerState(settings), settings, {}), history.batches()
        )
        auc = _autoencoder_auc(
            judged, [label["label"] == "rule_match" for label in read_labels([_dataset_folder(RULE_TESTS)])]
        )
        return {
            **_dataset_counts(RULE_TESTS, history),
            "learned": bank.manifest["events"],
            **figures,
            "auc": auc,
            "note": f"the autoencoder ranks what a rule finds above what it leaves in peace with AUC {auc:.2f} (chance 0.5): "
            "no principal's habits are known, and a rule's two examples differ in a parameter, not in being unusual.",
        }


def _autoencoder_auc(judged: pd.DataFrame, guilty: list[bool]) -> float:
    """Return the AUC of the autoencoder's z: the probability that a guilty event ranks above an innocent one."""
    lines = hashing.hash_strings(pd.Series([str(line) for line in range(len(guilty))], dtype=object))
    right = pd.Series(guilty, index=lines).reindex(judged["event"]).to_numpy(bool)
    z = np.nan_to_num(judged[z_column(AutoencoderDetector.name)].to_numpy(float), nan=-1e9)
    return round(float(roc_auc_score(right, z)), 4)


def _bank_of_simulated_organisation(
    principals: int, days: int, settings: Settings, progress: Progress
) -> Bank:
    """Train a bank on a simulated organisation without attacks."""
    with tempfile.TemporaryDirectory(prefix="fingerprint-") as folder, EventSpool(settings) as history:
        simulate_organisation(principals, days, 0, Path(folder), surprises=())
        history.add_batches(files.read_sources([folder], settings.reading))
        return pipeline.train(history.batches(), settings, progress)


def _dataset_folder(name: str) -> str:
    return str(samples.data_folder(f"real/{name}"))


def _dataset_counts(name: str, history: EventSpool) -> Figures:
    return {"set": name, "records": history.records, "rejects": history.rejected}


def _run_pipeline(panel: MultiQuorumPipeline, chunks: Iterable[pd.DataFrame]) -> tuple[Figures, pd.DataFrame]:
    for events in chunks:
        panel.process(events)
    panel.flush()
    judged, tally = panel.scored_events.to_frame(), panel.counters
    votes = {name: int(judged[vote_column(name)].sum()) for name in panel.scored_events.detectors}
    return {
        "judged": len(judged),
        "votes": votes,
        "verdicts": tally.verdicts,
        "alerts": tally.alerts,
    }, judged
