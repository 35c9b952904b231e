"""The contract of `train` and `score`: what they print, write and remember, and what must never change an answer."""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from fingerprint.alerting.grouping import MAX_SUPPORTING_EVENTS
from fingerprint.core.errors import FingerprintError
from fingerprint.core.settings import Entities, Reading, Spectral
from fingerprint.core.time_range import parse_time_range
from fingerprint.sources.active import SOURCE
from pipelines import score
from pipelines.cli.app import app
from pipelines.cli.run import EXIT_NO_HISTORY
from pipelines.commands.alerts import list_alerts
from tests.support import sample_organisation
from tests.support.dump_tables import dump_tables
from tests.support.sample_organisation import SETTINGS, Run, SampleOrganisation

COLUMNS = {
    "event_id": pa.string(),
    "event_time": pa.timestamp("us", tz="UTC"),
    "principal": pa.string(),
    "entity": pa.string(),
    "service": pa.string(),
    "action": pa.string(),
    "autoencoder_z": pa.float32(),
    "spectral_z": pa.float32(),
    "autoencoder_vote": pa.bool_(),
    "spectral_vote": pa.bool_(),
    "alert_threshold": pa.float32(),
    "verdict": pa.bool_(),
    "reason": pa.string(),
    "alert_id": pa.string(),
}
CLOSE = 1e-4  # z's agree to this


def alike(one: pd.DataFrame, other: pd.DataFrame) -> None:
    """The same events, verdicts and alerts; z's as close as they must be."""
    one, other = (frame.sort_values(["event_time", "event_id"], ignore_index=True) for frame in (one, other))
    exact = ["event_id", "event_time", "principal", "entity", "verdict", "alert_id", "level"]
    pd.testing.assert_frame_equal(one[exact], other[exact])
    for name in ("autoencoder_z", "spectral_z"):
        np.testing.assert_allclose(one[name], other[name], atol=CLOSE, err_msg=name)


# --- what score leaves behind ---------------------------------------------------------------------------------------


def test_the_results_have_one_row_an_event_with_the_columns_others_build_on(scored: Run) -> None:
    table = pq.read_table(scored.out)
    assert {name: table.schema.field(name).type for name in COLUMNS} == COLUMNS
    assert table.num_rows == scored.figures["events"] == len(set(table["event_id"].to_pylist()))
    never_null = [name for name in COLUMNS if not name.endswith("_z") and name not in ("alert_id", "reason")]
    assert {name: table[name].null_count for name in never_null} == dict.fromkeys(never_null, 0)


def test_an_event_has_an_alert_exactly_when_it_has_a_verdict(scored: Run) -> None:
    events = scored.events
    assert scored.figures["verdicts"] == events["verdict"].sum() > 0
    assert (events["alert_id"].notna() == events["verdict"]).all()
    assert {alert.alert_id: set(alert.event_ids) for alert in scored.alerts} == {
        name: set(group) for name, group in events[events["verdict"]].groupby("alert_id")["event_id"]
    }


def test_an_event_without_a_verdict_says_what_it_lacked(scored: Run) -> None:
    events = scored.events
    votes = events[[f"{name}_vote" for name in ("autoencoder", "spectral", "sequence")]].sum(axis=1)
    strange = events["autoencoder_z"] >= events["alert_threshold"]
    assert (events["reason"].isna() == events["verdict"]).all()
    assert set(events["reason"].dropna()) >= {"no vote", "below the alert threshold"}
    assert (votes[events["reason"] == "no vote"] == 0).all()
    below = events["reason"] == "below the alert threshold"
    assert (votes[below] > 0).all()
    assert votes[below].max() > 1, "some have the votes"
    assert not strange[below].any()
    assert strange[events["reason"] == "no second vote"].all()


