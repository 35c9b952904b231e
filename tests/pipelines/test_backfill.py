"""A backfill walked by many says what one walk says; anyone who is killed in the middle loses nothing and repeats nothing."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
import pytest
from typer.testing import CliRunner

from fingerprint.core.errors import FingerprintError
from fingerprint.core.time_range import parse_time_range
from fingerprint.registry import state_files
from fingerprint.store import open_store
from pipelines import backfill as backfills
from pipelines.cli.app import app
from pipelines.runtime.backfill_plan import BackfillPlan
from pipelines.runtime.backfill_worker import score_partition
from tests.adapters.test_worker_pool import until
from tests.support import sample_organisation
from tests.support.divided_backfill import begun, walked

OWN = ("seconds", "peak_memory_bytes", "parts")  # figures of a run that are not of what it says
Z = 1e-4


def said(figures: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in figures.items() if name not in OWN}


def same(one: sample_organisation.Run, other: sample_organisation.Run) -> None:
    """Figures, events, votes and alerts, by id; z's to 1e-4."""
    assert said(one.figures) == said(other.figures)
    same_rows(one.events, other.events, ["event_id", "event_time"])
    same_rows(one.store.votes.read(), other.store.votes.read(), ["event_id", "detector"])
    ours, theirs = ({alert.alert_id: alert for alert in run.alerts} for run in (one, other))
    assert ours.keys() == theirs.keys()
    for name, alert in ours.items():
        assert alert.title == theirs[name].title
        assert alert.urgency == theirs[name].urgency
        assert [event.event_id for event in alert.events] == [event.event_id for event in theirs[name].events]
        assert [event.raw for event in alert.events] == [event.raw for event in theirs[name].events]
        assert alert.curve == theirs[name].curve


def same_rows(one: pd.DataFrame, other: pd.DataFrame, keys: list[str]) -> None:
    one, other = (frame.sort_values(keys).reset_index(drop=True) for frame in (one, other))
    strange = [name for name in one if name.endswith("z")]
    pd.testing.assert_frame_equal(one.drop(columns=strange), other.drop(columns=strange))
    for name in strange:
        np.testing.assert_allclose(one[name], other[name], atol=Z, rtol=0)


@pytest.mark.parametrize("parts", [1, 8])
def test_many_parts_say_what_one_walk_says(
    organisation: sample_organisation.SampleOrganisation,
    scored: sample_organisation.Run,
    tmp_path: Path,
    parts: int,
) -> None:
    assert scored.alerts
    assert len(scored.store.votes.read()) > 100
    divided = walked(organisation, tmp_path, parts=parts)
    assert divided.figures["parts"] == parts
    same(divided, scored)
    assert not (tmp_path / "work").exists(), "and nothing is left of the work"


def test_of_a_whole_history_the_span_is_scored_as_by_one_walk(
    organisation: sample_organisation.SampleOrganisation, tmp_path: Path
) -> None:
    first = min(json.loads(line)["eventTime"] for line in sample_organisation.lines_of(organisation.new))
    span, days = parse_time_range(since=first), organisation.days[-5:]  # two of them were learned
    one = sample_organisation.run(days, organisation.bank, tmp_path / "one", span=span)
    divided = walked(organisation, tmp_path / "parts", sources=days, span=span)
    assert divided.figures["outside"] == one.figures["outside"] > 0
    same(divided, one)


def test_small_steps_and_principals_who_are_new_or_fall_silent_change_nothing(
    organisation: sample_organisation.SampleOrganisation, tmp_path: Path
) -> None:
    small = sample_organisation.SETTINGS.model_copy(
        update={"reading": sample_organisation.SETTINGS.reading.model_copy(update={"batch_records": 1500})}
    )
    sources = [str(strangers(organisation, tmp_path / "strangers"))]
    undivided = sample_organisation.run(sources, organisation.bank, tmp_path / "one", small)
    assert undivided.figures["silent_intervals"]
    assert undivided.figures["ahead"]
    same(walked(organisation, tmp_path / "many", parts=4, base=small, sources=sources), undivided)


