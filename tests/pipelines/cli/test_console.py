"""Summaries for people name figures that the programs really report."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from rich.console import Console
from rich.table import Table

from fingerprint.registry.quality import LEAST_THRESHOLD
from fingerprint.state.pipeline_state import MAX_COUNTED_PRINCIPALS
from fingerprint.streaming.metrics import IngestMetrics, S3IngestMetrics, StreamMetrics
from fingerprint.web.formatting import pluralize
from pipelines.cli import console


def test_a_stream_that_ends_says_what_it_published_and_saved(capsys: pytest.CaptureFixture[str]) -> None:
    metrics = StreamMetrics(CollectorRegistry())
    metrics.events.inc(3_000)
    metrics.checkpoints.inc(6)
    console.print_stream(metrics.figures() | {"seconds": 2.0})
    printed = capsys.readouterr().out
    assert "learned" not in printed
    assert "partitions" not in printed
    assert "3,000 events" in printed
    assert "1,500 events/s" in printed
    assert "checkpoints: 6" in printed
    metrics.already_trained.inc(1_500)
    metrics.misrouted.inc(1)
    console.print_stream(metrics.figures() | {"seconds": 2.0})
    printed = capsys.readouterr().out
    assert "already learned: 1,500 events, not judged" in printed
    assert "in partitions of other principals: 1 event: only `fingerprint ingest` may write" in printed


@pytest.mark.parametrize(
    ("days", "said"),
    [
        (
            1.0,
            "alerts from z 3.09 on, for a budget of 2.5 false alerts a day, measured on 1 held-out day: "
            "so few make it high, more history usually lowers it",
        ),
        (
            3.042,
            "alerts from z 3.09 on, for a budget of 2.5 false alerts a day, measured on 3.04 held-out days: "
            "so few make it high, more history usually lowers it",
        ),
        (
            4.487,
            "alerts from z 3.09 on, for a budget of 2.5 false alerts a day, measured on 4.49 held-out days",
        ),
        (
            0.0,
            "alerts from z 3.09 on, not measured: a history of less than a day does not tell how many a day has",
        ),
        (None, "alerts from z 3.09 on, as set"),
    ],
)
def test_a_training_says_of_how_many_days_the_threshold_of_alerts_is(days: float | None, said: str) -> None:
    assert console._threshold_of_alerts(3.0918, days, 2.5) == said


def test_the_lowest_threshold_of_a_few_held_out_days_is_not_called_high() -> None:
    said = console._threshold_of_alerts(LEAST_THRESHOLD, 1.0, 1.0)
    assert "a budget of 1 false alert a day" in said
    assert "days to come may have more than the budget" in said
    assert "lower" not in said


@pytest.mark.parametrize("shown", [True, False])
def test_where_no_terminal_is_the_progress_is_lines_while_it_works(
    shown: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bars came all at the end, after an hour of nothing in the log."""
    now = [0.0]
    monkeypatch.setattr(console, "progress_lines", partial(console.progress_lines, lambda: now[0]))
    steps = [
        ("worlds", 1, 12),
        ("reading records", 0),
        ("reading records", 4_000),
        ("worlds", 2, 12),
        ("fitting", 9),
    ]
    printed = []
    with console.progress_bars(shown) as progress:
        for step in steps:
            progress(*step)
            now[0] += 20
            printed.append(capsys.readouterr().err)
    lines = ["worlds: 1 of 12\n", "reading records\n", "", "worlds: 2 of 12\n", "fitting: 9\n"]
    assert printed == (lines if shown else [""] * len(steps))
    assert capsys.readouterr() == ("", "")