def test_json_lines_say_what_parquet_says(
    organisation: SampleOrganisation, scored: Run, tmp_path: Path
) -> None:
    again = sample_organisation.run(organisation.new, organisation.bank, tmp_path, name="events.jsonl").events
    assert list(again.columns) == list(scored.events.columns)
    assert set(again["event_time"].str[-1]) == {"Z"}
    alike(again.assign(event_time=pd.to_datetime(again["event_time"])), scored.events)
    written = [json.loads(line) for line in (tmp_path / "events.jsonl").open()]
    assert {type(row["alert_id"]) for row in written} == {str, type(None)}


def test_every_record_is_an_event_a_reject_a_duplicate_or_skipped(
    organisation: SampleOrganisation, tmp_path: Path
) -> None:
    lines = sample_organisation.lines_of(organisation.new[:1])[:300]
    digest = {"digestStartTime": "2026-01-14T00:00:00Z", "digestS3Object": "x"}
    extra = [b"{not json", b'{"eventName": "no time"}', json.dumps(digest).encode(), lines[0], b"[1, 2]"]
    source = sample_organisation.write(tmp_path / "day.jsonl", [*lines, *extra])
    figures = sample_organisation.run([source], organisation.bank, tmp_path).figures
    parts = [figures[name] for name in ("events", "rejects", "duplicates", "skipped")]
    assert figures["records"] == sum(parts) == len(lines) + len(extra) + 1  # the array holds two
    assert figures["skipped"] == 1
    assert figures["rejects"] == len(figures["reasons"]) == 4
    assert all(str(source) in reason for reason in figures["reasons"])


def test_the_figures_of_a_run_are_what_programs_expect(scored: Run) -> None:
    figures = json.loads(json.dumps(scored.figures))
    assert list(figures["votes"]) == ["autoencoder", "spectral", "sequence"]
    for name in (
        "records",
        "events",
        "rejects",
        "duplicates",
        "skipped",
        "verdicts",
        "alerts",
        "peak_memory_bytes",
    ):
        assert isinstance(figures[name], int), name
    assert figures["peak_memory_bytes"] > 10_000_000
    assert figures["seconds"] > 0
    assert figures["alerts"] == len(scored.alerts) > 0


def test_the_alerts_hold_the_spliced_attack(organisation: SampleOrganisation, scored: Run) -> None:
    labels = [json.loads(line) for line in (organisation.folder / "labels.jsonl").open()]
    loud = {label["event_id"] for label in labels if label["strength"] == "session"}
    found = {event for alert in scored.alerts for event in alert.event_ids}
    assert loud, "the organisation has a loud attack"
    assert found & loud


def test_an_event_of_an_alert_names_the_detectors_that_flagged_it(scored: Run) -> None:
    """Whichever detectors there are, and for a vote below the floor of kept votes, too."""
    rows = scored.events.set_index("event_id")
    kept = set(scored.store.votes.read()[["event_id", "detector"]].itertuples(index=False, name=None))
    flagged = {event.event_id: event for alert in scored.alerts for event in alert.events}
    for event_id, event in flagged.items():
        assert event.flagged_by == tuple(
            name for name in sorted(event.scores) if rows.at[event_id, f"{name}_vote"]
        )
        assert event.thresholds.keys() == event.scores.keys()
        assert all(event.scores[name] >= event.thresholds[name] - 1e-3 for name in event.flagged_by)
    pairs = {(event_id, name) for event_id, event in flagged.items() for name in event.flagged_by}
    assert {name for _, name in pairs} == {"autoencoder", "sequence", "spectral"}
    assert {name for _, name in pairs - kept} >= {"spectral"}