def strangers(organisation: sample_organisation.SampleOrganisation, folder: Path) -> Path:
    """The new records, in order of time. The busiest machine falls silent in the middle, the next two act under names that no one
    knows, and a few records are dated years ahead."""
    records = [json.loads(line) for line in sample_organisation.lines_of(organisation.new)]
    records.sort(key=lambda record: record["eventTime"])
    names = pd.Series([json.dumps(record["userIdentity"].get("arn")) for record in records])
    machines = names[names.str.contains("assumed-role/") & ~names.str.contains("@")]
    busiest, *others = machines.value_counts().index[:3]
    silent = (names == busiest) & (names.index > len(records) // 2)
    for place in np.flatnonzero(names.isin(others)):
        text = json.dumps(records[place]["userIdentity"])
        records[place]["userIdentity"] = json.loads(
            text.replace("user/", "user/new-").replace("role/", "role/new-")
        )
    kept = [record for record, gone in zip(records, silent, strict=True) if not gone]
    ahead = [
        {**record, "eventID": f"{place}", "eventTime": "2026-06-01T00:00:00Z"}
        for place, record in enumerate(kept[:5])
    ]
    return sample_organisation.write(folder / "records.jsonl", kept + ahead)


def test_the_scorer_state_is_put_together_and_the_next_run_goes_on_from_it(
    organisation: sample_organisation.SampleOrganisation, tmp_path: Path
) -> None:
    first, second = organisation.new[:1], organisation.new[1:]
    for sources, name in ((first, "1"), (second, "2")):
        undivided = sample_organisation.run(
            sources, organisation.bank, tmp_path / f"one-{name}", scorer_state=tmp_path / "scorer_state"
        )
        divided = walked(
            organisation, tmp_path / f"many-{name}", parts=3, scorer_state=tmp_path / "parts", sources=sources
        )
        same(divided, undivided)
    assert undivided.figures["started_from"] == "state"
    one, many = (state_files.read_state_arrays(tmp_path / name) for name in ("scorer_state", "parts"))
    np.testing.assert_array_equal(one["clock"], many["clock"])
    for key in ("repeats.key", "principals.key", "novelties.key", "interval_surprise.sums.key"):
        np.testing.assert_array_equal(one[key], many[key])


# --- who is killed ----------------------------------------------------------------------------------------------------


def parts_walked(folder: Path) -> dict[str, int]:
    """When each part was walked that is."""
    return {
        figures.parent.name: figures.stat().st_mtime_ns
        for figures in (folder / "work").glob("*/results/[0-9]*/figures.json")
    }


def test_a_run_beside_which_no_other_does_its_work_goes_on_where_it_was_killed(
    organisation: sample_organisation.SampleOrganisation,
    scored: sample_organisation.Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with begun(organisation, tmp_path) as process:
        until(lambda: any((tmp_path / "work").glob("*/read.json")), seconds=60)
        with pytest.raises(FingerprintError, match="another run does the same work"):
            walked(organisation, tmp_path)
        until(lambda: len(parts_walked(tmp_path)) >= 2, seconds=60)
        mine = workers_of(process.pid)
        process.kill()
    assert len(mine) == 2
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in mine), seconds=20)
    before, after = parts_walked(tmp_path), dict[str, int]()
    assert 2 <= len(before) < 8
    write = backfills._write  # the last step: all parts are there

    def look(*given: Any) -> None:
        after.update(parts_walked(tmp_path))
        write(*given)

    monkeypatch.setattr(backfills, "_write", look)
    same(walked(organisation, tmp_path, parts=5), scored)
    assert len(after) == 8, "as many parts as it had begun with"
    assert before.items() <= after.items(), "what was walked is not walked again"


def test_a_worker_killed_in_the_middle_of_a_part_loses_and_repeats_nothing(
    organisation: sample_organisation.SampleOrganisation, scored: sample_organisation.Run, tmp_path: Path
) -> None:
    """On the command line, which says who works: a process, which has four parts."""
    killed = []

    def kill() -> None:
        until(lambda: len(workers_of(os.getpid())) == 1, seconds=60)
        until(lambda: any((tmp_path / "work").glob("*/results/.*")), seconds=60)
        killed.append(workers_of(os.getpid())[0])
        os.kill(killed[0], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    url, out, settings = (
        f"sqlite:///{tmp_path}/alerts.sqlite",
        tmp_path / "events.parquet",
        tmp_path / "settings",
    )
    settings.write_text(
        f'[workers]\nprocesses = 1\nwork_directory = "{tmp_path}/work"\n'
        "[autoencoder]\nmax_epochs = 1\nthreshold = 1.4\n[alerts]\nthreshold = 2.6\n"
    )
    words = [
        "score",
        *organisation.new,
        "--bank",
        str(organisation.bank),
        "--database",
        url,
        "--out",
        str(out),
    ]
    done = CliRunner().invoke(app, [*words, "--settings", str(settings), "--workers", "dask", "--json"])
    killer.join()
    assert done.exit_code == 0, done.output
    assert killed
    figures = json.loads(done.stdout)
    assert figures["parts"] == 4
    same(sample_organisation.Run(figures, out, open_store(url)), scored)


def workers_of(parent: int) -> list[int]:
    """The worker processes that a process has started."""
    return [
        process.pid
        for process in psutil.Process(parent).children()
        if "spawn_main" in " ".join(process.cmdline())
    ]


# --- what is said to people -------------------------------------------------------------------------------------------


def test_a_worker_that_does_not_see_the_folder_says_so(
    organisation: sample_organisation.SampleOrganisation, tmp_path: Path
) -> None:
    plan = BackfillPlan(
        tmp_path / "elsewhere", organisation.bank, "", sample_organisation.SETTINGS, False, False
    )
    with pytest.raises(
        FingerprintError, match=r"a worker does not see .*elsewhere: name a folder in workers\.work_directory"
    ):
        score_partition(plan, 0)


def test_workers_that_no_one_knows_are_refused(organisation: sample_organisation.SampleOrganisation) -> None:
    words = ["score", *organisation.new, "--bank", str(organisation.bank), "--database", "sqlite://"]
    refused = CliRunner().invoke(app, [*words, "--workers", "stranger"])
    assert refused.exit_code
    assert "workers.scheduler: 'stranger' is none of local, dask" in str(refused.exception)
