"""Times, durations, levels and figures as text for analysts.

Example:
    >>> format_span(datetime(2026, 3, 4, 14, 2, tzinfo=UTC), datetime(2026, 3, 4, 14, 21, tzinfo=UTC))
    '4 March 2026, 14:02:00 to 14:21:00 UTC'

Templates use this module as `fmt`, including the names that it imports `as` themselves.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta

from fingerprint.alerting.impact import MAX_RESOURCES
from fingerprint.core.alert import LEVELS, ActionImpact, Decision, Level, StepPhase
from fingerprint.core.alert import SEVERITY_LEVELS as SEVERITY_LEVELS
from fingerprint.core.alert import severity_of as severity_of
from fingerprint.core.time_range import DAY_SECONDS
from fingerprint.core.time_range import format_iso as format_iso
from fingerprint.web.language import N_, NN_, format_date, format_decimal, gettext, localise_figure, ngettext
from fingerprint.web.language import format_count as format_count

LEVEL_DESCRIPTIONS = dict(
    zip(
        LEVELS,
        (
            N_("the principal's own fingerprint of this service"),
            N_("the principal's fingerprint over all services; its history in this one is thin"),
            N_("the fingerprint of its peer group; the principal's own history is thin"),
            N_("the generic fingerprint; neither the principal nor its peers have enough history yet"),
        ),
        strict=True,
    )
)
# Names of features on screen, by the label in stored alerts. Titles, searches and exports keep the label.
FEATURE_LABELS = {
    "action": N_("Action"),
    "parameters": N_("Request parameters"),
    "resource": N_("Resource"),
    "error": N_("Error"),
    "program": N_("Program (user agent)"),
    "program version": N_("Program version"),
    "network": N_("Network"),
    "address range": N_("Address range"),
    "read or write": N_("Reading or changing"),
    "region": N_("Region"),
    "credentials": N_("Kind of credential"),
    "target account": N_("Account acted on"),
    "time of day": N_("Time of day (UTC)"),
    "age of the session": N_("Age of the session"),
    "last active": N_("Time since it was last active"),
    "events so far today": N_("Events so far that day"),
    "new sources today": N_("New addresses so far that day"),
    "new actions today": N_("New actions so far that day"),
    "amount": N_("Number of calls"),
    "next action": N_("Order of actions"),
    "opener of the role": N_("Who opened the role"),
    "call path": N_("Called without a service"),
    "another network": N_("Outside its usual networks"),
}
CHANNEL_LABELS = {  # names of the counts in a curve of activity
    "events": N_("events"),
    "errors": N_("errors"),
    "writes": N_("writes"),
    "new actions": N_("new actions"),
    "less common actions": N_("less common actions"),
}
CREDENTIAL_LABELS = {
    "access key": N_("long-term access key"),
    "user session": N_("temporary key of a user"),
    "console sign-in": N_("console sign-in"),
    "role session": N_("temporary key of a role session"),
    "federated session": N_("temporary key of a federated session"),
    "single sign-on": N_("IAM Identity Center user"),
    "root": N_("root user"),
    "service": N_("AWS service"),
    "other account": N_("another account"),
}
ACTION_FEATURES = ("action", "next action", "parameters", "call path")  # features with actions as values
RARITY_LABELS = {
    "unseen": N_("not in the history"),
    "rare": N_("rare"),
    "infrequent": N_("infrequent"),
    "frequent": N_("frequent"),
}
UNUSUAL_TOGETHER = N_("but not with the rest of the call")  # beside a rarity
PHASE_LABELS: dict[StepPhase, str] = {
    "contain": N_("Contain"),
    "verify": N_("Verify"),
    "extent": N_("Find the extent"),
    "undo": N_("Undo"),
}
DECISION_LABELS: dict[Decision, str] = {
    "true_positive": N_("true positive"),
    "benign": N_("benign"),
    "false_positive": N_("false positive"),
    "duplicate": N_("duplicate"),
}
GRAVEST_TACTICS = (
    "Impact",
    "Exfiltration",
    "Defense Evasion",
    "Credential Access",
    "Persistence",
    "Privilege Escalation",
    "Lateral Movement",
    "Command and Control",
    "Collection",
    "Execution",
    "Initial Access",
    "Discovery",
)
_BREAKS = re.compile(r"([^\w:.-])")  # what stands between the words of a value
_UNITS = ((DAY_SECONDS, N_("day")), (3600, N_("hour")), (60, N_("minute")), (1, N_("second")))
_WORDS = (  # for the catalogue alone
    N_("critical"),
    N_("high"),
    N_("medium"),
    N_("low"),
    N_("open"),
    N_("new"),
    N_("in progress"),
    N_("closed"),
    N_("none"),
    N_("Critical"),
    N_("High"),
    N_("Medium"),
    N_("Low"),
    N_("entity"),
    N_("principal"),
    N_("peer"),
    N_("generic"),
    N_("service"),
    N_("account"),
    N_("tactic"),
    N_("human"),
    N_("day"),
    N_("Service"),
    N_("Account"),
    N_("Principal"),
    N_("Tactic"),
    N_("Human"),
    N_("Day"),
    N_("User agent"),
    N_("Error code"),
    N_("Action"),
    N_("Network"),
    N_("access key"),
    N_("session"),
    N_("address"),
    N_("resource"),
    N_("Other reads"),
    N_("Other changes"),
    N_("used"),
    N_("called from"),
    N_("touched"),
    N_("assumed"),
)


def detector_label(name: str) -> str:
    """Return the name of a detector on screen."""
    from fingerprint.detection import detectors  # late: commands format times without NumPy and pandas

    return detectors.detector_label(name)


def detector_question(name: str) -> str:
    """Return the question that a detector asks about an event; empty for a detector that is no longer known."""
    from fingerprint.detection import detectors  # late, as above

    return next((each.question for each in detectors.load_known_detectors([name])), "")


def feature_label(name: str) -> str:
    """Return the name of a feature on screen; a feature of a detector from another package keeps its own."""
    return gettext(FEATURE_LABELS[name]) if name in FEATURE_LABELS else name


def channel_label(name: str) -> str:
    """Return the name on screen of the counts in a curve of activity; an action keeps its own name.

    >>> channel_label("new actions"), channel_label("GetObject")
    ('new actions', 'GetObject')
    """
    return gettext(CHANNEL_LABELS[name]) if name in CHANNEL_LABELS else name


def plain_actions(text: str) -> str:
    """Return a text with plain names for the actions (`service:Action`) in it.

    >>> plain_actions("lambda:GetPolicy20150331v2, s3:GetObject")
    'lambda:GetPolicy, s3:GetObject'
    """
    from fingerprint.sources.active import SOURCE  # late, as above

    return "".join(SOURCE.plain_action(part) for part in _BREAKS.split(text))


def plain_value(feature: str, text: str) -> str:
    """Return a value of a feature with plain names for its actions; other names in it stay as they are.

    >>> plain_value("resource", "lambda:GetFunction20150331v2 on function:Backup20240101")
    'lambda:GetFunction on function:Backup20240101'
    >>> plain_value("amount", "2 calls of lambda:GetFunction20150331v2 in an hour")
    '2 calls of lambda:GetFunction in an hour'
    """
    if feature in ACTION_FEATURES:
        return plain_actions(text)
    words = text.split(" ")
    return " ".join(
        plain_actions(word)
        if words[place + 1 : place + 2] == ["on"] or words[max(0, place - 2) : place] == ["calls", "of"]
        else word
        for place, word in enumerate(words)
    )


def level_description(name: Level) -> str:
    """Return the fingerprint level that scored the events, as a phrase."""
    return gettext(LEVEL_DESCRIPTIONS[name])


def sentence(text: str) -> str:
    """Return an error's text with a capital letter at its start, unless it starts with the name of a setting."""
    return text[:1].upper() + text[1:] if text.partition(" ")[0].rstrip(",").isalpha() else text


