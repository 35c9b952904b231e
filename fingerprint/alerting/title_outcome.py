"""Outcome of calls in a title: how many failed or were throttled, and which others succeeded.

Example:
    >>> failures_text(facts)
    '; all 3 failed, but s3:GetObject and 1 other action succeeded'
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from fingerprint.alerting.title_facts import (
    TitleFacts,
    calls_of,
    counts_successes,
    harmful_actions,
    new_reads_beside,
    succeeded_there,
)
from fingerprint.alerting.title_words import MAX_NAME_LENGTH, count_text, cut, missing_calls, them
from fingerprint.core.alert import AlertEvent
from fingerprint.features.encoding import FEATURE_SET
from fingerprint.sources.active import SOURCE


def failures_text(facts: TitleFacts) -> str:
    """Return how many events failed or were throttled, and what succeeded nevertheless; empty if none failed.

    - If all of the alert's own events failed, the supporting actions that succeeded are named.
    - If only all calls of the leading action failed, it is said that supporting calls of it succeeded, with their resources.
    - Where the title counts more calls than the alert has, failures are counted among `the N shown`: own and supporting events.
    - Where the title counts only calls that succeeded, failures are counted as `N more`.
    """
    failed = sum(bool(event.error_code) for event in facts.events)
    if not failed:
        return ""
    lead, tried = facts.lead
    every = (*facts.events, *facts.supporting)
    if counts_successes(facts, lead):
        beside, counts = " more", _failed_and_throttled(facts.events)
    elif missing_calls(facts, lead) > 0:
        beside, counts = f" of the {len(every):,} shown", _failed_and_throttled(every)
    else:
        beside, counts = "", _failed_and_throttled(facts.events)
    counted = ", ".join(
        f"{count:,}{'' if place else beside} {word}" for place, (word, count) in enumerate(counts.items())
    )
    if failed < len(facts.events):
        return f"; {counted}{_tried(facts, failed)}{_but_done(facts, lead) if tried else ''}"
    done = _succeeded(facts, lead, is_counted=bool(beside))
    if not beside and len(counts) == 1:
        counted = f"{'all ' if len(facts.events) > 1 and not done else ''}{next(iter(counts))}"
    return f"; {counted}{f', but {done} succeeded' if done else ''}"


def _failed_and_throttled(events: Sequence[AlertEvent]) -> Counter[str]:
    """Return how many events failed, how many were throttled (clients repeat those), and how many were dry runs.

    >>> _failed_and_throttled(events)
    Counter({'failed': 2, 'throttled': 1})
    """
    codes = [event.error_code for event in events if event.error_code]
    is_throttled, is_allowed = FEATURE_SET.throttled.__contains__, FEATURE_SET.dry_runs.__contains__
    ordered = sorted(codes, key=lambda code: (is_allowed(code), is_throttled(code)))
    return Counter(
        "allowed in a dry run" if is_allowed(code) else "throttled" if is_throttled(code) else "failed"
        for code in ordered
    )


def _succeeded(facts: TitleFacts, lead: str, is_counted: bool) -> str:
    """Return the supporting actions that succeeded: one by name (the gravest, else a new read of data), the others counted.

    Supporting calls of the leading action from the same place stand first, as `other calls of it`, with their resource unless the
    own calls were throttled. Without a resource they are left out beside a count of the failed calls (`is_counted`).
    """
    gravest = [row.action for row in facts.supporting_actions if row.succeeded]
    reads = new_reads_beside(facts)
    others = [event.action_name for event in facts.supporting if not event.error_code]
    done = list(dict.fromkeys((*gravest, *reads, *others)))
    named = []
    if succeeded_there(facts, lead):
        done.remove(lead)
        throttled = {event.error_code for event in calls_of(facts, lead)} <= FEATURE_SET.throttled
        on = "" if throttled else _done_beside(facts, lead)
        named += [f"other calls of it{on}"] if on or not is_counted else []
    if done and (gravest or reads or not named):
        elsewhere = " from elsewhere" if done[0] == lead else ""
        how = f" (new to {them(facts)})" if done[0] in reads and facts.is_learned else ""
        named.append(f"{cut(SOURCE.plain_action(done.pop(0)))}{elsewhere}{how}")
    if done:
        return f"{', '.join(named)} and {count_text(len(done), 'other action')}"
    return " and ".join(named)


def _tried(facts: TitleFacts, failed: int) -> str:
    """Return the action that counts most, if it is not the leading one and always failed; empty for none.

    `failed` is the number of all events that failed: ` and others` is added if some are of other actions.
    """
    lead, _ = facts.lead
    gravest = next(iter(harmful_actions(facts)), None)
    if gravest is None or gravest.action == lead or gravest.succeeded:
        return ""
    others = " and others" if gravest.failed < failed else ""
    return f" ({cut(SOURCE.plain_action(gravest.action))}{others})"


def _but_done(facts: TitleFacts, lead: str) -> str:
    """Return that supporting calls of the leading action succeeded, all of whose own calls failed; empty if none did."""
    if not succeeded_there(facts, lead):
        return ""
    on = _done_beside(facts, lead)
    return f", but {'' if on else 'other calls of '}{cut(SOURCE.plain_action(lead))}{on} succeeded"


def _done_beside(facts: TitleFacts, action: str) -> str:
    """Return the resources of supporting calls of an action that succeeded, without those of the alert's own calls of it.

    As in ` on role:admin and 1 other`; empty for none.
    """
    failed = {event.resource for event in calls_of(facts, action)}
    beside = succeeded_there(facts, action)
    done = list(dict.fromkeys(each.resource for each in beside if each.resource not in {"", *failed}))
    others = f" and {count_text(len(done) - 1, 'other')}" if len(done) > 1 else ""
    return f" on {cut(done[0], MAX_NAME_LENGTH // 2)}{others}" if done else ""
