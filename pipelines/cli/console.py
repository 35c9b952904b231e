"""Progress on standard error while a program works, and summaries of the programs on standard output."""

from __future__ import annotations

import math
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from rich import progress as bars
from rich.cells import cell_len
from rich.console import Console
from rich.table import Column, Table

from fingerprint.core.credentials import mask_credentials
from fingerprint.core.sanitize import printable
from fingerprint.web.formatting import pluralize

if TYPE_CHECKING:  # a list does not need the simulator, which takes time to import
    from fingerprint.simulation.record_files import SimulationSummary

PROGRAM = "fingerprint"
FEW_HELD_OUT_DAYS = 4  # with fewer, the threshold of alerts is uncertain: too high, or the lowest allowed
MIN_TEXT_WIDTH = 20  # characters that a column of text should have
PROGRESS_SECONDS = 30.0  # between two lines about one stage, if standard error is no terminal
MAX_REASONS = 20  # reasons of rejects that are printed
FALLBACKS = {  # by level: what judges an entity that is not ready
    "principal": "their principal",
    "peer": "their peer group",
    "generic": "the organisation",
}
COLUMN_GAP = 2  # characters between the columns of a table without lines


class Progress(Protocol):
    """A function that reports progress."""

    def __call__(self, stage: str, done: int, of: int = 0) -> None:
        """Report that `done` of `of` things (0: unknown) of a stage are done."""
        ...


def no_progress(stage: str, done: int, of: int = 0) -> None:
    """Report nothing: for tests and for programs that other programs call."""


def print_stages() -> Progress:
    """Return a progress that prints a line when a stage begins, for notebooks."""
    begun: set[str] = set()

    def show(stage: str, done: int, of: int = 0) -> None:
        if stage not in begun:
            begun.add(stage)
            print(stage)

    return show


def progress_lines(clock: Callable[[], float] = time.monotonic) -> Progress:
    """Return a progress for log files: a line on standard error when a stage begins, and every PROGRESS_SECONDS after that.

    >>> progress_lines()("worlds", 2, 12)
    worlds: 2 of 12
    """
    shown_at: dict[str, float] = {}

    def show(stage: str, done: int, of: int = 0) -> None:
        now = clock()
        if now - shown_at.get(stage, -math.inf) < PROGRESS_SECONDS:
            return
        shown_at[stage] = now
        count = f": {done:,} of {of:,}" if of else f": {done:,}" if done else ""
        print(f"{stage}{count}", file=sys.stderr, flush=True)

    return show


@contextmanager
def progress_bars(shown: bool = True) -> Iterator[Progress]:
    """Show a bar for each stage on standard error while the block runs; nothing before the first stage.

    If standard error is no terminal, bars would be written only at the end, so stages are lines instead.
    """
    console = Console(stderr=True)
    if not shown or not console.is_terminal:
        yield progress_lines() if shown else no_progress
        return
    columns = (
        bars.TextColumn("{task.description:<18}"),
        bars.BarColumn(),
        bars.TextColumn("{task.completed:>10,.0f}"),
        bars.TextColumn("{task.fields[of]}"),
        bars.TimeElapsedColumn(),
    )
    display = bars.Progress(*columns, console=console)
    tasks: dict[str, bars.TaskID] = {}

    def finish() -> None:
        for task in tasks.values():
            display.update(task, total=display.tasks[task].completed or 1)

    def show(stage: str, done: int, of: int = 0) -> None:
        display.start()
        if stage not in tasks:
            finish()
            tasks[stage] = display.add_task(stage, total=None, of="")
        display.update(tasks[stage], completed=done, total=of or None, of=f"of {of:,}" if of else "")

    try:
        yield show
        finish()
    finally:
        if tasks:
            display.stop()


def simulation_figures(written: SimulationSummary, days: int) -> dict[str, Any]:
    """Return the figures of `simulate --json`."""
    return {
        "out": str(written.folder),
        "principals": written.principals,
        "days": days,
        "records": written.records,
        "duplicates": written.repeats,
        "attacks": written.attacks,
        "attack_records": written.attack_events,
    }


