"""Features and feature sets: a feature is one categorical column of codes, a feature set all features of a log source, in order.

Example:
    >>> verb = Feature("action", "action", "value", "what", ("action",), lambda action: action)
    >>> features = FeatureSet((verb,), is_write=lambda events: np.zeros(len(events), bool))
    >>> features.names, features.is_bin.tolist()
    (('action',), [False])

Every feature is a category. Numbers (ages, counts) are binned by powers, times by part of the day, so that all features have the
same kind of likelihood, and a loss means the same for all. Ids that are new in every record (request ids, session keys) are not
features. A feature that is `given` another is judged only by what it adds to that: p(parameters | action) = p(action, parameters)
/ p(action). An `open` feature has new values all the time, such as names of resources, so a value of it is hardly more surprising
than the fact that a new value comes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fingerprint.compute import arrays, frames, hashing
from fingerprint.compute.arrays import Array
from fingerprint.compute.dictionary import DerivedColumn, DictionaryEncoded
from fingerprint.compute.frames import Frame
from fingerprint.features.value_texts import PRIVATE

FeatureKind = Literal["value", "open", "bin"]
EvidenceGroup = Literal["what", "outcome", "tool", "place", "time"]  # features of one group show one fact
DerivedColumns = Mapping[str, DerivedColumn]

MAX_REMEMBERED_ROWS = 1 << 14  # rows of values of a feature whose hashes are cached
EVIDENCE_GROUPS: tuple[EvidenceGroup, ...] = get_args(EvidenceGroup)
_PRIVATE_CODE = hashing.hash_string(PRIVATE)


@dataclass(frozen=True, slots=True)
class Feature:
    """One column of codes.

    `text` is called with an event's values in `columns`, which are columns of the events or derived columns of the set. A missing
    value is None, and `text` returns None for a missing feature.
    """

    name: str
    label: str  # shown to analysts
    # "bin": a small closed set, so no value is quite new; "open": new values come all the time
    kind: FeatureKind
    evidence_group: EvidenceGroup
    columns: tuple[str, ...]
    text: Callable[..., str | None]
    given: str | None = None
    # The evidence group whose new values of the day so far this feature counts
    counts: EvidenceGroup | None = None
    is_stateful: bool = False  # from the scorer state, not from the record
    weight: float = 1.0  # factor of its surprise
    # Turns a text into the one that is shown. Codes are hashes of the unchanged text, so banks stay valid.
    shown: Callable[[str], str] = str

    def encoded_texts(self, coded: DictionaryEncoded) -> tuple[Array, NDArray[np.object_]]:
        """Return an index into texts for each event (N,), on the events' device, and the texts, on the host; the last is None."""
        code, distinct = coded.combined_column(self.columns)
        return code, np.array([*(self.text(*values) for values in distinct), None], object)


class Openings(NamedTuple):
    """The calls by which a caller becomes another principal.

    - `actions`: the texts of the feature `action` of these calls
    - `by_workloads`: those of them with which a workload signs in
    - `read`: is called with an event's values in `columns`, and returns the opened role and its opener, or None
    """

    actions: frozenset[str]
    by_workloads: frozenset[str]
    columns: tuple[str, ...]
    read: Callable[..., tuple[str, str] | None]


class OpenedRoles(NamedTuple):
    """The roles that events at `rows` (M,) opened, and their openers, on the host: hashes `role`, `opener`, and `texts` (M,)."""

    rows: NDArray[np.intp]
    role: hashing.Hashes
    opener: hashing.Hashes
    texts: list[tuple[str, str]]


def _text_codes(texts: Collection[str]) -> NDArray[np.uint64]:
    return np.array([hashing.hash_string(text) for text in sorted(texts)], np.uint64)


def _is_any(codes: Array, wanted: NDArray[np.uint64]) -> Array:
    """Return whether each code (N,) is one of a few `wanted` ones."""
    return (codes == arrays.to_device_of(wanted, codes)[:, None]).any(axis=0)


