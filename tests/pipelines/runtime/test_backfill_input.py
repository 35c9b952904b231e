"""The input of a backfill is read once: a run that resumes finds the parts, and what was read."""

from __future__ import annotations

from pathlib import Path

import pytest

from fingerprint.adapters import files
from fingerprint.core.errors import FingerprintError
from fingerprint.core.ports.store import Store
from fingerprint.registry import bank_files
from fingerprint.registry.bank import Bank
from fingerprint.registry.initial_state import FROM_BANK
from fingerprint.store import open_store
from pipelines.cli.console import no_progress
from pipelines.runtime.backfill_input import PARTS_PER_WORKER, partition_once
from pipelines.runtime.backfill_plan import BackfillPlan
from tests.support.sample_organisation import SETTINGS, SampleOrganisation, write


@pytest.fixture(scope="module")
def bank(organisation: SampleOrganisation) -> Bank:
    return bank_files.open_bank(organisation.bank)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(f"sqlite:///{tmp_path}/alerts.sqlite")


@pytest.fixture
def plan(organisation: SampleOrganisation, bank: Bank, tmp_path: Path) -> BackfillPlan:
    (tmp_path / "work").mkdir()
    return BackfillPlan(tmp_path / "work", organisation.bank, bank.version, SETTINGS, False, False)


def test_the_input_is_read_once(
    organisation: SampleOrganisation, bank: Bank, store: Store, plan: BackfillPlan
) -> None:
    found = files.find_files(organisation.new[:1])
    divided, read = partition_once(plan, found, bank, 2, None, store, no_progress)
    assert (divided.parts, divided.started_from) == (2 * PARTS_PER_WORKER, FROM_BANK)
    assert read["events"] == read["records"] > 0
    chunks = [chunk for part in range(divided.parts) for chunk in divided.history.read_chunks(part, 1000)]
    assert sum(map(len, chunks)) == read["events"]
    assert partition_once(plan, [], bank, 5, None, store, no_progress) == (divided, read), "nothing is read"


def test_input_without_an_event_leaves_nothing_to_resume(
    bank: Bank, store: Store, plan: BackfillPlan, tmp_path: Path
) -> None:
    found = files.find_files([str(write(tmp_path / "day.jsonl", [b"{not json"]))])
    with pytest.raises(FingerprintError, match="nothing in the input is a CloudTrail record"):
        partition_once(plan, found, bank, 1, None, store, no_progress)
    assert not plan.read_file.exists()
