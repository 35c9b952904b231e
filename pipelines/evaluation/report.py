"""The figures of `evaluate` as tables on the screen; a table that is too wide is divided into several, one below the other."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Column, Table

from fingerprint.evaluation.false_alert_causes import ORDINARY_DAY
from fingerprint.evaluation.metrics import ALERT_BUDGETS, Figures
from fingerprint.evaluation.severity import WORDS
from pipelines.evaluation.standing_table import (
    EMPTY_CELL,
    figures_table,
    format_duration,
    real_attack_tables,
    standing_tables,
)

STRENGTHS = ("smash", "session", "quiet", "mimic")  # loudest first
ALERT_BUDGET = "20"  # alerts a day, for tables that show one budget alone
CONFIDENCE = "95 %"  # interval
CONSOLE_WIDTH = 110  # characters, if the output is no terminal
MAX_WIDTH = 1_000  # characters, more than any table has
MOST_NAMED = 5  # sessions that a sentence names
SIMULATED = "All of the above is simulated, but for the attack calls: what holds here alone is a claim about simulation."


def print_evaluation(figures: Figures) -> None:
    """Print each organisation, then the standing tables, and tables of what the methods find.

    These are for each method's threshold, for alert budgets, and by strength of the attack. The time to alert, severities and the
    causes of false alerts follow.
    """
    console = _console()
    for about in figures["organisations"]:
        console.print(_describe_organisation(about), highlight=False)
    methods = [method for method in figures["methods"] if method["role"] != "term"]
    tables = standing_tables(figures)
    tables += [_threshold_table(methods), _budget_table(methods), _strength_table(methods)]
    tables += [time_to_alert_table(figures["time_to_alert"])] if figures["time_to_alert"] else []
    tables += [_urgency_table(figures["by_urgency"]), _severity_table(figures["severity"])]
    tables += [_causes_table(methods[0])] if methods[0].get("by_surprise") else []
    for table in tables:
        _print_table(console, table)
        console.print()
    for sentence in figures["left_out"]:
        console.print(sentence, style="dim", highlight=False)
    if "seed" in figures["organisations"][0]:
        console.print(SIMULATED, style="dim", highlight=False)
    if "real" in figures:
        _print_real_datasets(figures["real"], console)
    for table in real_attack_tables(figures["real_attacks"]) if "real_attacks" in figures else ():
        _print_table(console, table)


def _print_table(console: Console, table: Table) -> None:
    """Print a table and its caption; if the terminal is too narrow, divide the columns into several tables, and cut none."""
    caption, table.caption = table.caption, None
    for part in divide_columns(table, console.width):
        console.print(part)
    if caption:
        console.print(caption, style="dim", highlight=False)


def divide_columns(table: Table, width: int) -> list[Table]:
    """Return tables of at most `width` characters, which together have all columns; each has the first column.

    An interval stays beside its figure. Each table has at least two columns, even if it is too wide then.

    >>> table = Table("method", "smash", CONFIDENCE, "quiet", CONFIDENCE)
    >>> [[str(column.header) for column in part.columns] for part in divide_columns(table, 30)]
    [['method', 'smash', '95 %'], ['method', 'quiet', '95 %']]
    """
    groups: list[list[int]] = []
    for at, column in enumerate(table.columns[1:], 1):
        if column.header == CONFIDENCE and groups:
            groups[-1].append(at)
        else:
            groups.append([at])
    parts: list[list[int]] = [[0]]
    for group in groups:
        if len(parts[-1]) > 1 and _width(_with_columns(table, [*parts[-1], *group])) > width:
            parts.append([0])
        parts[-1] += group
    return [table] if len(parts) == 1 else [_with_columns(table, part) for part in parts]


def _with_columns(table: Table, chosen: Sequence[int]) -> Table:
    columns = [table.columns[at] for at in chosen]
    part = Table(*map(Column.copy, columns), box=table.box, pad_edge=table.pad_edge)
    part.collapse_padding = table.collapse_padding
    for row, cells in zip(table.rows, zip(*(column.cells for column in columns), strict=True), strict=True):
        part.add_row(*cells, style=row.style, end_section=row.end_section)
    return part


def _width(table: Table) -> int:
    """Return the width of a table in characters if no cell is cut."""
    wide = Console(width=MAX_WIDTH)
    return Measurement.get(wide, wide.options, table).maximum


def _print_real_datasets(sets: list[Figures], console: Console) -> None:
    """Print the figures of the real sets, and a note on what each set can show."""
    table = figures_table(
        "Real sets",
        "records",
        "rejects",
        "learned",
        "judged",
        *sets[0]["votes"],
        "verdicts",
        "alerts",
    )
    for each in sets:
        counts = [each[name] for name in ("records", "rejects", "learned", "judged")]
        counts += [*each["votes"].values(), each["verdicts"], each["alerts"]]
        table.add_row(each["set"], *(f"{count:,}" for count in counts))
    _print_table(console, table)
    for each in sets:
        console.print(f"{each['set']}: {each['note']}", style="dim", highlight=False)


def _console() -> Console:
    console = Console()
    return console if console.is_terminal else Console(width=CONSOLE_WIDTH)


def _describe_organisation(about: Figures) -> str:
    seed = f"Seed {about['seed']}: " if "seed" in about else ""
    learned = (
        f" ({about['attack_events_learned']} attack events in what was learned)"
        if about["attack_events_learned"]
        else ""
    )
    return (
        f"{seed}{about['events']:,} events of {about['principals']:,} principals; "
        f"{_format_days(about['days_learned'])} learned{learned}, {_format_days(about['days_judged'])} judged, in them "
        f"{about['attack_sessions']} attack sessions with {about['attack_events']:,} of "
        f"{about['events_judged']:,} events.{_describe_leakage(about.get('form'))}"
        f"{_describe_missing(about['sessions_without_events'])}"
        f"{' ' * bool(about['skipped'])}{about['skipped']}"
    )


def _describe_missing(sessions: Sequence[str]) -> str:
    if not sessions:
        return ""
    names = ", ".join(sessions[:MOST_NAMED]) + (", ..." if len(sessions) > MOST_NAMED else "")
    return (
        f"\n{len(sessions)} labelled sessions have no event among the records and count nowhere: {escape(names)}. "
        "Are files missing, or do the ids in labels.jsonl differ?"
    )


def _describe_leakage(form: Figures | None) -> str:
    return f" Form alone: AUC {form['auc']:.2f}." if form and form["auc"] is not None else ""


def _threshold_table(methods: list[Figures]) -> Table:
    """Return a table of each method's figures by event, and by alert and attack session."""
    heads = ["P ev", "R ev", "F1 ev", "AP ev", "P al", "R ses", "F1", "AP al", "alerts", "false"]
    several = methods[0]["intervals"]["false_alerts_per_day"] is not None
    table = figures_table("At each method's threshold", *heads, *([CONFIDENCE] if several else []))
    table.caption = (
        "ev: per event; al, ses: per alert and attack session. P precision, R recall, AP average precision of the\n"
        "ranking. Alerts and false alerts a day"
        + (", these with their interval over seeds." if several else ".")
    )
    for method in methods:
        event, session = method["per_event"], method["per_session"]
        names = ("precision", "recall", "f1", "average_precision")
        sure = method["intervals"]["false_alerts_per_day"]
        table.add_row(
            method["name"],
            *(f"{part[name]:.2f}" for part in (event, session) for name in names),
            f"{method['alerts_per_day']:.1f}",
            f"{method['false_alerts_per_day']:.1f}",
            *([_format_interval(sure)] if sure else []),
        )
    return table