def test_an_alert_has_what_else_the_autoencoder_voted_for_in_the_hours_of_its_verdicts(
    scored: Run, organisation: SampleOrganisation
) -> None:
    """Of too many, what succeeded and can do graver harm is kept before what is stranger."""
    records = map(json.loads, sample_organisation.lines_of(organisation.new))
    failed = {record["eventID"] for record in records if record.get("errorCode")}

    def harm_done(event: Any) -> int:
        gravity = SOURCE.impact_of(event.service, event.action, "").gravity
        return 0 if event.event_id in failed else {"notable": 1, "grave": 2, "severe": 3}.get(gravity, 0)

    events = scored.events.assign(hour=scored.events["event_time"].dt.floor("h"))
    alert_of = events[events["verdict"]].drop_duplicates(["principal", "hour"])
    others = events[events["autoencoder_vote"] & ~events["verdict"]].drop(columns="alert_id")
    wanted = others.merge(alert_of[["principal", "hour", "alert_id"]], on=["principal", "hour"])
    found = {
        alert.alert_id: [event.event_id for event in alert.supporting_events]
        for alert in scored.alerts
        if alert.supporting_events
    }
    assert {*found} == {*wanted["alert_id"]}
    for name, group in wanted.sort_values(["event_time", "event_id"]).groupby("alert_id"):
        rank = {row.event_id: (harm_done(row), row.autoencoder_z) for row in group.itertuples()}
        kept, dropped = found[name], rank.keys() - {*found[name]}
        assert kept == [each for each in rank if each in kept], "all are votes, in their order"
        assert len(kept) == min(len(rank), MAX_SUPPORTING_EVENTS)
        assert all(min(rank[one] for one in kept) >= rank[each] for each in dropped)
    assert 0 < len(wanted) < len(others)
    supporting = [event for alert in scored.alerts for event in alert.supporting_events]
    assert all("autoencoder" in event.flagged_by and not event.raw for event in supporting)


def test_single_votes_rest_on_the_store_with_their_threshold_and_level(scored: Run) -> None:
    kept, events = scored.store.votes.read(), scored.events.set_index("event_id")
    own = kept[kept["detector"] == "autoencoder"]
    assert len(own) == (events["autoencoder_z"] >= SETTINGS.database.min_vote_score).sum() > 0
    assert set(own["threshold"]) == {SETTINGS.autoencoder.threshold}
    assert (own["vote"].to_numpy() == events.loc[own["event_id"], "autoencoder_vote"].to_numpy()).all()
    assert set(own["level"]) <= {"entity", "principal", "peer", "generic"}


def test_a_stored_vote_reaches_the_threshold_of_alerts_where_its_event_has_a_verdict(scored: Run) -> None:
    kept, events = scored.store.votes.read(), scored.events.set_index("event_id")
    own = kept[kept["detector"] == "autoencoder"]
    verdict = events.loc[own["event_id"], "verdict"].to_numpy()
    np.testing.assert_array_equal(own["reach"] >= SETTINGS.alerts.threshold, verdict)
    assert verdict.any()
    assert (own["reach"].notna().to_numpy() & ~verdict).any(), "leads"
    assert kept.loc[kept["detector"] != "autoencoder", "reach"].isna().all()


# --- what never changes an answer -----------------------------------------------------------------------------------


def test_scoring_the_same_input_twice_changes_nothing(
    organisation: SampleOrganisation, scored: Run, tmp_path: Path
) -> None:
    shutil.copytree(scored.out.parent, tmp_path / "copy")
    again = sample_organisation.run(organisation.new, organisation.bank, tmp_path / "copy")
    assert dump_tables(again.store) == dump_tables(scored.store)
    assert again.out.read_bytes() == scored.out.read_bytes()


def test_where_a_batch_is_cut_never_changes_an_answer(
    organisation: SampleOrganisation, scored: Run, tmp_path: Path
) -> None:
    small = SETTINGS.model_copy(update={"reading": Reading(batch_records=1500)})
    cut = sample_organisation.run(organisation.new, organisation.bank, tmp_path, small)
    alike(cut.events, scored.events)
    assert cut.alerts == scored.alerts


