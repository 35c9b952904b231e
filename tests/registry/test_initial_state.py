"""A run starts where the run before it ended, else where the bank's training did; from nothing if the bank learned the input."""

from __future__ import annotations

import resource
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from fingerprint.core.errors import FingerprintError
from fingerprint.core.settings import Settings
from fingerprint.core.time_range import parse_time_range
from fingerprint.registry import bank as banks
from fingerprint.registry import bank_files, state_files
from fingerprint.registry.initial_state import (
    FROM_BANK,
    FROM_NOTHING,
    FROM_STATE,
    initial_state,
    missing_history_warning,
    trained_until,
)
from fingerprint.state.scorer_state import ScorerState
from tests.support.sample_organisation import SETTINGS, SampleOrganisation


@pytest.fixture(scope="module")
def bank(organisation: SampleOrganisation) -> banks.Bank:
    return bank_files.open_bank(organisation.bank)


def test_input_after_the_training_starts_from_the_bank(bank: banks.Bank) -> None:
    arrays, started_from = initial_state(bank, int(bank.manifest["trained_until"]), SETTINGS, None)
    assert started_from == FROM_BANK
    assert arrays is bank.scorer_state


def test_input_without_events_starts_from_the_bank(bank: banks.Bank) -> None:
    assert initial_state(bank, None, SETTINGS, None)[1] == FROM_BANK


def test_input_that_the_bank_learned_starts_from_nothing(bank: banks.Bank) -> None:
    arrays, started_from = initial_state(bank, int(bank.manifest["trained_until"]) - 1, SETTINGS, None)
    assert started_from == FROM_NOTHING
    assert arrays.keys() == ScorerState(SETTINGS).as_arrays().keys()


def test_a_saved_state_is_gone_on_from_whatever_the_input(bank: banks.Bank, tmp_path: Path) -> None:
    folder = tmp_path / "state"
    assert initial_state(bank, None, SETTINGS, folder)[1] == FROM_BANK, "the first run finds none"
    state_files.save_state(ScorerState.from_arrays(SETTINGS, bank.scorer_state), folder)
    arrays, started_from = initial_state(bank, 0, SETTINGS, folder)
    assert started_from == FROM_STATE
    np.testing.assert_array_equal(arrays["clock"], bank.scorer_state["clock"])


@pytest.mark.parametrize(
    "changed",
    [
        {"spectral": {"interval_seconds": 1800}},
        {"spectral": {"allowed_lateness_seconds": 7200}},
        {"entities": {"granularity": "principal"}},
        {"entities": {"person_role_patterns": ["^Person-"]}},
    ],
)
def test_a_state_that_was_counted_with_other_settings_is_refused(
    tmp_path: Path, changed: dict[str, dict[str, object]]
) -> None:
    state_files.save_state(ScorerState(Settings()), tmp_path)
    (section, ((key, value),)), *_ = [(name, each.items()) for name, each in changed.items()]
    with pytest.raises(FingerprintError) as refused:
        state_files.restore_state(tmp_path, Settings(**changed))
    assert f"setting {section}.{key} is {value!r}, and the scorer state" in str(refused.value)
    assert "set it back, or name another folder in --state" in str(refused.value)
    assert state_files.restore_state(tmp_path, Settings())


@pytest.mark.parametrize("metadata", [None, {"format": "0"}])
def test_a_state_of_another_format_is_refused(tmp_path: Path, metadata: dict[str, str] | None) -> None:
    save_file(ScorerState(Settings()).as_arrays(), tmp_path / state_files.STATE_FILE, metadata)
    with pytest.raises(FingerprintError, match=r"has format .*name another folder in --state"):
        state_files.restore_state(tmp_path, Settings())


def test_a_state_that_does_not_fit_on_the_disk_is_one_sentence(bank: banks.Bank, tmp_path: Path) -> None:
    state = ScorerState.from_arrays(SETTINGS, bank.scorer_state)
    usual, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, most))
    try:
        with pytest.raises(FingerprintError, match=r"cannot write the scorer state .*File too large"):
            state_files.save_state(state, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (usual, most))


def test_only_a_start_from_nothing_is_warned_of() -> None:
    warning = missing_history_warning(FROM_NOTHING, "bank-1", "2026-01-31")
    assert warning is not None
    assert "before the training of bank bank-1 ends" in warning
    assert "(--since 2026-01-31)" in warning
    assert missing_history_warning(FROM_BANK, "bank-1", "2026-01-31") is None
    assert missing_history_warning(FROM_STATE, "bank-1", "2026-01-31") is None


def test_what_follows_the_time_that_is_named_starts_from_the_bank(bank: banks.Bank) -> None:
    since = parse_time_range(since=trained_until(bank, SETTINGS)).since
    assert since
    assert initial_state(bank, int(since.timestamp()), SETTINGS, None)[1] == FROM_BANK
    assert initial_state(bank, int(since.timestamp()) - 1, SETTINGS, None)[1] == FROM_NOTHING
