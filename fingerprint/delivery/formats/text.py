"""Text and numbers for other systems: of bounded length, without NUL or broken surrogates, and as ASCII.

Example:
    >>> to_json_line({"name": "evil\\u202eexe.txt", "z": float("nan")})
    b'{"name":"evil\\\\u202eexe.txt","z":null}'

A receiver gets the text that was in the record; only NULs and halves of surrogate pairs become U+FFFD, which JSON's readers
refuse or change silently. On its way nothing can steer a terminal: what is not printable ASCII is escaped.
"""

from __future__ import annotations

import json
import math
from typing import Any

from fingerprint.alerting.impact import MAX_RESOURCES
from fingerprint.core.alert import ActionImpact, NextStep, on_resources
from fingerprint.core.incident import SessionOrigin
from fingerprint.core.sanitize import storable, truncate
from fingerprint.sources.active import SOURCE

MAX_TEXT_LENGTH = 4_096  # characters of one text


def truncate_texts(value: Any, max_length: int = MAX_TEXT_LENGTH) -> Any:
    """Return the value with every text in it cut."""
    if isinstance(value, str):
        return truncate(value, max_length)
    if isinstance(value, list | tuple):
        return [truncate_texts(part, max_length) for part in value]
    if isinstance(value, dict):
        return {truncate(key, max_length): truncate_texts(part, max_length) for key, part in value.items()}
    return value


def impact_text(row: ActionImpact) -> str:
    """Return one action behind an alert's impact as a phrase: `iam:CreateUser creates a user, T1136.003 (3 events, 1 failed)`."""
    technique = f", {row.technique}" if row.technique else ""
    failed = f", {row.failed:,} failed" if row.failed and not row.dry_run else ""
    failed += ", supporting" if row.supporting else ""
    where = on_resources(row.resources)
    where += ", and maybe others" if len(row.resources) >= MAX_RESOURCES else ""  # no more are kept
    return (
        f"{SOURCE.plain_action(row.action)} {row.effect}{technique} "
        f"({row.calls:,} event{'s' * (row.calls != 1)}{failed}){where}"
    )


def opener_texts(origin: SessionOrigin) -> list[str]:
    """Return the calls that led to the session of an alert, the nearest first: `1:user/ann by sts:AssumeRole from ...`."""
    return [
        f"{_caller(issue.principal, issue.human)} by {issue.action} from {issue.source_address}"
        for issue in origin.chain
    ]


def other_record_texts(origin: SessionOrigin) -> list[str]:
    """Return whom other accounts' records of an alert's calls name, and the alerts that have them."""
    return [
        f"{_caller(other.principal, other.human)}, in another account's trail: alert {other.alert_id}"
        for other in origin.other_records
    ]


def readable_principal(principal: str) -> str:
    """Return a principal's key; of a federated one, whose key is escaped twice over, its name and account.

    >>> readable_principal("123456789012:federated/okta.example.com/ann%40example.com")
    'ann@example.com (okta.example.com) in account 123456789012'
    """
    account, _, name = principal.partition(":")
    federated = name.startswith("federated/")
    return f"{SOURCE.plain_principal(principal)} in account {account}" if federated else principal


def _caller(principal: str, human: str) -> str:
    named = readable_principal(principal)
    return f"{named} ({human})" if human and human not in named else named


def step_text(step: NextStep) -> str:
    """Return a step as one line: its phase, the text, then the command."""
    return f"{step.phase.capitalize()}: {step.text}" + (f" {step.command}" if step.command else "")


def without_empty(**fields: Any) -> dict[str, Any]:
    """Return the fields that are not None, and no empty text, list or object."""
    return {name: value for name, value in fields.items() if value not in (None, "", [], {}, ())}


def to_json_line(value: Any) -> bytes:
    """Return a value as JSON on one line of ASCII, without a line end; NaN and infinities are null."""
    text = json.dumps(
        _replace_non_finite(storable(value)),
        ensure_ascii=True,
        allow_nan=False,
        separators=(",", ":"),
        default=str,
    )
    return text.replace("\x7f", "\\u007f").encode("ascii")


def _replace_non_finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list):
        return [_replace_non_finite(part) for part in value]
    return (
        {key: _replace_non_finite(part) for key, part in value.items()} if isinstance(value, dict) else value
    )
