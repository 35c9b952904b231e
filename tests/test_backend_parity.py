"""Bytes to votes on two pipelines: what the CPU says of a corpus, every other backend says too.

The corpus is every real set that is here, hostile and crooked records, and PARITY_RECORDS simulated ones (8,000; on a device a
million). `PARITY_RECORDS=1000000 pytest tests/test_backend_parity.py -s` prints what was compared.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fingerprint.compute.backend import HOST_BACKEND, Backend, choose_backend
from fingerprint.registry.bank import Bank
from fingerprint.registry.bank_files import open_bank
from fingerprint.state.scorer_state import ScorerState
from pipelines.cli.console import no_progress
from pipelines.train import train_bank
from tests.contracts.backend_parity import CLOSE, Parity, Step, Walker, compare, compared
from tests.support import record_corpus, sample_organisation

RECORDS = int(os.environ.get("PARITY_RECORDS", 0))
LEARNED = 3  # days of a larger organisation, for its bank


@pytest.fixture(scope="module")
def nothing_yet() -> dict[str, Any]:
    """The scorer state of a pipeline that has seen nothing."""
    return ScorerState(sample_organisation.SETTINGS).as_arrays()


class ParityContract:
    """Held to by every backend beside the CPU's."""

    records = RECORDS or 8_000

    @pytest.mark.parametrize("name", record_corpus.real())
    def test_a_real_set_is_read_and_judged_as_on_the_cpu(
        self, name: str, bank: Bank, nothing_yet: dict[str, Any], other: Backend
    ) -> None:
        alike(
            compared(
                record_corpus.real()[name],
                bank,
                nothing_yet,
                sample_organisation.SETTINGS,
                other,
                HOST_BACKEND,
            )
        )

    def test_hostile_and_crooked_records_are_read_and_judged_as_on_the_cpu(
        self,
        organisation: sample_organisation.SampleOrganisation,
        bank: Bank,
        nothing_yet: dict[str, Any],
        other: Backend,
    ) -> None:
        record = json.loads(sample_organisation.lines_of(organisation.new[:1])[0])
        lines = [*record_corpus.hostile(record), *record_corpus.crooked()]
        found = alike(compared(lines, bank, nothing_yet, sample_organisation.SETTINGS, other, HOST_BACKEND))
        assert found.rejects > 10
        assert found.events > 1000

    def test_simulated_days_are_judged_as_on_the_cpu(
        self, organisation: sample_organisation.SampleOrganisation, bank: Bank, other: Backend
    ) -> None:
        lines = sample_organisation.lines_of(organisation.new)
        found = alike(
            compared(
                lines, bank, bank.scorer_state, sample_organisation.SETTINGS, other, HOST_BACKEND, batch=3000
            )
        )
        assert found.votes > 100
        assert found.alerts

    @pytest.mark.timeout(1800)  # a million of them, where that is asked for
    def test_so_many_simulated_records_are_read_and_judged_as_on_the_cpu(
        self,
        organisation: sample_organisation.SampleOrganisation,
        tmp_path: Path,
        nothing_yet: dict[str, Any],
        other: Backend,
    ) -> None:
        lines, bank = simulated(organisation, tmp_path, self.records)
        alike(compared(lines, bank, nothing_yet, sample_organisation.SETTINGS, other, HOST_BACKEND))


def simulated(
    organisation: sample_organisation.SampleOrganisation, folder: Path, records: int
) -> tuple[list[bytes], Bank]:
    """The organisation again, where it does more; or one of as many principals as are wanted, learned for some days."""
    lines = sample_organisation.lines_of(sample_organisation.simulated(folder / "same", 3, scale=1.0))
    if len(lines) >= records:
        return lines[:records], open_bank(organisation.bank)
    principals = records // 2000  # does each, or more, in those days
    days = sample_organisation.simulated(folder / "larger", 20, principals, scale=1.0)
    train_bank(days[:LEARNED], folder / "bank", sample_organisation.SETTINGS, no_progress)
    return sample_organisation.lines_of(days)[:records], open_bank(folder / "bank")


def alike(found: Parity) -> Parity:
    print(found)
    assert found.differences == []
    return found


class TestTheFakes(ParityContract):
    """Of cuDF and CuPy, as strict as these (`fake_cudf`, `fake_cupy`)."""

    @pytest.fixture
    def other(self) -> Backend:
        return Backend("fake_cudf", "fake_cupy", "cuda", "the fakes")