def _budget_table(methods: list[Figures]) -> Table:
    there = methods[0]["sessions"]
    heads = [f"{budget} a day" for budget in ALERT_BUDGETS]
    table = figures_table(
        f"Sessions found, of {there}",
        "threshold",
        CONFIDENCE,
        *(x for head in heads for x in (head, CONFIDENCE)),
    )
    table.caption = "At the method's threshold, and when an analyst reads so many alerts a day (of the whole organisation)."
    for method in methods:
        sure = method["intervals"]
        cells = [(method["recall"], sure["recall"])]
        cells += [(method["recall_at"][str(at)], sure["recall_at"][str(at)]) for at in ALERT_BUDGETS]
        table.add_row(
            method["name"], *(x for share, interval in cells for x in _format_share(share, interval))
        )
    return table


def _strength_table(methods: list[Figures]) -> Table:
    strengths = _order_strengths(methods[0]["by_strength"])
    heads = [f"{name} ({methods[0]['by_strength'][name]['sessions']})" for name in strengths]
    table = figures_table(
        f"At {ALERT_BUDGET} alerts a day", *(x for head in heads for x in (head, CONFIDENCE))
    )
    table.caption = "Sessions found by strength; how many there are in brackets."
    for method in methods:
        cells = [
            (part["recall_at"][ALERT_BUDGET], sure["recall_at"][ALERT_BUDGET])
            for part, sure in (
                (method["by_strength"][name], method["intervals"]["by_strength"][name]) for name in strengths
            )
        ]
        table.add_row(
            method["name"], *(x for share, interval in cells for x in _format_share(share, interval))
        )
    return table


