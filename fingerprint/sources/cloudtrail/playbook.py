"""The next steps of an alert: contain, verify, find the extent, undo; by kind of credential and by what the calls did.

Example:
    >>> [(step.phase, step.command) for step in next_steps(suspicion)][0]
    ('contain', 'aws iam update-access-key --user-name alice --access-key-id AKIAIOSFODNN7EXAMPLE --status Inactive')

The order of the steps:
- contain: cut off the credential first, because an answer may take hours. An alert below high severity, or without a new place,
  a new tool or grave harm, is more often a person at work, whom a cut would stop. Then the question comes first, and the cut is
  for the case that no one confirms the calls (`playbook_facts.is_urgent`).
- verify: ask by another channel than the credential's, because the holder of a session may also read the mail and chat behind it
- extent: list what else the credential did
- undo: set back what it changed, the gravest change first

Commands are for a POSIX shell and the AWS CLI (v2) with a responder's own credential. The responder fills in words in capitals.
Names come from records, so an attacker may have written them: see `playbook_undo.safe_argument`. Source of the steps: AWS,
"Responding to a compromised access key" and "Revoking IAM role temporary security credentials" (IAM user guide); NIST SP 800-61
for the phases.
"""

from __future__ import annotations

from dataclasses import replace

from fingerprint.core.alert import NextStep
from fingerprint.sources.base import Suspicion
from fingerprint.sources.cloudtrail.playbook_contain import contain_steps
from fingerprint.sources.cloudtrail.playbook_extent import extent_steps
from fingerprint.sources.cloudtrail.playbook_facts import (
    access_keys,
    account_number,
    center_roles,
    credential_kind,
    is_foreign,
    is_urgent,
)
from fingerprint.sources.cloudtrail.playbook_undo_steps import undo_steps
from fingerprint.sources.cloudtrail.playbook_verify import verify_step


def next_steps(suspicion: Suspicion) -> tuple[NextStep, ...]:
    """Return the steps against an alert, in the order of work."""
    lead, verify = _lead(suspicion), verify_step(suspicion)
    contain = tuple(_led_by(lead, step) for step in contain_steps(suspicion))
    first = (*contain, verify) if is_urgent(suspicion) else (verify, *contain)
    return (*first, *extent_steps(suspicion), *undo_steps(suspicion))


def _lead(suspicion: Suspicion) -> str:
    """Return the words that open a containing step: its account (names repeat across accounts) and its condition, if any."""
    account = account_number(suspicion.principal.partition(":")[0])
    kind = credential_kind(suspicion.principal, access_keys(suspicion))
    elsewhere = kind in ("root", "single sign-on") or bool(center_roles(suspicion))
    foreign = is_foreign(suspicion)  # the organisation cannot act in that account
    place = f"in account {account}" if account and not elsewhere and not foreign else ""
    condition = "" if is_urgent(suspicion) else "if no one confirms it"
    return ", ".join(each for each in (place, condition) if each)


def _led_by(lead: str, step: NextStep) -> NextStep:
    text = f"{lead[:1].upper()}{lead[1:]}: {step.text[:1].lower()}{step.text[1:]}" if lead else step.text
    return replace(step, text=text)
