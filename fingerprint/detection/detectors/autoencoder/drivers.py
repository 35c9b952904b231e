"""The drivers of an alert by the autoencoder: surprising values, amounts, openings, call paths and moves, beside usual ones.

Example:
    >>> surprise_drivers(batch, frame, context)[0]
    SurpriseDriver(feature='action', seen='iam:CreateAccessKey', expected='s3:GetObject, s3:ListBucket', rarity='unseen', ...)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fingerprint.compute import frames
from fingerprint.compute.arrays import Floats, Mask, identity_placement
from fingerprint.compute.frames import Frame
from fingerprint.compute.hashing import Hashes
from fingerprint.core.alert import MOVE_FEATURE, NOTHING_USUAL, Rarity, SurpriseDriver, rarity_of
from fingerprint.detection.detectors import ExplanationContext, action_at
from fingerprint.detection.detectors.autoencoder.evidence import (
    ADDED_NATS,
    DETECTOR_NAME,
    carried_amount_nats,
    could_be_left_to_services,
    could_have_moved,
    discount_recent_amounts,
    feature_surprise,
    nats_at_threshold,
    shows_more_than_a_place,
)
from fingerprint.estimators import amounts, autoencoder
from fingerprint.estimators.amounts import UsualAmounts
from fingerprint.estimators.call_paths import CALL_PATH_FEATURE, ONLY_BY, KnownPaths
from fingerprint.estimators.moves import SettledMachines
from fingerprint.estimators.openers import OPENED, OPENER_FEATURE, RoleOpeners
from fingerprint.features import encoding
from fingerprint.features.encoding import ACTION_COLUMN, EVIDENCE_GROUP_FEATURES, FEATURE_NAMES
from fingerprint.registry.bank import GENERIC_ROW, Bank
from fingerprint.sources.active import SOURCE
from fingerprint.state.event_batch import EventBatch

MAX_DRIVERS = 10  # drivers of one feature
MAX_ACTION_DRIVERS = 60  # drivers that are actions: more, because `alerting.impact` decides which ones lead
MAX_USUAL_VALUES = 3  # usual values named beside a surprising one
MIN_DRIVER_SURPRISE = 1.0  # nats; less is not worth an analyst's time
PLACE_FEATURES = frozenset(EVIDENCE_GROUP_FEATURES[autoencoder.PLACE_GROUP].tolist())


def surprise_drivers(batch: EventBatch, frame: Frame, context: ExplanationContext) -> list[SurpriseDriver]:
    """Return the most surprising values of a group of N events, each once, the most surprising first."""
    drivers = _value_drivers(batch, frame, context)
    drivers += _amount_drivers(batch, frame, context)
    drivers += _opener_drivers(batch, context)
    drivers += _call_path_drivers(batch, frame, context)
    drivers += _move_drivers(batch, frame, context)
    return sorted(drivers, key=lambda driver: -driver.surprise)


def _strangest_values(
    codes: Hashes, surprise: Floats, most: int = MAX_DRIVERS
) -> list[tuple[int, float, int]]:
    """Return the `most` most surprising values of a feature, as (an example row, nats, number of events with the value).

    Values below MIN_DRIVER_SURPRISE are left out.
    """
    order = np.lexsort((-surprise, codes))
    _, first, counts = np.unique(codes[order], return_index=True, return_counts=True)
    rows = order[first]
    ranked = np.lexsort((codes[rows], -surprise[rows]))[:most]
    found = [(int(rows[at]), float(surprise[rows[at]]), int(counts[at])) for at in ranked]
    return [each for each in found if each[1] >= MIN_DRIVER_SURPRISE]


def _value_drivers(batch: EventBatch, frame: Frame, context: ExplanationContext) -> list[SurpriseDriver]:
    """Return the most surprising values of each feature. They are looked up together, as there may be a hundred."""
    shown = list(_shown_values(batch))
    rows = np.unique([value.row for value in shown]).astype(np.intp)
    names = {FEATURE_NAMES[feature] for feature in (ACTION_COLUMN, *(value.feature for value in shown))}
    texts = encoding.FEATURE_SET.texts(frames.select_rows(frame, rows), names)
    known = _known_values(batch, rows, context)
    actions = texts[FEATURE_NAMES[ACTION_COLUMN]]
    return [
        known[value.row].driver(
            value,
            texts[FEATURE_NAMES[value.feature]][at],
            frames.text_or_empty(actions[at]),
            _count_principals(batch.codes, value, known[value.row]),
        )
        for value, at in zip(shown, np.searchsorted(rows, [value.row for value in shown]), strict=True)
    ]


class _ShownValue(NamedTuple):
    """A value of a feature that drives an alert: an example row, its surprise in nats, and the number of events with it."""

    feature: int
    row: int
    nats: float
    events: int


def _count_principals(codes: Hashes, value: _ShownValue, known: _KnownValues) -> int:
    """Return how many principals of the history showed a value; `codes` (N, F) are those of all events.

    A network is wide: many principals in the network of a cloud provider say little. So a network is counted by the address
    ranges of the events in it, and the smallest count is returned.
    """
    ranges = encoding.FEATURE_SET.ranges
    if not ranges or FEATURE_NAMES[value.feature] != ranges[0]:
        return int(known.principals[value.feature])
    there, feature = (
        codes[:, value.feature] == codes[value.row, value.feature],
        FEATURE_NAMES.index(ranges[1]),
    )
    return int(known.bank.principals_that_showed(feature, np.unique(codes[there, feature])).min())


def _shown_values(batch: EventBatch) -> Iterator[_ShownValue]:
    surprise = feature_surprise(batch)
    for feature in np.flatnonzero((surprise >= MIN_DRIVER_SURPRISE).any(axis=0)).tolist():
        most = MAX_ACTION_DRIVERS if feature == ACTION_COLUMN else MAX_DRIVERS
        for row, nats, count in _strangest_values(batch.codes[:, feature], surprise[:, feature], most):
            yield _ShownValue(feature, row, nats, count)


class _KnownValues(NamedTuple):
    """A bank's counts of the values of one event, by the event's `fingerprint` (a row of the bank, with its `key`).

    - `few_calls`: calls that a fingerprint which is not ready has learned; None for a ready one
    - `share` (F,): how often the fingerprint saw each value; `peer_share` (F,): the same among its peers, None without peers
    - `often_new` (F,): new values of the feature are usual
    - `principals` (F,): number of principals of the history that showed each value
    """

    bank: Bank
    fingerprint: int
    key: str
    few_calls: int | None
    share: Floats
    peer_share: Floats | None
    often_new: Mask
    principals: Floats

    def driver(self, value: _ShownValue, text: object, action: str, principals: int = 0) -> SurpriseDriver:
        """Return the driver of a value of the event.

        `text` is the value in words, `action` the event's action, `principals` the number of principals that showed the value.
        """
        seen = frames.text_or_empty(text)
        return SurpriseDriver(
            encoding.FEATURES[value.feature].label,
            encoding.FEATURES[value.feature].shown(seen) or "(none)",
            self._expected(value.feature, action, seen),
            rarity_of(float(self.share[value.feature])),
            round(value.nats, 2),
            value.events,
            None if self.peer_share is None else rarity_of(float(self.peer_share[value.feature])),
            self.key,
            principals,
        )

    @property
    def _calls_so_far(self) -> str:
        """The words for the few calls that a fingerprint which is not ready has learned; empty for a ready one."""
        calls = self.few_calls
        return "" if calls is None else f" (in its {calls:,} {'calls' if calls > 1 else 'call'} so far)"

    def _expected(self, feature: int, action: str, seen: str) -> str:
        """Return the usual values of a feature in words, the commonest first.

        - A feature that is conditioned on the action has the values of this `action`.
        - The `seen` value is left out: if it is usual, it is only strange beside the rest of the call.
        - Values of the generic fingerprint are marked as those of the organisation, and for a fingerprint that is not ready the
          number of its calls is added.
        """
        slots = self.bank.vocabulary.codes[self.fingerprint, feature, 1:]
        usual = [each for each in self.bank.value_texts(slots[slots != 0]) if each]
        if encoding.GIVEN_FEATURE[feature] == ACTION_COLUMN:
            usual = [each for each in usual if _is_of_action(each, action)]
            if not usual and self.share[ACTION_COLUMN] > 0 and slots.all():
                return "many others, each seldom"  # its values are not among those that the fingerprint names
        if usual == [seen]:
            return "nothing else"
        usual = [each for each in usual if each != seen]
        whose = " (in the organisation)" if self.fingerprint == GENERIC_ROW else self._calls_so_far
        often = ", often a new one" if self.often_new[feature] and feature in PLACE_FEATURES else ""
        shown = map(encoding.FEATURES[feature].shown, usual[:MAX_USUAL_VALUES])
        return ", ".join(shown) + often + whose if usual else NOTHING_USUAL


def _is_of_action(text: str, action: str) -> bool:
    """Return whether a value that is conditioned on an action, such as `s3:GetObject on bucket:x`, is of this action."""
    return text.startswith(action) and not text[len(action) : len(action) + 1].isalnum()


def _known_values(
    batch: EventBatch, rows: NDArray[np.intp], context: ExplanationContext
) -> dict[int, _KnownValues]:
    """Return the known values of the events at `rows`, by row, each from the bank that measured the event."""
    versions = np.asarray(frames.column_of(batch.frame, "bank_version"), object)[rows]
    found = {}
    for version in set(versions.tolist()):
        of_version = rows[versions == version]
        bank, at = context.bank_and_rows(batch, of_version)
        codes, peers = batch.codes[of_version], bank.peers[at]
        share = bank.vocabulary.observed_share(at, codes)
        peer_share = bank.vocabulary.observed_share(np.maximum(peers, 0), codes)
        often_new = bank.vocabulary.novelty_is_usual(at)
        principals = bank.vocabulary.observed_count(np.full(len(at), GENERIC_ROW, np.int32), codes)
        keys, ready, calls = (
            bank.fingerprints[name].array.take(at).tolist() for name in ("key", "ready", "events")
        )
        for place, row in enumerate(of_version.tolist()):
            few_calls = None if ready[place] else int(calls[place])
            among_peers = peer_share[place] if peers[place] >= 0 else None
            known = share[place], among_peers, often_new[place], principals[place]
            found[row] = _KnownValues(bank, int(at[place]), str(keys[place]), few_calls, *known)
    return found


def _amount_drivers(batch: EventBatch, frame: Frame, context: ExplanationContext) -> list[SurpriseDriver]:
    """Return the actions of events that were called unusually often, each once, with its rarest amount."""
    action = batch.codes[:, ACTION_COLUMN]
    counted, day = context.interval_amounts, context.series.intervals_per_day
    calls, nats = carried_amount_nats(batch, counted, day)
    if not (nats >= MIN_DRIVER_SURPRISE).any():
        return []
    alerting = nats_at_threshold(context.bank_and_row(batch, 0)[0], context.settings)
    nats = discount_recent_amounts(nats, batch, counted, context.settings, alerting)
    an_hour = amounts.span_text(context.settings.spectral.interval_seconds)
    spans, rarest = (an_hour, "a day", f"{an_hour} on unusual resources"), nats.argmax(axis=1)
    drivers = []
    for row, value, count in _strangest_values(action, nats.max(axis=1)):
        bank, _ = context.bank_and_row(batch, row)
        known, amount = UsualAmounts.from_arrays(bank.scorer_state, identity_placement), int(rarest[row])
        most = int(known.most(batch.principal[[row]], action[[row]])[0, amount])
        called = int(calls[row, amount])
        rarity: Rarity = "unseen" if called > most else "rare"
        seen = amounts.amount_text(called, action_at(frame, row), spans[amount])
        drivers.append(
            SurpriseDriver("amount", seen, amounts.most_text(most), rarity, round(value, 2), count)
        )
    return drivers


def _was_news(batch: EventBatch, rows: NDArray[np.intp], worth: Floats) -> Mask:
    """Return a mask (M,) of the events at `rows` (M,) whose score has at least half of the nats `worth` (M,) of a first time.

    An event that came again, or is familiar by now, is scored without these nats and is no driver. Half is enough because `worth`
    is by the bank of the first event, and a bank that measured another event may have valued it a little less.
    """
    carried: Mask = batch.evidence[DETECTOR_NAME][rows, ADDED_NATS] >= worth / 2
    return carried


def _opener_drivers(batch: EventBatch, context: ExplanationContext) -> list[SurpriseDriver]:
    """Return the roles that events opened for a caller who never opened them before, each once."""
    opened = encoding.FEATURE_SET.opened_roles(batch.codes, batch.frame)
    if not len(opened.rows):
        return []
    bank, _ = context.bank_and_row(batch, 0)
    known = RoleOpeners.from_bank(bank.scorer_state)
    worth = known.evidence(opened.role, opened.opener)
    nats = known.nats(opened.role, opened.opener) * _was_news(batch, opened.rows, worth)
    drivers = []
    for place, value, count in _strangest_values(opened.role, nats):
        usual = sorted(filter(None, bank.value_texts(known.openers(opened.role[place]))))
        named = ", ".join(map(SOURCE.plain_principal, usual[:MAX_USUAL_VALUES]))
        more = len(usual) - MAX_USUAL_VALUES
        expected = f"{named} and {more:,} other{'s' if more > 1 else ''}" if more > 0 else named
        role, opener = opened.texts[place]
        seen = f"{SOURCE.plain_principal(opener)}{OPENED}{role}"
        drivers.append(SurpriseDriver(OPENER_FEATURE, seen, expected, "unseen", round(value, 2), count))
    return drivers


def _call_path_drivers(batch: EventBatch, frame: Frame, context: ExplanationContext) -> list[SurpriseDriver]:
    """Return the actions that only services called for the principal before and that it called itself now, each once."""
    rows = np.flatnonzero(could_be_left_to_services(batch.codes, batch.is_write, batch.level))
    if not len(rows):
        return []
    bank, _ = context.bank_and_row(batch, 0)
    known = KnownPaths.from_bank(bank.scorer_state, identity_placement)
    principal, action = batch.principal[rows], batch.codes[rows, ACTION_COLUMN]
    nats = known.nats(principal, action) * _was_news(batch, rows, known.evidence(principal, action))
    drivers = []
    for place, value, count in _strangest_values(action, nats):
        service, days = known.usual(principal[[place]], action[[place]])
        [named] = bank.value_texts(service)
        expected = f"{ONLY_BY}{named or 'a service'} on {days[0]:,.0f} day{'s' if days[0] > 1 else ''}"
        seen = action_at(frame, int(rows[place]))
        drivers.append(SurpriseDriver(CALL_PATH_FEATURE, seen, expected, "unseen", round(value, 2), count))
    return drivers


def _move_drivers(batch: EventBatch, frame: Frame, context: ExplanationContext) -> list[SurpriseDriver]:
    """Return the networks of events at which their settled machine (one that never moved) was never seen, each once."""
    rows = np.flatnonzero(could_have_moved(batch.codes, batch.level))
    if not len(rows):
        return []
    bank, _ = context.bank_and_row(batch, 0)
    known = SettledMachines.from_bank(bank.scorer_state, identity_placement)
    network = encoding.FEATURE_SET.networks(batch.codes)[rows]
    worth = known.evidence(
        batch.principal[rows], network, shows_more_than_a_place(feature_surprise(batch)[rows])
    )
    nats = known.nats(batch.principal[rows], network) * (worth > 0) * _was_news(batch, rows, worth)
    drivers = []
    for place, value, count in _strangest_values(network, nats):
        usual, days = known.usual(batch.principal[rows[place]])
        named = ", ".join(sorted(filter(None, bank.value_texts(usual))))
        [seen] = encoding.FEATURE_SET.texts(frames.select_rows(frame, rows[[place]]), ["network"])["network"]
        expected = f"only {named or 'others'}, in {days:,} days"
        drivers.append(SurpriseDriver(MOVE_FEATURE, str(seen), expected, "unseen", round(value, 2), count))
    return drivers