def print_simulation(figures: dict[str, Any]) -> None:
    """Print what was simulated."""
    print(
        f"{figures['records']:,} records of {figures['principals']} principals over {figures['days']} days in {figures['out']}"
    )
    attacks = ", ".join(f"{count} {strength}" for strength, count in figures["attacks"].items())
    if attacks:
        print(f"attack sessions: {attacks} ({figures['attack_records']:,} records), labelled in labels.jsonl")


def print_live_simulation(figures: dict[str, Any]) -> None:
    """Print what `simulate-live` sent."""
    if "rest" not in figures:
        print("not done yet: started again, it goes on where it was")
        return
    print(
        f"{figures['past'] + figures['rest']:,} records sent of {figures['principals']} principals over {figures['days']} days "
        f"until {figures['until']}; attacks are labelled in {figures['folder']}/labels.jsonl"
    )


def print_training(figures: dict[str, Any]) -> None:
    """Print the summary of `train`: what is ready, what falls back, when the rest will be ready."""
    ready, waits = figures["ready"], figures["waiting"]
    print(f"{_records_read(figures)}; learned {figures['span'][0][:16]} to {figures['span'][1][:16]} UTC")
    _print_future_dated(figures)
    if figures["ahead"]:
        print(f"not learned, because they are dated after the end of all others: {figures['ahead']:,} events")
    _print_events_outside_span(figures)
    _print_exclusions(figures)
    if figures["shifted"]:
        print(f"thresholds adjusted by dispositions: {nonzero_counts(figures['shifted'], THRESHOLD_CHANGES)}")
    print(
        f"ready: {ready['entity']:,} entities, {ready['principal']:,} principals, {ready['peer']:,} peer groups"
    )
    falls = ", ".join(
        f"{count:,} to {FALLBACKS.get(level, level)}"
        for level, count in waits["fall_back_to"].items()
        if count
    )
    print(f"not ready: {waits['entities']:,} entities" + (f" (falling back: {falls})" if falls else ""))
    when = ", ".join(
        f"{count:,} {span if span == 'later' else f'within {span}'}"
        for span, count in waits["ready_in_days"].items()
        if count
    )
    if when:
        print(f"ready at the present pace: {when}")
    print(_threshold_of_alerts(figures["alert_threshold"], figures["held_out_days"], figures["alert_budget"]))
    _print_rejections(figures)
    for warning in figures["gate"].get("warnings", []):
        print(f"promotion gate, a warning: {printable(warning)}")
    if figures["served"]:
        print(f"published bank {figures['version']} in {figures['bank']}")


def _threshold_of_alerts(z: float, days: float | None, budget: float | None) -> str:
    """Return the sentence on the threshold of alerts: its z, the held-out days that it was measured on, and the alert budget.

    `days` is None if the settings set the z, and 0 for a history of less than a day.
    """
    from fingerprint.registry.quality import LEAST_THRESHOLD

    if days is None:
        return f"alerts from z {z:.2f} on, as set"
    if not days:
        return f"alerts from z {z:.2f} on, not measured: a history of less than a day does not tell how many a day has"
    measured = (
        f"alerts from z {z:.2f} on, for a budget of {budget:.3g} false alert{'s' * (budget != 1)} a day, "
        f"measured on {days:.3g} held-out day{'s' * (days != 1)}"
    )
    if days >= FEW_HELD_OUT_DAYS:
        return measured
    if z <= LEAST_THRESHOLD:
        return f"{measured}: so few had hardly an alert, days to come may have more than the budget"
    return f"{measured}: so few make it high, more history usually lowers it"


def _print_future_dated(figures: dict[str, Any]) -> None:
    if figures["future_dated"]:
        print(f"left out, because they are dated in the future: {figures['future_dated']:,} events")


def _print_events_outside_span(figures: dict[str, Any]) -> None:
    if figures["outside"]:
        print(f"left out, because they are not of the days asked for: {figures['outside']:,} events")
    if figures["months_not_listed"]:
        print(f"not listed, months of trails that lie outside: {figures['months_not_listed']:,}")
    if figures["other_logs"]:
        print(f"other logs, not read: {figures['other_logs']:,} objects or folders")
    if figures["not_fetched"]:
        print(
            f"not fetched, by the day in their key: {figures['not_fetched']:,} of {figures['objects']:,} objects"
        )