@pytest.mark.gpu
class TestTheDevice(ParityContract):
    """cuDF and CuPy."""

    records = RECORDS or 1_000_000

    @pytest.fixture
    def other(self) -> Backend:
        backend = choose_backend("cuda")
        assert (backend.dataframe_library, backend.array_library) == ("cudf", "cupy")
        return backend


# --- a difference is found ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def steps(
    organisation: sample_organisation.SampleOrganisation, bank: Bank
) -> tuple[list[Step], dict[str, float]]:
    """Some thousand records and the end, as one pipeline tells of them."""
    walker = Walker(bank, bank.scorer_state, sample_organisation.SETTINGS, HOST_BACKEND)
    lines = sample_organisation.lines_of(organisation.new)
    return [walker.step(lines), walker.end()], walker.thresholds


def with_reject(step: Step) -> Step:
    return replace(step, flat=step.flat._replace(rejects=[*step.flat.rejects, "one more"]))


def with_field(step: Step) -> Step:
    return replace(step, events=step.events.assign(user_agent=step.events["user_agent"].shift()))


def with_missing(step: Step) -> Step:
    return replace(step, events=step.events.assign(error_code=step.events["error_code"].fillna("")))


def with_key(step: Step) -> Step:
    return replace(step, keys=step.keys + np.uint64(1))


def with_code(step: Step) -> Step:
    first, *rest = step.asked
    codes = first.codes.copy()
    codes[7, 3] ^= np.uint64(1)
    return replace(step, asked=[replace(first, codes=codes), *rest])


def with_loss(step: Step) -> Step:
    first, *rest = step.asked
    loss = first.loss.copy()
    loss[7, 3] += 2 * CLOSE
    return replace(step, asked=[replace(first, loss=loss), *rest])


def with_vote(step: Step) -> Step:
    judged = [frame.assign(autoencoder_vote=~frame["autoencoder_vote"]) for frame in step.said.scored_events]
    return replace(step, said=step.said._replace(scored_events=judged))


def with_verdict(step: Step) -> Step:
    judged = [frame.assign(verdict=~frame["verdict"]) for frame in step.said.scored_events]
    return replace(step, said=step.said._replace(scored_events=judged))


def without_interval(step: Step) -> Step:
    """Raise IndexError for a step without one."""
    votes = step.said.votes.reset_index(drop=True)
    last = votes.index[votes["event_id"].str.startswith("interval:")][-1]
    return replace(step, said=step.said._replace(votes=votes.drop(last)))


def without_alert(step: Step) -> Step:
    return replace(step, said=step.said._replace(alerts=step.said.alerts[1:]))


@pytest.mark.parametrize(
    ("planted", "told"),
    [
        (with_reject, "a reject"),
        (with_field, "of user_agent"),
        (with_missing, "of error_code"),
        (with_key, "keys of repeats"),
        (with_code, "1 of codes"),
        (with_loss, "losses differ by 0.0002"),
        (with_vote, "votes of autoencoder"),
        (with_verdict, "verdicts"),
        (without_interval, "a vote on an interval"),
        (without_alert, "alert "),
    ],
)
def test_a_difference_is_found_and_told(
    steps: tuple[list[Step], dict[str, float]], planted: Callable[[Step], Step], told: str
) -> None:
    found = Parity()
    for step in steps[0]:
        try:
            changed = planted(step)
        except (IndexError, ValueError):  # this step has nothing of the kind
            continue
        compare(found, step, changed, steps[1])
    assert any(told in sentence for sentence in found.differences), found.differences


def test_a_vote_may_differ_at_its_threshold_and_is_counted(
    steps: tuple[list[Step], dict[str, float]],
) -> None:
    step, thresholds = steps[0][0], steps[1]
    at = step.said.scored_events[0].index[0]
    beside = []
    for sign in (-1, 1):
        frame = step.said.scored_events[0].copy()
        z = thresholds["autoencoder"] + sign * CLOSE / 4
        frame.loc[at, ["autoencoder_z", "autoencoder_vote"]] = z, z >= thresholds["autoencoder"]
        beside.append(replace(step, said=step.said._replace(scored_events=[frame])))
    found = Parity()
    compare(found, *beside, thresholds)
    assert (found.differences, found.at_threshold) == ([], 1)
