"""Harm: a new action that can do much is stranger than a new list call, a new tool of attackers than another new tool.

Example:
    >>> nats = harm_nats(["cloudtrail", "s3"], ["StopLogging", "ListBuckets"])
    >>> nats
    array([9.6, 0. ], dtype=float32)

How unlikely a new action is by chance cannot tell `StopLogging` from `ListBuckets`. In harmless work severe and grave new actions
are much rarer than in attacks. So nats are added to the event before the tail of its score is learned, and the alert budget goes
to what matters. An action that is not new to its principal (`amounts.UsualAmounts.is_new`) adds nothing, whatever it can do: how
usual it is among peers says little of who now calls it for the first time. But a severe one that no one of the organisation ever
called adds more: administrators make keys and policies now and then, and hardly ever stop a trail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import frames
from fingerprint.compute.arrays import Floats, Mask, to_device_of, unique_examples
from fingerprint.compute.frames import Frame
from fingerprint.compute.hashing import Hashes
from fingerprint.core.alert import Gravity
from fingerprint.core.attack_tools import is_made_for_attacks
from fingerprint.sources.active import SOURCE

# Nats of an event, of which about three are one of a z's. Measured (docs/explanation/experiments.md): more for a severe
# action find more attacks, but what is not severe becomes more usual beside it.
HARM_NATS: Mapping[Gravity, float] = {"none": 0.0, "minor": 0.0, "notable": 0.3, "grave": 2.4, "severe": 9.6}
ATTACK_TOOL_NATS = 6.4  # who finds a key looks with it what it opens
STRANGER_NATS = 6.4  # of a write that names an account which no one of the organisation named before
NEVER_CALLED_NATS = 6.4  # more, of a severe action that no one of the organisation called before
MAX_NAMES = 16_384  # actions whose nats are kept; anybody can call one that does not exist


def harm_nats(services: Iterable[object], actions: Iterable[object]) -> Floats:
    """Return the nats that a new action adds to its event, from services and actions (N,): (N,)."""
    nats = [_harm_nats(str(service), str(action)) for service, action in zip(services, actions, strict=True)]
    return np.array(nats, np.float32)


def harm_by_code(codes: Hashes, known: Hashes, texts: NDArray[np.object_]) -> Floats:
    """Return the nats of each action's code (N,), from codes `known` (W,) and their texts (W,), `service:Action`."""
    distinct, place = np.unique(codes, return_inverse=True)
    order = np.argsort(known)
    at = order[np.minimum(np.searchsorted(known[order], distinct), len(known) - 1)]
    names = [str(text).partition(":") for text in texts[at]]
    nats = harm_nats((name[0] for name in names), (name[2] for name in names))
    out: Floats = np.where(known[at] == distinct, nats, 0).astype(np.float32)[place]
    return out


def harm_of_events(codes: Hashes, events: Frame) -> Floats:
    """Return the nats of events (N,) by the codes of their actions (N,); columns service and action. Each is named once."""
    place, first = unique_examples(codes)
    names = frames.to_host(frames.select_rows(events, first))
    named = harm_nats(*(frames.column_of(names, name) for name in ("service", "action")))
    out: Floats = to_device_of(named, codes)[place]
    return out


def add_where_never_called(nats: Floats, codes: Hashes, is_called: Callable[[Hashes], Mask]) -> None:
    """Add to the nats of new actions (N,), in place, where a severe one is none that anybody of the organisation called before.

    `codes` (N,) are the actions; `is_called` is asked about the severe ones alone, which are few.

    >>> nats = np.float32([9.6, 9.6, 2.4])
    >>> add_where_never_called(nats, np.uint64([1, 2, 3]), lambda codes: codes == 1)
    >>> nats
    array([ 9.6, 16. ,  2.4], dtype=float32)
    """
    severe = (nats >= np.float32(HARM_NATS["severe"])).nonzero()[0]
    if len(severe):
        nats[severe] += np.float32(NEVER_CALLED_NATS) * ~is_called(codes[severe])


def harm_of_tools(programs: Iterable[object]) -> Floats:
    """Return the nats that a new program adds to its event, by its text (N,): (N,).

    >>> harm_of_tools(["aws-cli kali", "aws-cli linux"])
    array([6.4, 0. ], dtype=float32)
    """
    nats = [ATTACK_TOOL_NATS * is_made_for_attacks(str(program)) for program in programs]
    return np.array(nats, np.float32)


@lru_cache(MAX_NAMES)
def _harm_nats(service: str, action: str) -> float:
    return HARM_NATS[SOURCE.impact_of(service, action, "").gravity]
