"""What of an alert is new to its principal, and at another role of the same person is not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fingerprint.alerting import novelty
from fingerprint.features import encoding
from fingerprint.features.encoding import FEATURE_NAMES


def test_a_network_is_new_where_the_principal_never_used_it_with_any_service() -> None:
    """Three entities of one principal: its fingerprint as a whole, row 3, knows the network of the second."""
    shares = np.ones((4, len(FEATURE_NAMES)))
    for row in (0, 1):
        shares[row, novelty.PLACE_COLUMNS] = 0
    shares[3, novelty.PLACE_COLUMNS[1]] = 0
    bank = SimpleNamespace(
        whole=np.array([-1, 3, 3, -1]), vocabulary=SimpleNamespace(observed_share=lambda at, _: shares[at])
    )
    batch = SimpleNamespace(codes=np.full((3, len(FEATURE_NAMES)), 7, np.uint64), level=np.zeros(3, np.int8))
    explainer = SimpleNamespace(bank_and_rows=lambda _, rows: (bank, np.array([0, 1, 2])[rows]))
    new = novelty._new_to_principal(batch, np.arange(3), explainer, "1:user/ann")
    new_place = [[True, True, True], [False, True, False], [False, False, False]]
    assert new.tolist() == [[False, *each, False] for each in new_place]
    [region] = (at for at in encoding.CODES_WITHOUT_EVIDENCE if FEATURE_NAMES[at] == "region")
    batch.codes[:, region] = encoding.CODES_WITHOUT_EVIDENCE[region]
    silent = novelty._new_to_principal(batch, np.arange(1), explainer, "1:user/ann")
    assert silent.tolist() == [[False, True, True, False, False]], (
        "what a global service logs is no region of the caller"
    )


def test_an_address_range_is_new_alone_where_its_network_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns: the action, then network, address range and region, then the parameters."""
    new = np.array([[0, 1, 1, 0, 0], [0, 0, 1, 0, 1], [0, 0, 0, 0, 0], [1, 0, 0, 1, 0]], bool)
    monkeypatch.setattr(novelty, "_new_to_principal", lambda *_: new)
    monkeypatch.setattr(novelty, "_new_networks", lambda *_: {})
    monkeypatch.setattr(novelty, "_is_usual_range", lambda *_: np.array([True, False, True, True]))
    often = np.array(
        [[0, 1, 0], [0, 1, 0], [1, 1, 1], [0, 0, 1]], bool
    )  # a range of a network that is new says nothing
    monkeypatch.setattr(novelty, "_often_new", lambda *_: often)
    size = len(new)
    codes = np.arange(size * len(FEATURE_NAMES), dtype=np.uint64).reshape(size, -1)
    batch = SimpleNamespace(
        fingerprint=np.zeros(size, np.int32), principal=np.zeros(size, np.uint64), codes=codes
    )
    frame = pd.DataFrame(
        {"event_id": list("abcd"), "region": "eu-west-1", "bank_version": "1", "principal": "1:user/ann"}
    )
    frame["target_account"] = None
    found = novelty.find_novelty(batch, frame, [f"iam:{name}" for name in "abcd"], SimpleNamespace())
    assert found.ranges == {"b"}
    assert found.usual_for_others == {"a"}, "what is new to the principal alone"
    assert found.actions == {"iam:d"}
    assert found.requests == {"b"}
    assert found.usual_places == {"b"}
    assert not found.regions, "that it was in a new one is nothing strange"
    often[:] = False
    found = novelty.find_novelty(batch, frame, [f"iam:{name}" for name in "abcd"], SimpleNamespace())
    assert (found.usual_places, found.regions) == (frozenset(), {"d": "eu-west-1"})


def test_a_network_that_a_person_used_at_another_role_is_not_new_at_this_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No peer, row 0, used either network; the person did, one at each of two roles, rows 1 and 2."""
    at_places = np.array([[0, 0, 0], [1, 0, 1], [0, 1, 0]], float)
    shares = np.ones((3, len(FEATURE_NAMES)))
    shares[:, novelty.PLACE_COLUMNS] = at_places
    others = {"1:role/Support/ann": ["1:role/Admin/ann", "1:role/Audit/ann"]}
    bank = SimpleNamespace(
        whole=np.full(3, -1),
        vocabulary=SimpleNamespace(observed_share=lambda at, _: shares[at]),
        same_person=lambda who: (others.get(who, []), np.arange(1, 3)[: len(others.get(who, []))]),
        scorer_state={},
    )
    known = SimpleNamespace(is_new=lambda who, _: np.ones(len(who), bool))
    monkeypatch.setattr(novelty.UsualAmounts, "from_arrays", lambda *_: known)
    codes = np.full((2, len(FEATURE_NAMES)), 7, np.uint64)
    batch = SimpleNamespace(
        codes=codes, level=np.full(2, novelty.PEER_LEVEL), principal=np.zeros(2, np.uint64)
    )
    explainer = SimpleNamespace(bank_and_rows=lambda _, rows: (bank, np.zeros(len(rows), int)))

    def new(who: str) -> list[list[bool]]:
        return novelty._new_to_principal(batch, np.arange(2), explainer, who).tolist()

    assert new("1:role/Support/ann") == [[True, False, False, False, False]] * 2
    assert new("1:role/Support/eve") == [[True, True, True, True, False]] * 2


def test_what_a_person_did_at_another_role_is_known_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """At another role, row 4, they called the first action from the first network, and from the second range."""
    columns = [
        novelty.ACTION_COLUMN,
        novelty.NETWORK_COLUMN,
        novelty.RANGE_COLUMN,
        novelty.PROGRAM_COLUMN,
        novelty.VERSION_COLUMN,
    ]
    codes = np.zeros((3, len(FEATURE_NAMES)), np.uint64)
    codes[:, columns] = [[1, 2, 3, 4, 1], [5, 6, 7, 8, 1], [5, 2, 9, 8, 0]]
    seen = {(4, *pair) for pair in zip(columns, (1, 2, 7, 8, 1), strict=True)}

    def count_of(rows: Any, column: int, values: Any) -> Any:
        return np.array(
            [(row, column, value) in seen for row, value in zip(rows.tolist(), values.tolist(), strict=True)]
        )

    others = {"1:role/Support/ann": np.array([3, 4], np.int32)}
    bank = SimpleNamespace(
        same_person=lambda who: ([], others.get(who, np.empty(0, np.int32))),
        vocabulary=SimpleNamespace(count_of=count_of),
    )
    explainer = SimpleNamespace(bank_and_rows=lambda *_: (bank, None))
    texts = {"program": ["aws-cli", "Boto3", "Boto3"], "version": ["aws-cli 2.1", "Boto3 1.34", "Boto3 1.40"]}
    monkeypatch.setattr(novelty, "feature_texts", lambda *each: texts[each[-1]])
    frame = pd.DataFrame(
        {"event_id": list("abc"), "bank_version": ["1", "1", "2"], "principal": "1:role/Support/ann"}
    )
    names = ["iam:A", "iam:B", "iam:C"]

    def elsewhere(frame: pd.DataFrame, ranges: set[str]) -> novelty.Elsewhere:
        return novelty.find_elsewhere(SimpleNamespace(codes=codes), frame, names, ranges, explainer)

    assert elsewhere(frame, set()) == ({"iam:A"}, {"a", "c"}, {"Boto3", "aws-cli 2.1", "Boto3 1.34"})
    assert elsewhere(frame, {"b", "c"}).networks == {"a", "b"}, "of these the range is what is new"
    assert elsewhere(frame.assign(principal="1:role/Support/eve"), set()) == novelty.Elsewhere()