def test_the_columns_that_score_leaves_out_change_no_answer(
    organisation: SampleOrganisation, scored: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(score, "SCORED_COLUMNS", None)
    whole = sample_organisation.run(organisation.new, organisation.bank, tmp_path)
    assert whole.out.read_bytes() == scored.out.read_bytes()
    assert whole.alerts == scored.alerts


def test_the_order_of_delivery_never_changes_an_answer(
    organisation: SampleOrganisation, scored: Run, tmp_path: Path
) -> None:
    lines = sample_organisation.lines_of(organisation.new)
    random.Random(1).shuffle(lines)
    files = [sample_organisation.write(tmp_path / f"{9 - part}.jsonl", lines[part::3]) for part in range(3)]
    shuffled = sample_organisation.run(files, organisation.bank, tmp_path)
    alike(shuffled.events, scored.events)
    assert [alert.event_ids for alert in shuffled.alerts] == [alert.event_ids for alert in scored.alerts]
    assert [alert.urgency for alert in shuffled.alerts] == [alert.urgency for alert in scored.alerts]


def test_days_scored_one_by_one_with_a_scorer_state_are_judged_as_in_one_run(
    organisation: SampleOrganisation, scored: Run, tmp_path: Path
) -> None:
    """Cut where the events of a day end. Nothing waits over midnight, so nothing may differ."""
    parts = []
    by_day: dict[str, list[bytes]] = {}
    for line in sample_organisation.lines_of(organisation.new):
        by_day.setdefault(json.loads(line)["eventTime"][:10], []).append(line)
    for day, lines in sorted(by_day.items()):
        file = sample_organisation.write(tmp_path / f"{day}.jsonl", lines)
        parts.append(
            sample_organisation.run(
                [file], organisation.bank, tmp_path, scorer_state=tmp_path / "scorer_state"
            )
        )
        parts[-1] = replace(parts[-1], out=parts[-1].out.rename(tmp_path / f"{day}.parquet"))
    assert [part.figures["started_from"] for part in parts] == ["bank"] + ["state"] * (len(parts) - 1)
    alike(pd.concat([part.events for part in parts]), scored.events)
    assert [alert.event_ids for alert in parts[-1].alerts] == [alert.event_ids for alert in scored.alerts]


def test_a_record_scored_yesterday_is_a_duplicate_today(
    organisation: SampleOrganisation, tmp_path: Path
) -> None:
    day, scorer_state = organisation.new[0], tmp_path / "scorer_state"
    first = sample_organisation.run(
        [day], organisation.bank, tmp_path / "a", scorer_state=scorer_state
    ).figures
    second = sample_organisation.run(
        [day], organisation.bank, tmp_path / "b", scorer_state=scorer_state
    ).figures
    assert first["events"] > 0
    assert (second["events"], second["duplicates"]) == (0, first["records"])


def test_input_from_inside_the_training_span_starts_from_nothing_and_says_so(
    organisation: SampleOrganisation, tmp_path: Path
) -> None:
    run = sample_organisation.run(organisation.learned[-2:], organisation.bank, tmp_path)
    assert run.figures["started_from"].startswith("empty")
    assert run.events["spectral_z"].isna().mean() > 0.5, "series are warming up, which is no opinion"


def test_of_a_whole_history_the_span_is_scored_as_by_itself(
    organisation: SampleOrganisation, tmp_path: Path
) -> None:
    days = organisation.days[-5:]  # two of them were learned
    lines = sample_organisation.lines_of(days)
    first = min(json.loads(line)["eventTime"] for line in sample_organisation.lines_of(organisation.new))
    inside = [line for line in lines if json.loads(line)["eventTime"] >= first]
    alone = sample_organisation.write(tmp_path / "new.jsonl", inside)
    expected = sample_organisation.run([alone], organisation.bank, tmp_path / "alone")
    run = sample_organisation.run(
        days, organisation.bank, tmp_path / "span", span=parse_time_range(since=first)
    )
    assert run.figures["started_from"] == "bank"
    assert run.figures["outside"] == len(lines) - len(inside) > 0
    alike(run.events, expected.events)
    assert expected.alerts
    assert [alert.event_ids for alert in run.alerts] == [alert.event_ids for alert in expected.alerts]


def test_a_span_without_events_is_an_error_but_not_where_a_state_goes_on(
    organisation: SampleOrganisation, tmp_path: Path
) -> None:
    later = parse_time_range(since="2031-01-01")
    with pytest.raises(FingerprintError, match="there is no event from 2031-01-01: the history has "):
        sample_organisation.run(organisation.new[:1], organisation.bank, tmp_path, span=later)
    figures = sample_organisation.run(
        organisation.new[:1], organisation.bank, tmp_path, span=later, scorer_state=tmp_path / "state"
    ).figures
    assert (figures["events"], figures["alerts"]) == (0, 0)


def test_learned_days_without_an_alert_are_no_quiet_days(
    organisation: SampleOrganisation, tmp_path: Path
) -> None:
    """Whatever the bank learned is usual to it: the status says that nothing was asked."""
    command = ["score", organisation.learned[-1], "--bank", str(organisation.bank)]
    done = CliRunner().invoke(app, [*command, "--database", f"sqlite:///{tmp_path}/alerts.sqlite", "--json"])
    assert done.exit_code == EXIT_NO_HISTORY, done.output
    figures = json.loads(done.stdout)
    assert figures["alerts"] == 0
    assert sum(figures["votes"].values()) > 0
    assert f"--since {figures['trained_until']}" in done.stderr


def test_a_record_without_an_id_is_known_by_its_digest_and_its_repeat_dropped(
    organisation: SampleOrganisation, tmp_path: Path
) -> None:
    records = [json.loads(line) for line in sample_organisation.lines_of(organisation.new[:1])[:50]]
    nameless = [{key: value for key, value in record.items() if key != "eventID"} for record in records[:2]]
    unlike = sample_organisation.write(
        tmp_path / "in.jsonl", [*records[2:], *nameless, nameless[0], {**nameless[1], "eventID": ""}]
    )
    run = sample_organisation.run([unlike], organisation.bank, tmp_path)
    digests = run.events["event_id"].str.startswith("digest:")
    assert digests.sum() == 3, "one record, another, and the other with an empty id"
    assert run.figures["duplicates"] >= 1
    assert run.events.loc[digests, "autoencoder_z"].notna().all()


# --- the queue ------------------------------------------------------------------------------------------------------


def test_the_queue_is_an_array_in_a_fixed_order(scored: Run, capsys: pytest.CaptureFixture[str]) -> None:
    list_alerts(f"sqlite:///{scored.out.parent}/alerts.sqlite", "json")
    queue = json.loads(capsys.readouterr().out)
    names = ["alert_id", "principal", "first_event_time", "last_event_time", "urgency"]
    names += ["rarity", "impact", "title", "event_ids"]
    added = ["decision", "own_urgency", "sharing", "suppressed"]
    assert all(list(alert) == [*names, *added] for alert in queue)
    ranks = [(-alert["urgency"], alert["first_event_time"], alert["alert_id"]) for alert in queue]
    assert ranks == sorted(ranks)
    assert len(queue) == scored.figures["alerts"]
    assert all(alert["first_event_time"] <= alert["last_event_time"] for alert in queue)


# --- runs that are refused --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("section", "other"),
    [("spectral", Spectral(interval_seconds=1800)), ("entities", Entities(granularity="principal"))],
)
def test_settings_that_count_something_else_than_the_bank_did_are_refused(
    organisation: SampleOrganisation, tmp_path: Path, section: str, other: object
) -> None:
    changed = SETTINGS.model_copy(update={section: other})
    with pytest.raises(FingerprintError, match=rf"setting {section}\.\w+ is .* trained with"):
        sample_organisation.run(organisation.new[:1], organisation.bank, tmp_path, changed)


def test_a_run_that_fails_leaves_the_results_of_the_last_one(
    organisation: SampleOrganisation, tmp_path: Path
) -> None:
    kept = sample_organisation.write(tmp_path / "events.jsonl", [{"kept": True}])
    with pytest.raises(FingerprintError, match="no such file"):
        sample_organisation.run([tmp_path / "missing.json"], organisation.bank, tmp_path, name="events.jsonl")
    assert json.loads(kept.read_text()) == {"kept": True}
    assert [file.name for file in tmp_path.glob(".*")] == []