def format_time(moment: datetime) -> str:
    """Return the time of day in UTC: 14:03:07."""
    return f"{moment.astimezone(UTC):%H:%M:%S}"


def format_day(moment: datetime) -> str:
    """Return the day in UTC: 4 March 2026."""
    there = moment.astimezone(UTC)
    return format_date(there, f"{there.day} {there:%B %Y}", "yMMMMd")


def format_stamp(moment: datetime, seconds: bool = False) -> str:
    """Return day and time in UTC, short: 2026-03-04 14:02, or 2026-03-04 14:02:07."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M{':%S' if seconds else ''}}"


def format_short_day(day: date) -> str:
    """Return a day without its year: 4 Mar."""
    return format_date(day, f"{day.day} {day:%b}", "MMMd")


def format_span(first: datetime, last: datetime) -> str:
    """Return the first and last time; if both are on one day, the day is written once."""
    start = f"{format_day(first)}, {format_time(first)}"
    if first == last:
        return f"{start} UTC"
    end = (
        format_time(last)
        if format_day(first) == format_day(last)
        else f"{format_day(last)}, {format_time(last)}"
    )
    return gettext("%(start)s to %(end)s UTC", start=start, end=end)


def format_duration(first: datetime, last: datetime) -> str:
    """Return the two largest units of a duration: `19 minutes`, `1 hour 5 minutes`; `less than a second` for none."""
    left, parts = int((last - first).total_seconds()), []
    for seconds, unit in _UNITS:
        count, left = divmod(left, seconds)
        if count:
            parts.append(count_of(count, unit))
    return " ".join(parts[:2]) or gettext("less than a second")


def format_ago(then: datetime, now: datetime) -> str:
    """Return the elapsed time in its largest unit: `just now`, `1 minute ago`, `3 days ago`."""
    seconds = max(0, int((now - then).total_seconds()))
    count, unit = next(((seconds // size, unit) for size, unit in _UNITS if seconds >= size), (0, "second"))
    if unit == "second":
        return gettext("just now")
    words = {
        "minute": NN_("%(num)s minute ago", "%(num)s minutes ago"),
        "hour": NN_("%(num)s hour ago", "%(num)s hours ago"),
        "day": NN_("%(num)s day ago", "%(num)s days ago"),
    }
    return ngettext(*words[unit], count)


def format_elapsed(then: datetime, now: datetime) -> str:
    """Return the elapsed time in its largest unit, without `ago`: `1 minute`, `3 days`."""
    seconds = max(0, int((now - then).total_seconds()))
    count, unit = next(((seconds // size, unit) for size, unit in _UNITS if seconds >= size), (0, "second"))
    return gettext("just now") if unit == "second" else count_of(count, unit)


def format_age(then: datetime, now: datetime) -> str:
    """Return the elapsed time in its largest unit, short: `now`, `5 min`, `3 h`, `12 d`."""
    seconds = max(0, int((now - then).total_seconds()))
    for size, unit in ((DAY_SECONDS, N_("d")), (3600, N_("h")), (60, N_("min"))):
        if seconds >= size:
            return f"{seconds // size} {gettext(unit)}"
    return gettext("now")


def order_tactics(tactics: Iterable[str]) -> list[str]:
    """Return tactics, the gravest first: what does harm, then what lets an attacker stay, then what only looks around."""
    place = {name: at for at, name in enumerate(GRAVEST_TACTICS)}
    return sorted(tactics, key=lambda name: (place.get(name, len(place)), name))


def short_principal(principal: str) -> str:
    """Return a principal without its account, which has a column of its own: `user/ana` of `123456789012:user/ana`."""
    account, separator, name = principal.partition(":")
    return name if separator and name and account.isdecimal() else principal


def short_person(principal: str) -> str:
    """Return a principal without its account, and a person also without their role.

    `123456789012:role/Admin/ana@example.org` becomes `ana@example.org`.
    """
    name = short_principal(principal)
    last = name.rpartition("/")[2]
    return last if "@" in last else name


def split_title(title: str) -> tuple[str, str]:
    """Return the two parts of a title: the actor (`ana called `), and the action (`iam:CreateUser from ...`).

    A table has a column of its own for the actor. The first part is empty if the title has none of our verbs.
    """
    who, verb, what = title.partition(" called ")
    if verb and " tried " not in who:
        return who + verb, what
    who, verb, what = title.partition(" tried ")
    return (f"{who} ", f"tried {what}") if verb else ("", title)


def pluralize(count: int, noun: str) -> str:
    """Return a count with its noun: `1 event`, `1,200 events`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def count_of(count: int, unit: str) -> str:
    """Return a count of a unit of time in the language of the page: `1 hour`, `15 minutes`."""
    if unit == "day":
        return ngettext("%(num)s day", "%(num)s days", count)
    if unit == "hour":
        return ngettext("%(num)s hour", "%(num)s hours", count)
    if unit == "minute":
        return ngettext("%(num)s minute", "%(num)s minutes", count)
    return ngettext("%(num)s second", "%(num)s seconds", count)


