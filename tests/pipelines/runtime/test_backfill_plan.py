"""A backfill's parts share no principal and leave none out, and only the same work is resumed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from fingerprint.adapters import files
from fingerprint.core.settings import Settings, Workers
from fingerprint.core.time_range import parse_time_range
from fingerprint.registry import state_files
from fingerprint.registry.bank import Bank
from pipelines.runtime.backfill_plan import BackfillPlan, plan_fingerprint

BANK = cast(Bank, SimpleNamespace(version="first"))
OTHER_BANK = cast(Bank, SimpleNamespace(version="second"))


@pytest.mark.parametrize("parts", [1, 3, 8])
def test_every_hash_bucket_belongs_to_one_part(parts: int) -> None:
    plan = BackfillPlan(Path("work"), Path("bank"), "first", Settings(), False, False)
    masks = [replace(plan, parts=parts).bucket_mask(part) for part in range(parts)]
    np.testing.assert_array_equal(np.sum(masks, axis=0), 1)
    assert all(mask.any() for mask in masks)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with one file of records."""
    (tmp_path / "day.jsonl").write_text("{}\n")
    return tmp_path


def fingerprint(
    place: Path, bank: Bank = BANK, settings: Settings | None = None, **more: Any
) -> dict[str, Any]:
    found = files.find_files([str(place / "day.jsonl")])
    known = {"state_folder": None, "every_event": False} | more
    return plan_fingerprint(found, bank, settings or Settings(), **known)


def test_the_same_work_has_the_same_fingerprint_however_many_workers_do_it(place: Path) -> None:
    many = Settings(workers=Workers(processes=7, backfill_parts=5))
    assert fingerprint(place) == fingerprint(place, settings=many)


def test_what_shapes_the_answers_changes_the_fingerprint(place: Path) -> None:
    before = fingerprint(place, state_folder=place / "state")
    (place / "state").mkdir()
    (place / "state" / state_files.STATE_FILE).write_bytes(b"of a run before")
    other = Settings.model_validate({"alerts": {"threshold": 3.3}})
    assert fingerprint(place, OTHER_BANK) != fingerprint(place)
    assert fingerprint(place, settings=other) != fingerprint(place)
    assert fingerprint(place, every_event=True) != fingerprint(place)
    assert fingerprint(place, span=parse_time_range(since="2026-01-05")) != fingerprint(place)
    assert fingerprint(place, state_folder=place / "state") != before != fingerprint(place)
    whole = fingerprint(place)
    (place / "day.jsonl").write_text("{}\n{}\n")
    assert fingerprint(place) != whole
