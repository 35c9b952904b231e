"""Principals and entities of events: the log source names the principal, this module makes the keys of fingerprints.

Example:
    >>> add_entity_columns(flatten(records).events, Entities())["entity"].tolist()
    ['123456789012:role/deploy|s3|direct']

An entity is `{principal}|{service}|{call path}`. Texts that a caller chooses are escaped, so that no name can be the key of
another principal. Each distinct identity is named once, on the host, even if the events are on a device.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from fingerprint.compute import arrays, frames
from fingerprint.compute.arrays import Array
from fingerprint.compute.frames import Frame
from fingerprint.core.settings import Entities
from fingerprint.sources.active import SOURCE
from fingerprint.sources.base import Principal, escape_key
from fingerprint.sources.protocol import IdentityReader

ENTITY_COLUMNS = ("principal", "kind", "role", "call_path", "via", "entity", "human", "session")
_MOST_CODES = 1 << 62  # so that codes fit int64
_KEPT_PRINCIPALS = 4_096  # distinct identities, which recur from batch to batch


def add_entity_columns(events: Frame, settings: Entities, source: IdentityReader = SOURCE) -> Frame:
    """Return the events with ENTITY_COLUMNS added: text, NA without a value.

    The granularity of the settings says which part of `{principal}|{service}|{call path}` is replaced by `*`.
    """
    codes, distinct = _distinct_identities(events, source.IDENTITY_COLUMNS)
    patterns = settings.person_role_patterns
    principals = [_principal(source.principal_of, tuple(identity.items()), patterns) for identity in distinct]
    texts: dict[str, list[str | None]] = {
        "principal": [each.key for each in principals],
        "entity": [
            entity_key(each.key, identity["service"], each.call_path, settings)
            for each, identity in zip(principals, distinct, strict=True)
        ],
    }
    for column in ("kind", "role", "call_path", "via", "human", "session"):
        texts[column] = [getattr(each, column) or None for each in principals]
    columns = {column: frames.make_text_column(texts[column], codes, events) for column in ENTITY_COLUMNS}
    return frames.with_columns(events, columns)


def entity_key(principal: str, service: str, call_path: str, settings: Entities) -> str:
    """Return the key of an entity: of the key of its principal, the service as the record has it, and the call path.

    >>> entity_key("123456789012:role/deploy", "s3", "direct", Entities(granularity="principal"))
    '123456789012:role/deploy|*|direct'
    """
    principal = "*" if settings.granularity == "service" else principal
    service = "*" if settings.granularity == "principal" else escape_key(service)
    return f"{principal}|{service}|{call_path}"


def _distinct_identities(events: Frame, columns: tuple[str, ...]) -> tuple[Array, list[dict[str, str]]]:
    """Return the number of each event's identity (N,), and the distinct identities.

    The codes of the columns become the digits of one number. If it would grow too large, the distinct numbers are renumbered.
    """
    xp = frames.array_module_of(events)
    codes, size = xp.zeros(len(events), np.int64), 1  # all codes are below `size`
    for column in columns:
        of_column, count = frames.factorize_codes(events[column])
        if not count:  # missing in every event
            continue
        if size * (count + 1) > _MOST_CODES:
            codes, distinct = arrays.unique_inverse(codes)
            size = len(distinct)
        codes, size = codes * (count + 1) + of_column + 1, size * (count + 1)
    codes, example = arrays.unique_examples(codes, size)
    table = frames.to_pandas(frames.select_rows(frames.select_columns(events, columns), example))
    texts = [
        [value if isinstance(value, str) else "" for value in table[column].tolist()] for column in columns
    ]
    return codes, [dict(zip(columns, row, strict=True)) for row in zip(*texts, strict=True)]


@lru_cache(maxsize=_KEPT_PRINCIPALS)
def _principal(
    principal_of: Callable[[dict[str, str], tuple[str, ...]], Principal],
    identity: tuple[tuple[str, str], ...],
    patterns: tuple[str, ...],
) -> Principal:
    return principal_of(dict(identity), patterns)