def _print_exclusions(figures: dict[str, Any]) -> None:
    """Print which flagged events were left out of training, and which were learned."""
    database = figures["database"]
    if database["url"] is None:
        return
    print(
        f"left out, according to {escape_control_characters(database['url'])}: "
        f"{nonzero_counts(figures['left_out'], EXCLUSION_REASONS)}"
    )
    if any(figures["came_back"].values()):
        print(f"flagged and learned: {nonzero_counts(figures['came_back'], READMISSION_REASONS)}")


def nonzero_counts(figures: dict[str, int], words: dict[str, str]) -> str:
    """Return the counts that are not 0, with their words: `3 in alerts that are open, 1 ...`."""
    return (
        ", ".join(f"{figures[name]:,} {text}" for name, text in words.items() if figures[name]) or "nothing"
    )


EXCLUSION_REASONS = {
    "malicious": "triaged as malicious",
    "open": "in open alerts",
    "recent vote": "with a recent vote",
    "past the cap": "with a vote, beyond the daily limit of their entity",
}
THRESHOLD_CHANGES = {"raised": "raised", "lowered": "lowered"}
READMISSION_REASONS = {
    "called benign": "triaged as benign",
    "returned vote": "with a vote that is old enough",
}


def command_line(*words: str) -> str:
    """Return a command of this program as a line for a shell, with the path of the program if it is not on PATH."""
    called = sys.argv[0]
    by_path = Path(called).name == PROGRAM and not shutil.which(PROGRAM)
    return shlex.join((called if by_path else PROGRAM, *words))


def print_scoring(figures: dict[str, Any], database_url: str | None = None) -> None:
    """Print the summary of `score`: records, votes with their units, verdicts, alerts.

    `database_url` is the database of the command line, if any; the printed command that lists the alerts names it, too.
    """
    print(f"{_records_read(figures)}; started from: {figures['started_from']}")
    _print_future_dated(figures)
    _print_events_outside_span(figures)
    votes = ", ".join(
        f"{name} {pluralize(count, vote_unit(name))}" for name, count in figures["votes"].items()
    )
    print(
        f"stored votes: {votes}; verdicts: {pluralize(figures['verdicts'], 'event')}; "
        f"activity drops: {pluralize(figures['silent_intervals'], 'interval')}, kept as votes and never an alert"
    )
    if figures["votes_alone"]:
        print(
            f"stored votes without a second opinion: {pluralize(figures['votes_alone'], 'event')} "
            "(no other detector could judge them)"
        )
    _print_refused(figures)
    if figures["degraded"]:
        print(
            f"degraded: losses of {pluralize(figures['degraded'], 'event')} were computed in process: Triton was unavailable"
        )
    if figures["no_opinion"]:
        print(f"no opinion yet, warming up: {pluralize(figures['no_opinion'], 'interval')} of series")
    _print_rejections(figures)
    memory = f"{figures['peak_memory_bytes'] / 2**20:,.0f} MiB"
    print(f"alerts: {figures['alerts']:,} in {figures['seconds']:.1f} s, {memory} of memory at most")
    named = ("--database", mask_credentials(database_url)) if database_url else ()
    print(f"show them: {command_line('alerts', 'list', *named)}")


def _print_refused(figures: dict[str, Any]) -> None:
    """Print how many events were not judged because principals that the bank does not know had too many on a day."""
    from fingerprint.state.pipeline_state import MAX_COUNTED_PRINCIPALS  # late: not needed for help
    from fingerprint.state.unknown_principals import EVENTS_PER_QUOTA

    if figures["refused"]:
        principals = figures["refused_principals"]
        print(
            f"not judged: {pluralize(figures['refused'], 'event')} of {'at least ' * (principals >= MAX_COUNTED_PRINCIPALS)}"
            f"{pluralize(principals, 'principal')} that the bank does not know: a day has room for "
            f"{EVENTS_PER_QUOTA} that may have a vote of each, and for voting.max_unknown_principals_per_day of them; "
            "for calls that can do harm there is more"
        )


def vote_unit(detector: str) -> str:
    """Return the unit that a detector votes on: `event` or `interval`."""
    from fingerprint.detection.detectors import interval_detectors  # late: it is not needed for help

    return "interval" if detector in interval_detectors([detector]) else "event"


