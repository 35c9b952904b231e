"""The standing table: every method on the same events, at the same numbers of alerts, and the worth of each vote and each term.

Example:
    >>> for table in standing_tables(figures):            # of `run_evaluation` or `evaluate_worlds`
    ...     console.print(table)

docs/explanation/evaluation.md explains its rows and columns.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table

from fingerprint.evaluation.metrics import ALERT_BUDGETS, PRINCIPAL_BUDGETS, QUEUE_BUDGET, Figures
from fingerprint.evaluation.vote_rates import EVENTS, VERDICTS, vote_shares

EMPTY_CELL = "[dim]-[/dim]"
TABLE_ROLES = ("queue", "left out", "detector", "peer")
LEADS_MEAN = (
    "Then leads: the served queue first, then what came near to an alert, as an analyst reads it who has time left;\n"
    "own, alerts and false ones are those of the queue alone.\n"
)
FOUND_MEANS = (
    "Found: at least a tenth of an alert's events are the session's. Equal: with as many alerts as the first row\n"
    f"shows. Read at {QUEUE_BUDGET} a day: the attack's share of a true alert's events; alerts of a principal that has one\n"
    "already; held after: event time from a session's first event to the first one that its alert holds, not to the\nalert."
)


def standing_tables(figures: Figures) -> list[Table]:
    """Return the tables: methods, terms left out, votes on harmless events, and what changes when a vote is left out."""
    methods = figures["methods"]
    tables = [methods_table(methods)]
    if any(method["role"] == "term" for method in methods):
        tables.append(terms_table(methods))
    tables.append(vote_rates_table(figures["vote_counts"]))
    if figures["vote_effects"]:
        tables.append(vote_effects_table(figures["vote_effects"]))
    return tables


def methods_table(methods: Sequence[Figures]) -> Table:
    """Return a row for each method: queues, detectors left out and alone, peers. Methods with a term left out are elsewhere."""
    heads = [*map(str, ALERT_BUDGETS), "equal", "own", "alerts", "false/100", "share", "again", "held after"]
    table = figures_table(f"Of {methods[0]['sessions']} sessions found at", *heads)
    table.caption = (
        f"{equal_alerts_sentence(methods)}"
        f"{budgets_sentence(methods[0])}"
        f"{', '.join(map(str, ALERT_BUDGETS))}: alerts a day of the whole organisation. Own: at the method's threshold,\n"
        f"with its alerts a day and false ones a day per 100 principals.\n{LEADS_MEAN}{FOUND_MEANS}"
    )
    for role in TABLE_ROLES:
        rows = [method for method in methods if method["role"] == role]
        for method in rows:
            queue = method["queue"]
            table.add_row(
                method["name"],
                *_found_cells(method),
                _share(method["recall"]),
                f"{method['alerts_per_day']:.1f}",
                f"{method['false_alerts_per_day_per_100_principals']:.1f}",
                _share(queue["attack_share"]),
                _share(queue["repeated_alerts"]),
                format_duration(queue["median_seconds_to_detect"]),
                end_section=method is rows[-1],
            )
    return table


def most_found(method: Figures, budget: str) -> float:
    """Return the largest share of sessions that can be found within a budget: if each alert that is read shows another session.

    >>> most_found({"alerts_read": {"5": 35, "20": 140}, "sessions": 70}, "5")
    0.5
    """
    return min(float(method["alerts_read"][budget] / method["sessions"]), 1.0)


def budgets_sentence(method: Figures) -> str:
    """Return a sentence for each budget with fewer alerts than sessions, which limits every ranking; empty if there is none.

    >>> budgets_sentence({"alerts_read": {"5": 35, "20": 140}, "sessions": 67})
    'At 5 a day 35 alerts are read for 67 sessions: about 52% can be found at most.\\n'
    """
    sessions = method["sessions"]
    return "".join(
        f"At {budget} a day {read} alerts are read for {sessions} sessions: about {share:.0%} can be found at most.\n"
        for budget, read in method["alerts_read"].items()
        if (share := most_found(method, budget)) < 1
    )


def equal_alerts_sentence(methods: Sequence[Figures]) -> str:
    """Return the sentence that compares the quorum with its best detector alone, at as many alerts; empty without such a row."""
    alone = [method for method in methods if method["role"] == "detector"]
    if not alone:
        return ""
    served, best = methods[0], max(alone, key=lambda method: int(method["found_at_equal_alerts"]))
    return (
        f"Doubly flagged finds {served['found_at_equal_alerts']} of {served['sessions']} sessions; the best detector with as\n"
        f"many alerts, {best['name']}, {best['found_at_equal_alerts']}.\n"
    )


def terms_table(methods: Sequence[Figures]) -> Table:
    """Return a row for each detector with all terms, and below it a row for each term left out, ranked by z without thresholds.

    The served queue follows, and below it the queue with each term of its rank left out.
    """
    table = figures_table("Term left out, ranked by z", *map(str, ALERT_BUDGETS), "equal", "share", "again")
    table.caption = (
        "The tails of the score stay those that were learned with all terms. Without nets: counts alone; without\n"
        "counts: nets alone. The first row of a block has all terms; that of urgency is the served queue, whose alerts\n"
        "stay the same in another order."
    )
    terms = [method for method in methods if method["role"] == "term"]
    for detector in dict.fromkeys(method["name"].split(" without ")[0] for method in terms):
        without_terms = [method for method in terms if method["name"].startswith(f"{detector} without ")]
        whole = [method for method in methods if method["name"] == f"{detector} alone"] or methods[:1]
        for method in (*whole, *without_terms):
            queue = method["queue"]
            table.add_row(
                method["name"],
                *_found_cells(method),
                _share(queue["attack_share"]),
                _share(queue["repeated_alerts"]),
                end_section=method is without_terms[-1],
            )
    return table


def vote_rates_table(counts: Figures) -> Table:
    """Return a row for each kind of principal, with the share of its harmless events that each detector votes for."""
    shares = vote_shares(counts)
    names = [name for name in next(iter(shares.values()), {}) if name not in (EVENTS, VERDICTS)]
    table = figures_table("Votes on harmless events", "events", *names, "verdict")
    table.caption = (
        "By kind of principal; CI by the role's name. What passes everything of a kind filters nothing there."
    )
    for kind, share in shares.items():
        table.add_row(
            kind, f"{share[EVENTS]:,}", *(f"{share[name]:.1%}" for name in names), f"{share[VERDICTS]:.2%}"
        )
    return table


def vote_effects_table(effects: Figures) -> Table:
    """Return a row for each detector: the events, alerts and found sessions that differ if the quorum lacks it."""
    table = figures_table("Left out of the quorum", "events", "alerts", "sessions found")
    table.caption = "How many differ from the served queue. A vote that changes no alert and no session fails the evaluation."
    for name, effect in effects.items():
        idle = not effect["alerts"] and not effect["sessions"]
        table.add_row(
            f"[bold]{name}: changes nothing[/bold]" if idle else name,
            *(f"{effect[each]:,}" for each in ("events", "alerts", "sessions")),
        )
    return table


def _found_cells(method: Figures) -> list[str]:
    sessions = method["sessions"]
    equal = method["found_at_equal_alerts"] / sessions if sessions else None
    return [*(_share(method["recall_at"][str(at)]) for at in ALERT_BUDGETS), _share(equal)]


def _share(share: float | None) -> str:
    return EMPTY_CELL if share is None else f"{share:.0%}"


def format_duration(seconds: float | None) -> str:
    """Return `90 s` or `3 min`; EMPTY_CELL for None."""
    if seconds is None:
        return EMPTY_CELL
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def figures_table(first: str, *others: str) -> Table:
    """Return an empty table of figures; the first column is for names."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True, caption_justify="left")
    table.add_column(first, no_wrap=True)
    for name in others:
        table.add_column(name, justify="right", no_wrap=True)
    return table