def impact_facts(each: ActionImpact) -> str:
    """Return an action's events, failures, novelty and whether it counts, in words: `3 events, all failed, new`."""
    parts = [ngettext("%(num)s event", "%(num)s events", each.calls)]
    if each.failed and not each.dry_run:
        all_failed = each.failed == each.calls
        parts.append(
            gettext("all failed") if all_failed else gettext("%(num)s failed", num=format_count(each.failed))
        )
    new = gettext("from a new network") if each.new_place else gettext("usual here")
    new = gettext("more than ever in the history") if each.in_bulk else new
    support = [gettext("supports the alert")] if each.supporting else []
    return ", ".join([*parts, gettext("new") if each.new else new, *support])


def more_resources(each: ActionImpact, shown: int) -> str:
    """Return the number of an action's resources that are not shown: `and 1 more`; a lower bound if not all are stored."""
    more = len(each.resources) - shown
    if more <= 0:
        return ""
    if len(each.resources) >= MAX_RESOURCES:
        return ngettext("and at least %(num)s more", "and at least %(num)s more", more)
    return ngettext("and %(num)s more", "and %(num)s more", more)


def interval_unit(seconds: int) -> str:
    """Return an interval's length, as it follows the word `per`: `hour`, `15 minutes`."""
    size, unit = next((size, unit) for size, unit in _UNITS if seconds % size == 0)
    return gettext(unit) if seconds == size else count_of(seconds // size, unit)


def interval_start(start: datetime, seconds: int, index: int) -> datetime:
    """Return the start of the interval number `index`."""
    return start + timedelta(seconds=seconds * index)


def format_rate(per_day: float) -> str:
    """Return a number of alerts a day: `6.43`; below one also the days between two: `0.12 (one in 8 days)`."""
    days = round(1 / per_day) if per_day > 0 else 0
    figure = localise_figure(f"{per_day:g}")
    return gettext("%(figure)s (one in %(days)s days)", figure=figure, days=days) if days > 1 else figure


def format_figure(value: float) -> str:
    """Return a count or an expected count, short: `34`, `1,200`, `0.2`; `?` for NaN."""
    if math.isnan(value):
        return "?"
    return localise_figure(f"{value:,.0f}" if value >= 100 or value == round(value) else f"{value:.2g}")


def format_threshold(base: float, shift: float, benign: int, malicious: int) -> str:
    """Return a threshold with its shift by dispositions: `4.0 + 0.7 (3 alerts closed as benign)`; `4.0` without one."""
    shifts = [
        ngettext(*words, count)
        for count, words in (
            (benign, NN_("%(num)s alert closed as benign", "%(num)s alerts closed as benign")),
            (malicious, NN_("%(num)s alert closed as malicious", "%(num)s alerts closed as malicious")),
        )
        if count
    ]
    moved = f" {'+' if shift >= 0 else '-'} {format_decimal(abs(base * shift), 1)}" if shift else ""
    return f"{format_decimal(base, 1)}{moved}" + (f" ({', '.join(shifts)})" if shifts else "")


def abbreviate(value: float) -> str:
    """Return a figure for an axis: `40`, `20k`, `1.2M`."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= 10 * size or (value >= size and size > 1e3):
            return localise_figure(f"{value / size:.3g}{unit}")
    return localise_figure(f"{value:.4g}")


def format_odds(nats: float) -> str:
    """Return N = e^nats, with two significant figures: a surprise of so many nats is seen once in N values."""
    odds = math.exp(min(max(nats, 0.0), 30.0))
    if odds >= 1e6:
        return gettext("over a million")
    digits = 1 - math.floor(math.log10(odds))
    figure = f"{round(odds, digits):,.{max(digits, 0) if odds < 10 else 0}f}"
    return localise_figure(figure)