def test_on_a_terminal_a_bar_says_how_many_of_how_many(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with console.progress_bars() as progress:
        progress("worlds", 2, 1_200)
    assert re.search("worlds .* 2 of 1,200 ", re.sub(r"\x1b\[[\d;?]*\w", "", capsys.readouterr().err))


@pytest.fixture
def nothing_scored() -> dict[str, Any]:
    """The figures of a `score` that read nothing."""
    counts = (
        "records",
        "events",
        "duplicates",
        "skipped",
        "rejects",
        "future_dated",
        "outside",
        "months_not_listed",
        "other_logs",
        "not_fetched",
    )
    scored = ("silent_intervals", "verdicts", "votes_alone", "refused", "degraded", "no_opinion", "alerts")
    zeros = dict.fromkeys((*counts, *scored, "refused_principals", "peak_memory_bytes", "seconds"), 0)
    return zeros | {"votes": {}, "started_from": "bank", "reasons": []}


def test_a_scoring_says_that_activity_drops_are_votes_and_no_alerts(
    nothing_scored: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    console.print_scoring(nothing_scored | {"silent_intervals": 481, "votes": {"spectral": 481}})
    printed = capsys.readouterr().out
    assert "\nstored votes: spectral 481 intervals;" in printed
    assert "activity drops: 481 intervals, kept as votes and never an alert" in printed
    assert "not judged" not in printed


@pytest.mark.parametrize(
    ("events", "principals", "text"),
    [
        (235, 1, "235 events of 1 principal that the bank does not know: a day has room for 500 "),
        (1, 1, "1 event of 1 principal that"),
        (20_000, MAX_COUNTED_PRINCIPALS, "20,000 events of at least 10,000 principals that"),
    ],
)
def test_a_scoring_says_how_many_events_of_unknown_principals_were_not_judged(
    nothing_scored: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
    events: int,
    principals: int,
    text: str,
) -> None:
    console.print_scoring(nothing_scored | {"refused": events, "refused_principals": principals})
    assert f"\nnot judged: {text}" in capsys.readouterr().out


@pytest.mark.parametrize("kind", [IngestMetrics, S3IngestMetrics])
def test_an_ingest_that_ends_says_how_to_see_its_dead_letters(
    kind: type[IngestMetrics], capsys: pytest.CaptureFixture[str]
) -> None:
    metrics = kind(CollectorRegistry())
    metrics.records.inc(1_200)
    metrics.dead.inc(2)
    console.print_ingest(metrics.figures() | {"seconds": 2.0})
    printed = capsys.readouterr().out
    assert "1,200 records sent, 2 dead letters" in printed
    assert "fingerprint dead-letters list" in printed


def test_an_ingest_from_s3_says_how_many_notifications_stayed(capsys: pytest.CaptureFixture[str]) -> None:
    metrics = S3IngestMetrics(CollectorRegistry())
    metrics.deferred.inc(5)
    console.print_ingest(metrics.figures() | {"seconds": 2.0})
    assert "5 times a notification stayed in the queue" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 intervals"), (1, "1 interval"), (2, "2 intervals"), (1_200, "1,200 intervals")]
)
def test_one_is_not_told_as_several(count: int, text: str) -> None:
    assert pluralize(count, console.vote_unit("spectral")) == text


def test_a_live_simulation_says_what_it_sent_or_that_it_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    begun = {"folder": "demo", "principals": 12, "days": 4, "until": "2026-03-18", "past": 3000}
    console.print_live_simulation(begun)
    assert capsys.readouterr().out == "not done yet: started again, it goes on where it was\n"
    console.print_live_simulation(begun | {"rest": 1200})
    assert capsys.readouterr().out == (
        "4,200 records sent of 12 principals over 4 days until 2026-03-18; "
        "attacks are labelled in demo/labels.jsonl\n"
    )


@pytest.mark.parametrize("width", [60, 80, 100, 400])
def test_ids_and_words_of_times_are_whole_at_every_width(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    table = Table("id", "when", "what", "why", box=None, pad_edge=False)
    table.add_row("3fa94c1be0d27a58", "2026-03-04 14:02", "called " * 30, "because " * 30)
    console.fit_columns(table, whole=("id",), words=("when",))
    Console().print(table)
    printed = capsys.readouterr().out
    assert {"3fa94c1be0d27a58", "2026-03-04", "14:02", "called", "because"} <= set(printed.split())
    assert max(map(len, printed.splitlines())) <= width
    assert ("2026-03-04 14:02" in printed) == (width >= 80)