# --- real logs ----------------------------------------------------------------------------------------------


def real_attack_tables(figures: Figures) -> list[Table]:
    """Return a table for each real set with moved sessions, and for each labelled one (`labelled_sets.evaluate_real_sets`)."""
    tables = []
    for each in figures["masquerade"]:
        table = _per_100_table(f"{each['set']}: of {each['sessions']} moved sessions", each["methods"])
        table.caption = (
            f"Real records: {each['records']:,} of {each['principals']} principals in {each['minutes']:.0f} minutes, "
            f"{each['draws']} draws. Sessions of one principal\nmade with the identity of another, found at so many alerts a day "
            "per 100 principals; less than a day\ncounts as a day."
        )
        tables.append(table)
    for each in figures["labelled"]:
        learned = {
            "own": "its own beginning",
            "cut away": f"its beginning without the attacked ({each['cut_away']:,} records)",
            "simulated": "weeks of a simulated organisation",
        }[each["history"]]
        table = _per_100_table(f"{each['set']}: of {each['sessions']} labelled sessions", each["methods"])
        table.caption = (
            f"Real attacks, default settings. Learned: {learned}.\nThe quorum flags {each['attack_events_flagged']} of "
            f"{each['attack_events']} attack events among {each['judged']:,} that are judged."
        )
        tables.append(table)
    return tables


def _per_100_table(title: str, methods: Figures) -> Table:
    table = figures_table(title, *(f"{budget} per 100" for budget in PRINCIPAL_BUDGETS), "own", "alerts")
    for role in TABLE_ROLES:
        for name, method in methods.items():
            if method["role"] == role:
                shares = [_share(method["recall_per_100"][str(budget)]) for budget in PRINCIPAL_BUDGETS]
                table.add_row(name, *shares, str(method["found"]), str(method["alerts"]))
    return table