def time_to_alert_table(times: Figures) -> Table:
    """Return the table of the time from an attack's first event to its alert, by strength."""
    table = figures_table("From first event to alert", "found", "median", "p90", "events", "p90")
    table.caption = (
        "Event time from a session's first event to the record that made the verdict, and how many events of the\n"
        "session had arrived by then. What delivery and the service take comes on top (docs/explanation/results.md)."
    )
    for name in ("all", *_order_strengths({name: part for name, part in times.items() if name != "all"})):
        part = times[name]
        table.add_row(
            name,
            str(part["sessions"]),
            *(format_duration(part[f"{word}_seconds"]) for word in ("median", "p90")),
            *(f"{part[f'{word}_events']:.0f}" for word in ("median", "p90")),
        )
    return table


def _urgency_table(by_urgency: Figures) -> Table:
    strengths = _order_strengths(by_urgency["0"]["found_by_strength"])
    sessions = by_urgency["0"]["sessions"]
    table = figures_table("Urgency at least", "found", "share", *strengths, "alerts a day", "false a day")
    table.caption = (
        f"Of {sessions} attack sessions, those with an alert of at least this urgency: what a receiver with this\n"
        "deliver.NAME.min_urgency is sent, but for roll-outs: the urgency of the queue and of receivers is lowered\n"
        "where many principals share what surprises, this one is not. Alerts a day are of one organisation."
    )
    for floor, part in by_urgency.items():
        table.add_row(
            floor,
            str(part["found"]),
            f"{part['found'] / sessions:.0%}" if sessions else EMPTY_CELL,
            *(str(part["found_by_strength"].get(name, 0)) for name in strengths),
            f"{part['alerts_per_day']:.2f}",
            f"{part['false_alerts_per_day']:.2f}",
        )
    return table


def _severity_table(severity: Figures) -> Table:
    attacks, harmless = severity["attack_alerts"], severity["harmless_alerts"]
    table = figures_table(
        "Severity at least",
        "attack alerts, rarity alone",
        "with impact",
        "harmless, rarity alone",
        "with impact",
    )
    table.caption = (
        f"Of {attacks} alerts of attacks and {harmless} harmless ones. In {severity['hidden_actions']} of the "
        f"{severity['alerts_with_grave_action']} attack alerts with a\n"
        "grave new action, rarity alone would have led the title with another one. "
        f"{severity['harmless_alerts_with_grave_action']} harmless alerts have such an action.\n"
        "Urgency is each alert's own, before the queue lowers it for what many principals share."
    )
    for word in WORDS:
        cells = [
            (severity[measure][word][kind], total)
            for kind, total in (("attack_alerts", attacks), ("harmless_alerts", harmless))
            for measure in ("rarity", "urgency")
        ]
        table.add_row(
            word, *(f"{count} ({count / total:.0%})" if total else EMPTY_CELL for count, total in cells)
        )
    return table


def _causes_table(served: Figures) -> Table:
    table = figures_table(
        "Our false alerts by cause", "principal-days", "false alerts", "per 1,000 days", "highest urgency"
    )
    table.caption = "An alert counts for each anomaly that its principal had on that day."
    causes = served["by_surprise"]
    for name in sorted(causes, key=lambda name: (name == ORDINARY_DAY, name)):
        part = causes[name]
        days, false, highest = part["principal_days"], part["false_alerts"], part["highest_score"]
        table.add_row(
            name.replace("_", " "),
            f"{days:,}",
            f"{false:,}",
            f"{1000 * false / days:.1f}" if days else EMPTY_CELL,
            f"{highest:.0f}" if highest is not None else EMPTY_CELL,
        )
    return table


def _order_strengths(strengths: Figures) -> list[str]:
    return sorted(strengths, key=lambda name: (STRENGTHS.index(name) if name in STRENGTHS else 9, name))


def _format_share(share: float, interval: list[float] | None) -> tuple[str, str]:
    return (
        f"{share:.0%}",
        f"[dim]{interval[0] * 100:.0f}-{interval[1] * 100:.0f}[/dim]" if interval else EMPTY_CELL,
    )


def _format_interval(interval: list[float]) -> str:
    return f"[dim]{max(interval[0], 0):.1f}-{interval[1]:.1f}[/dim]"


def _format_days(days: float) -> str:
    return f"{days:.0f} days" if days >= 2 else f"{days * 24:.1f} hours"