@dataclass(frozen=True)
class FeatureSet:
    """F features in the order of their columns, and the meaning of some of their texts.

    - `is_write`: returns whether each event (N,) changed something, as a boolean array on the device of the events
    - `derived_columns`: columns that features read and events do not have
    - `texts_without_evidence`: by feature, a text that is no surprise of any caller
    - `outcome`: the feature that is the outcome of a call. Its text in `texts_without_evidence` means that the call had no
      effect, and not because of its caller. One of `throttled` means that the call was turned away, and clients send it again by
      themselves. Such calls make no amount. Any other text than `success` means that the call failed; then it makes an amount on
      unusual resources alone. One of `dry_runs` means that the caller only asked for permission, and has it.
    - `ranges`: the features that are a wide and a narrow range of the address. If both have the same text, it is the name of a
      service, or PRIVATE.
    - `of_account`: features whose usual values are those of an account; in a new account nothing is usual
    - `other_account`: the feature that is the other account which a call names
    - `to_members`: the calls that can name accounts of the caller's organisation alone
    - `entries`: those of them by which people enter a role that was given to them
    - `openings`: the calls by which a caller becomes another principal
    """

    features: tuple[Feature, ...]
    is_write: Callable[[Frame], Array]
    derived_columns: DerivedColumns = field(default_factory=dict)
    texts_without_evidence: Mapping[str, str] = field(default_factory=dict)
    outcome: str | None = None
    success: str = ""
    throttled: frozenset[str] = frozenset()
    dry_runs: frozenset[str] = frozenset()
    ranges: tuple[str, str] | None = None
    of_account: frozenset[str] = frozenset()
    other_account: str | None = None
    to_members: frozenset[str] = frozenset()
    entries: frozenset[str] = frozenset()
    openings: Openings | None = None

    def __post_init__(self) -> None:
        """Raise ValueError if the set cannot tell failed calls from successful ones."""
        if self.outcome is not None and not self.success:
            raise ValueError(f"success must be the text of {self.outcome} of a call that did not fail")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The name of each feature, (F,)."""
        return tuple(feature.name for feature in self.features)

    @cached_property
    def given(self) -> NDArray[np.int64]:
        """The position of the feature that each feature is judged given, (F,); -1 for none."""
        return np.array(
            [self.names.index(feature.given) if feature.given else -1 for feature in self.features]
        )

    @cached_property
    def weights(self) -> NDArray[np.float32]:
        """The weight of each feature's surprise, (F,)."""
        return np.array([feature.weight for feature in self.features], np.float32)

    @cached_property
    def is_bin(self) -> NDArray[np.bool_]:
        """The features that are small closed sets: a mask (F,)."""
        return np.array([feature.kind == "bin" for feature in self.features])

    @cached_property
    def is_open(self) -> NDArray[np.bool_]:
        """The features that have new values all the time: a mask (F,)."""
        return np.array([feature.kind == "open" for feature in self.features])

    @cached_property
    def is_resource(self) -> NDArray[np.bool_]:
        """The features that name resources, which are the open ones of the evidence group `what`: a mask (F,)."""
        return self.is_open & np.array([feature.evidence_group == "what" for feature in self.features])

    @cached_property
    def codes_without_evidence(self) -> dict[int, np.uint64]:
        """The code that is no surprise, by the position of its feature."""
        return {
            self.names.index(name): hashing.hash_string(text)
            for name, text in self.texts_without_evidence.items()
        }

    def had_no_effect(self, codes: Array) -> Array:
        """Return whether each event (N,) had no effect, and not because of its caller, from codes (N, F)."""
        if self.outcome is None:
            return arrays.namespace(codes).zeros(len(codes), bool)
        place = self.names.index(self.outcome)
        return codes[:, place] == self.codes_without_evidence[place]

    @cached_property
    def _uncounted_errors(self) -> hashing.Hashes:
        """The codes of the feature `outcome` of calls that make no amount, whatever they touch."""
        if self.outcome is None:
            return np.empty(0, np.uint64)
        texts = {self.texts_without_evidence[self.outcome], *self.throttled}
        return _text_codes(texts)

    def makes_no_amount(self, codes: Array) -> Array:
        """Return whether each event (N,) makes no amount, whatever it touches: it had no effect, or was turned away."""
        if self.outcome is None:
            return self.had_no_effect(codes)
        return _is_any(codes[:, self.names.index(self.outcome)], self._uncounted_errors)

    @cached_property
    def _success_code(self) -> np.uint64:
        return hashing.hash_string(self.success)

    def failed(self, codes: Array) -> Array:
        """Return whether each event (N,) failed, for whatever reason, from codes (N, F)."""
        if self.outcome is None:
            return self.had_no_effect(codes)
        return codes[:, self.names.index(self.outcome)] != self._success_code

    @cached_property
    def _opening_codes(self) -> NDArray[np.uint64]:
        return _text_codes(self.openings.actions if self.openings else ())

    @cached_property
    def _workload_codes(self) -> NDArray[np.uint64]:
        return _text_codes(self.openings.by_workloads if self.openings else ())

    @cached_property
    def _member_codes(self) -> NDArray[np.uint64]:
        return _text_codes(self.to_members)

    def is_to_members(self, action: Array) -> Array:
        """Return whether each action, by its code (N,), can name accounts of the caller's organisation alone."""
        return _is_any(action, self._member_codes)

    @cached_property
    def _entry_codes(self) -> NDArray[np.uint64]:
        return _text_codes(self.entries)

    def is_entry(self, action: Array) -> Array:
        """Return whether a person enters a given role by each action, by its code (N,)."""
        return _is_any(action, self._entry_codes)

    def is_workload_sign_in(self, action: Array) -> Array:
        """Return whether each action, by its code (N,), is a call with which a workload signs in."""
        return _is_any(action, self._workload_codes)

    def opened_roles(self, codes: Array, events: Frame) -> OpenedRoles:
        """Return the roles that events with codes (N, F) opened, and their openers. Only events that open one are read."""
        none = np.empty(0, np.uint64)
        nothing = OpenedRoles(np.empty(0, np.intp), none, none, [])
        if self.openings is None:
            return nothing
        rows = _is_any(codes[:, self.names.index("action")], self._opening_codes).nonzero()[0]
        if not len(rows):
            return nothing
        columns = self.openings.columns
        calls = frames.to_host(frames.select_rows(frames.select_columns(events, columns), rows))
        code, distinct = DictionaryEncoded(calls).combined_column(columns)
        read = [self.openings.read(*values) for values in distinct]
        opened = np.array([each is not None for each in read], bool)
        texts = [each or ("", "") for each in read]
        role, opener = (hashing.hash_strings(np.array(column, object)) for column in zip(*texts, strict=True))
        some = np.flatnonzero(opened[code])
        of_some = code[some]
        return OpenedRoles(
            arrays.to_host(rows)[some],
            role[of_some],
            opener[of_some],
            [texts[at] for at in of_some.tolist()],
        )

    def is_from_address(self, codes: Array) -> Array:
        """Return whether each event (N,) came from an address, not through a service that names itself instead."""
        if self.ranges is None:
            return arrays.namespace(codes).ones(len(codes), bool)
        wide, narrow = (codes[:, self.names.index(name)] for name in self.ranges)
        return (wide != narrow) | (wide == _PRIVATE_CODE)

    def networks(self, codes: Array) -> Array:
        """Return the code of each event's network (N,); for calls by a service that of its name, MISSING without `ranges`."""
        if self.ranges is None:
            return arrays.namespace(codes).full(len(codes), hashing.MISSING, dtype=np.uint64)
        return codes[:, self.names.index(self.ranges[0])]

    @cached_property
    def account_features(self) -> NDArray[np.intp]:
        """The positions of the features `of_account`."""
        return np.array([place for place, name in enumerate(self.names) if name in self.of_account], np.intp)

    @property
    def other_account_feature(self) -> int | None:
        """The position of the feature `other_account`."""
        return None if self.other_account is None else self.names.index(self.other_account)

    @cached_property
    def evidence_group_features(self) -> tuple[NDArray[np.intp], ...]:
        """The positions of the features of each of EVIDENCE_GROUPS."""
        return tuple(
            np.flatnonzero([feature.evidence_group == group for feature in self.features])
            for group in EVIDENCE_GROUPS
        )

    @cached_property
    def day_counts(self) -> tuple[tuple[int, NDArray[np.intp]], ...]:
        """The position of each feature that counts a day's new values, and the positions of the features that it counts."""
        groups = dict(zip(EVIDENCE_GROUPS, self.evidence_group_features, strict=True))
        return tuple(
            (place, groups[feature.counts]) for place, feature in enumerate(self.features) if feature.counts
        )

    def encode(self, events: Frame) -> Array:
        """Return codes (N, F) uint64 of N events, on their device; a missing value is `hashing.MISSING`.

        Columns of stateful features are zero. `encode_stateful` fills them after the scorer state has added its columns.
        """
        codes = frames.array_module_of(events).zeros((len(events), len(self.features)), dtype=np.uint64)
        self._fill(codes, events, stateful=False)
        return codes

    def encode_stateful(self, codes: Array, events: Frame) -> None:
        """Fill the columns of stateful features in place, from events that have the scorer state's columns."""
        self._fill(codes, events, stateful=True)

    def texts_of(self, feature: Feature, events: pd.DataFrame) -> NDArray[np.object_]:
        """Return the text of one feature for each event of a pandas table, (N,); None if it is missing."""
        return self._texts_of(feature, DictionaryEncoded(events, self.derived_columns))

    def texts(self, events: Frame, names: Collection[str] | None = None) -> dict[str, NDArray[np.object_]]:
        """Return the texts of some features, or of all, (N,) each by name, for the few events that are explained."""
        coded = DictionaryEncoded(events, self.derived_columns)
        return {
            each.name: self._texts_of(each, coded)
            for each in self.features
            if names is None or each.name in names
        }

    def _texts_of(self, feature: Feature, coded: DictionaryEncoded) -> NDArray[np.object_]:
        code, texts = feature.encoded_texts(coded)
        return texts[code]

    @cached_property
    def _memories(self) -> list[hashing.HashMemory]:
        """A cache of hashes of values for each feature."""
        return [
            hashing.HashMemory(partial(_hash_rows, feature), MAX_REMEMBERED_ROWS) for feature in self.features
        ]

    @cached_property
    def _places(self) -> tuple[list[int], list[int]]:
        """The positions of the features that come from the record, and of those from the scorer state."""
        stateful = np.array([feature.is_stateful for feature in self.features])
        return np.flatnonzero(~stateful).tolist(), np.flatnonzero(stateful).tolist()

    def _fill(self, codes: Array, events: Frame, stateful: bool) -> None:
        if not len(events):  # a batch of nothing but repeats
            return
        coded, places = DictionaryEncoded(events, self.derived_columns), self._places[stateful]
        for place in places:
            columns = self.features[place].columns
            if coded.is_few:
                codes[:, place] = self._memories[place].look_up(coded.rows(columns))
                continue
            code, distinct = coded.combined_column(columns)
            of_distinct = np.array(self._memories[place].look_up(distinct), np.uint64)
            codes[:, place] = arrays.to_device_of(of_distinct, codes).take(code)


def _hash_rows(feature: Feature, rows: list[tuple[Any, ...]]) -> hashing.Hashes:
    """Return the hash of a feature's text for each row of values, (N,)."""
    return hashing.hash_distinct([feature.text(*values) for values in rows])
