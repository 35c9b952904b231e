"""Harm: nats that a new action adds for what it can do, and a new tool if attackers made it.

Example:
    >>> nats = harm_nats(["cloudtrail", "s3"], ["StopLogging", "ListBuckets"])
    >>> nats
    array([9.6, 0. ], dtype=float32)

Likelihoods alone cannot tell a new `StopLogging` from a new `ListBuckets`, but severe and grave new actions are much rarer in
harmless work than in attacks. So their nats are added to the event before the tail of its score is learned, and the alert budget
goes to what matters. An action that is not new to its principal (`amounts.UsualAmounts.is_new`) adds nothing, whatever it can do.
A new one adds its nats even if it is usual among peers, which says little about a principal that never called it. A severe action
that no one of the organisation ever called adds more: administrators create keys and policies now and then, but hardly ever stop
a trail.
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

# Nats added to an event; about three of them raise its z by one. Measured (docs/explanation/experiments.md): more nats for a
# severe action find more attacks, but make actions that are not severe more usual beside it.
HARM_NATS: Mapping[Gravity, float] = {"none": 0.0, "minor": 0.0, "notable": 0.3, "grave": 2.4, "severe": 9.6}
# Of a new tool that is made for attacks: thieves use them to explore what a key can do
ATTACK_TOOL_NATS = 6.4
STRANGER_NATS = 6.4  # of a write that names an account which no one of the organisation named before
NEVER_CALLED_NATS = 6.4  # added to those of a severe action that no one of the organisation called before
MAX_NAMES = 16_384  # actions whose nats are cached; a bound, because a caller can invent names of actions


def harm_nats(services: Iterable[object], actions: Iterable[object]) -> Floats:
    """Return the nats (N,) that new actions add to their events, from services and actions (N,)."""
    nats = [_harm_nats(str(service), str(action)) for service, action in zip(services, actions, strict=True)]
    return np.array(nats, np.float32)


def harm_by_code(codes: Hashes, known: Hashes, texts: NDArray[np.object_]) -> Floats:
    """Return the nats of actions by their codes (N,). `known` codes (W,) have `texts` (W,) `service:Action`; others have 0."""
    distinct, place = np.unique(codes, return_inverse=True)
    order = np.argsort(known)
    at = order[np.minimum(np.searchsorted(known[order], distinct), len(known) - 1)]
    names = [str(text).partition(":") for text in texts[at]]
    nats = harm_nats((name[0] for name in names), (name[2] for name in names))
    out: Floats = np.where(known[at] == distinct, nats, 0).astype(np.float32)[place]
    return out


def harm_of_events(codes: Hashes, events: Frame) -> Floats:
    """Return the nats of events (N,) from the codes of their actions (N,) and their columns service and action.

    The names are read once for each distinct code.
    """
    place, first = unique_examples(codes)
    names = frames.to_host(frames.select_rows(events, first))
    named = harm_nats(*(frames.column_of(names, name) for name in ("service", "action")))
    out: Floats = to_device_of(named, codes)[place]
    return out


def add_where_never_called(nats: Floats, codes: Hashes, is_called: Callable[[Hashes], Mask]) -> None:
    """Add NEVER_CALLED_NATS, in place, to the nats (N,) of severe new actions that no one of the organisation called before.

    `codes` (N,) are the actions. `is_called` is called with the severe ones alone, which are few.

    >>> nats = np.float32([9.6, 9.6, 2.4])
    >>> add_where_never_called(nats, np.uint64([1, 2, 3]), lambda codes: codes == 1)
    >>> nats
    array([ 9.6, 16. ,  2.4], dtype=float32)
    """
    severe = (nats >= np.float32(HARM_NATS["severe"])).nonzero()[0]
    if len(severe):
        nats[severe] += np.float32(NEVER_CALLED_NATS) * ~is_called(codes[severe])


def harm_of_tools(programs: Iterable[object]) -> Floats:
    """Return the nats (N,) that new programs add to their events, by their texts (N,).

    >>> harm_of_tools(["aws-cli kali", "aws-cli linux"])
    array([6.4, 0. ], dtype=float32)
    """
    nats = [ATTACK_TOOL_NATS * is_made_for_attacks(str(program)) for program in programs]
    return np.array(nats, np.float32)


@lru_cache(MAX_NAMES)
def _harm_nats(service: str, action: str) -> float:
    return HARM_NATS[SOURCE.impact_of(service, action, "").gravity]
