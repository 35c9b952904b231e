"""The undo of an alert: which of its calls to set back, in which order, and which calls nothing sets back.

Example:
    >>> [step.command for step in undo_steps(suspicion)]
    ['aws iam delete-access-key --user-name alice --access-key-id AKIAI44QH8DHBEXAMPLE']
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from fingerprint.core.alert import ActionImpact, AlertEvent, NextStep, on_resources
from fingerprint.core.related_events import made_beside
from fingerprint.sources.base import Suspicion
from fingerprint.sources.cloudtrail.action_verbs import changes_something
from fingerprint.sources.cloudtrail.attack_mappings import without_api_version
from fingerprint.sources.cloudtrail.playbook_facts import (
    MAX_RECORDS_READ,
    account_number,
    call_of,
    gravest_of,
    names_resource,
    principal_type,
)
from fingerprint.sources.cloudtrail.playbook_inverse import leaves_nothing, stays_on
from fingerprint.sources.cloudtrail.playbook_undo import Call, not_shown, only_denies, undo_step
from fingerprint.sources.cloudtrail.record_members import CallRecord

MAX_UNDO_STEPS = 15  # steps with commands
MAX_NAMED_ACTIONS = 8  # actions that a step without commands names
_READS_SECRETS = "Credential Access"  # the tactic
NOT_SET_BACK = {  # advice for actions without a step of their own, by the reason why they have none
    "denies": "Ask who did it, and leave it where that was a responder, for it only denies: {}.",
    "watches": "Leave on what only watches or protects, and look whether it sends its findings elsewhere or watches less than "
    "before: {}.",
    "changes": "Compare with your infrastructure code or AWS Config, and set back what was changed by {}.",
    "leaves nothing": "There is nothing to set back; find out what came of it, and what it costs: {}.",
    "reads": "Treat as known, and change where it is used, what was read by {}.",
    "takes": "{}. What was taken cannot be called back: list what it was and whose data it holds, for those who must be told.",
}


def undo_steps(suspicion: Suspicion) -> Iterator[NextStep]:
    """Yield how to undo the new actions of an alert that succeeded, the gravest first, then advice on those without an undo.

    - Calls that only support the alert are undone, too: a secret that they read is as known as any other. So are usual changes
      by the same session in the same minutes: a thief who adds a function also adds the rule that starts it.
    - Of each action the calls with the gravest requests are undone: of writes to a bucket those with a thief's key, not the
      owner's.
    """
    calls = _successful_calls(suspicion)
    by_root = principal_type(suspicion.principal) == "root"
    steps: list[NextStep] = []
    left: dict[str, list[str]] = {why: [] for why in NOT_SET_BACK}
    rows = [row for row in suspicion.actions if _belongs(row, suspicion) and row.gravity != "minor"]
    elsewhere = {row.action: _elsewhere(row, calls, suspicion) for row in rows if row.supporting}
    for row in sorted(rows, key=lambda row: row.supporting and bool(elsewhere[row.action])):
        harm, events = gravest_of(calls.get((row.action, row.supporting), []))
        if not row.succeeded and harm.gravity in ("none", "minor"):
            continue  # the gravest calls failed, and the milder ones did no harm
        subject = _subject(_on_done(row, events), elsewhere.get(row.action, "") if row.supporting else "")
        called, unread = events[:MAX_RECORDS_READ], max(0, len(events) - MAX_RECORDS_READ)
        made = [call_of(event) for event in called]
        to_undo = [each for each in made if not only_denies(without_api_version(row.action), each)]
        if made and not to_undo and not unread:
            left["denies"].append(subject)
            continue
        if stays_on(row.action, row.technique):
            left["watches"].append(subject)
            continue
        may = len(steps) < MAX_UNDO_STEPS
        undone = list(_undo_action(row, subject, to_undo, unread, by_root)) if may else []
        steps += undone
        why = "" if undone else _why_not_set_back(row, called)
        if why:
            left[why].append(subject)
    yield from steps
    for why, subjects in left.items():
        if subjects:
            yield NextStep("undo", NOT_SET_BACK[why].format(_listed(subjects)))


def _elsewhere(
    row: ActionImpact, calls: Mapping[tuple[str, bool], Sequence[AlertEvent]], suspicion: Suspicion
) -> str:
    """Return the origin of supporting calls that came from other places than the alert's own new place; else empty.

    The owner of a stolen credential goes on working, so changes from elsewhere in that hour may be the owner's.
    """
    own = {event.source_address for event in suspicion.events}
    origins = {event.source_address for event in calls.get((row.action, True), [])}
    if not origins or origins & own or row.new_place or not suspicion.from_new_origin:
        return ""
    return f"from {sorted(origins)[0][:60]}{' and others' if len(origins) > 1 else ''}"


def _on_done(row: ActionImpact, done: Sequence[AlertEvent]) -> ActionImpact:
    """Return an action with only the resources of the calls `done`, which succeeded."""
    if not row.failed:
        return row
    touched = list(dict.fromkeys(event.resource for event in done))
    named = [text for text in row.resources if any(names_resource(text, each) for each in touched)]
    rest = [each for each in touched if each and not any(names_resource(text, each) for text in named)]
    return replace(row, resources=(*named, *rest))


def _belongs(row: ActionImpact, suspicion: Suspicion) -> bool:
    """Return whether an action is to be undone: it is new, or supports the alert, or reads secrets in an unusual way.

    A principal that reads secrets in its usual work exposes others if it reads more of them, or reads from elsewhere.
    """
    if row.is_unusual or row.supporting:
        return True
    if row.tactic != _READS_SECRETS or not row.effect.startswith("reads"):
        return False
    here = (event for event in suspicion.events if event.action_name == row.action)
    return row.action in suspicion.unusual_calls or any(
        each.event_id in suspicion.new_origins for each in here
    )


def _successful_calls(suspicion: Suspicion) -> dict[tuple[str, bool], list[AlertEvent]]:
    """Return the events that succeeded, by action and by whether they only support the alert.

    Supporting events beside the alert's own calls of the same action count as the alert's, unless the action also has a row of
    its own as a supporting one.
    """
    calls: dict[tuple[str, bool], list[AlertEvent]] = {}
    own = {row.action for row in suspicion.actions if not row.supporting}
    own -= {row.action for row in suspicion.actions if row.supporting}
    beside = {event.event_id for event in made_beside(suspicion.events, suspicion.supporting)}
    for supporting, events in ((False, suspicion.events), (True, suspicion.supporting)):
        for event in events:
            apart = supporting and not (event.action_name in own and event.event_id in beside)
            if not event.error_code:
                calls.setdefault((event.action_name, apart), []).append(event)
    return calls


def _why_not_set_back(row: ActionImpact, called: Sequence[AlertEvent]) -> str:
    """Return the key of `NOT_SET_BACK` for an action without a step of its own; empty if it needs no advice."""
    if leaves_nothing(row.action):
        return "leaves nothing"
    if not _only_reads(row.action, called):
        return "changes"
    return next((why for why in ("reads", "takes") if row.effect.startswith(why)), "")


def _undo_action(
    row: ActionImpact, subject: str, made: Sequence[Call], unread: int, by_root: bool
) -> Iterator[NextStep]:
    """Yield how to undo the calls of an action, a step for each account that they were made in; none if nothing sets it back.

    `subject` names the action and what it touched. `unread` is the number of further calls, whose records are not read.
    """
    by_account: dict[str, list[Call]] = {}
    for each in made:
        by_account.setdefault(account_number(each.account), []).append(each)
    for account, calls in (by_account or {"": []}).items():
        step = undo_step(row.action, calls, row.technique, by_root)
        if step:
            place = f"In account {account}: " if account else ""
            text = f"{place}{subject}. {step.text}{not_shown(unread, 'event')}"
            yield NextStep(step.phase, text, step.command)


def _only_reads(action: str, calls: Sequence[AlertEvent]) -> bool:
    """Return whether an action changes nothing, by its verb or by the records of its calls."""
    name = without_api_version(action).partition(":")[2]
    return not changes_something(name) or (
        bool(calls) and all(CallRecord(each.raw).reads_only for each in calls)
    )


def _listed(subjects: Sequence[str]) -> str:
    more = len(subjects) - MAX_NAMED_ACTIONS
    return ", ".join(subjects[:MAX_NAMED_ACTIONS]) + (f" and {more:,} more" if more > 0 else "")


def _subject(row: ActionImpact, elsewhere: str) -> str:
    """Return the action and what it touched: `iam:CreateUser on user:eve`. Supporting calls are marked as such.

    `elsewhere` is the origin of supporting calls that may be the owner's own work; else empty.
    """
    more = f" and {len(row.resources) - 3} more" if len(row.resources) > 3 else ""
    name = without_api_version(row.action)[:120]
    touched = f"{name}{on_resources([each[:100] for each in row.resources[:3]])}{more}"
    if elsewhere:
        return f"{touched} (unusual in the same hour, but {elsewhere}: ask first whether it was the owner's own work)"
    return f"{touched} (unusual in the same hour)" if row.supporting else touched