def print_ingest(figures: dict[str, Any]) -> None:
    """Print the summary of `ingest` when it ends."""
    print(
        f"{figures['messages']:,} messages: {figures['records']:,} records sent, {figures['dead_letters']:,} dead letters, "
        f"{figures['skipped']:,} skipped, {figures['empty']:,} empty; {figures['seconds']:.1f} s"
    )
    if figures.get("deferred"):
        print(
            f"{figures['deferred']:,} times a notification stayed in the queue: its object was unavailable (the log says why)"
        )
    if figures["dead_letters"]:
        print("show them: fingerprint dead-letters list")


def print_stream(figures: dict[str, Any]) -> None:
    """Print the summary of `stream` when it ends."""
    pace = figures["events"] / max(figures["seconds"], 0.001)
    print(
        f"{figures['messages']:,} messages: {figures['events']:,} events, {figures['duplicates']:,} duplicates, "
        f"{figures['dead']:,} dead letters, {figures['late']:,} late; {pace:,.0f} events/s"
    )
    print(
        f"verdicts: {figures['verdicts']:,} events; alerts published: {figures['alerts']:,}; "
        f"checkpoints: {figures['checkpoints']:,}"
    )
    if figures["already_trained"]:
        print(f"already learned: {pluralize(figures['already_trained'], 'event')}, not judged")
    if figures["misrouted"]:
        print(
            f"in partitions of other principals: {pluralize(figures['misrouted'], 'event')}: "
            "only `fingerprint ingest` may write the events topic; name an ordinary topic in kafka.raw_topic"
        )


def print_replay(figures: dict[str, Any]) -> None:
    """Print the summary of `replay`."""
    print(
        f"{figures['records']:,} records to {figures['topic']}, {figures['skipped']:,} skipped, "
        f"{figures['rejects']:,} rejected; {figures['seconds']:.1f} s"
    )
    _print_rejections(figures)


def print_dead_letter_replay(figures: dict[str, Any]) -> None:
    """Print the summary of `dead-letters replay`."""
    print(f"{figures['replayed']:,} dead letters sent back to {figures['topic']}")
    if "queue" in figures:
        print(f"{figures['to_queue']:,} notifications sent back to {figures['queue']}")
    if figures["without_value"]:
        print(
            f"{figures['without_value']:,} were too large for a dead letter: send them again from their origin"
        )


def _records_read(figures: dict[str, Any]) -> str:
    return (
        f"{figures['records']:,} records: {figures['events']:,} events, {figures['duplicates']:,} duplicates, "
        f"{figures['skipped']:,} skipped, {figures['rejects']:,} rejected"
    )


def _print_rejections(figures: dict[str, Any]) -> None:
    for reason in figures["reasons"][:MAX_REASONS]:
        print(f"  rejected {escape_control_characters(reason)}")
    if figures["rejects"] > MAX_REASONS:
        print(f"  ... and {figures['rejects'] - MAX_REASONS:,} more (all of the first thousand with --json)")


def fit_columns(table: Table, whole: Collection[str] = (), words: Collection[str] = ()) -> None:
    """Set the widths of columns for the terminal, once all rows are there; rich alone cuts words of a table that is too wide.

    - Cells of the columns `whole` are never wrapped.
    - Cells of the columns `words` are wrapped between words, and only if all other columns would have less than MIN_TEXT_WIDTH.
    """
    free = len(table.columns) - len({str(column.header) for column in table.columns} & {*whole, *words})
    kept = [column for column in table.columns if str(column.header) in {*whole, *words}]
    room = Console().width - sum(map(_widest_cell, kept)) - COLUMN_GAP * (len(table.columns) - 1)
    for column in kept:
        if str(column.header) in whole:
            column.no_wrap, column.min_width = True, _widest_cell(column)
        else:
            column.min_width = longest = max(map(cell_len, " ".join(_texts(column)).split()), default=0)
            column.width = longest if room < MIN_TEXT_WIDTH * free else None


def _widest_cell(column: Column) -> int:
    return max(map(cell_len, _texts(column)))


def _texts(column: Column) -> list[str]:
    return [str(cell) for cell in (column.header, *column.cells)]


def escape_control_characters(text: str) -> str:
    """Return text with its control characters escaped, safe for a terminal."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text
    )
