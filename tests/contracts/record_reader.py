"""What every reading of records holds to: it gives the events, rejects, keys and codes of the host's, of whatever is read."""

from __future__ import annotations

import json
from random import Random

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fingerprint.compute import arrays, frames
from fingerprint.core.settings import Entities
from fingerprint.features import encoding
from fingerprint.sources.base import FlattenedRecords
from fingerprint.sources.cloudtrail.envelopes import split_lines
from fingerprint.sources.entities import add_entity_columns
from fingerprint.sources.flatten import dedup_key, flatten
from tests.support import record_corpus, sample_organisation
from tests.support.random_records import drawn, mutated


def alike(lines: list[bytes], tables: str) -> FlattenedRecords:
    """What the host makes of the lines, once the other reading was found to make the same of them."""
    records = split_lines(lines)
    ours, theirs = flatten(records), flatten(records, tables)
    assert theirs.rejects == ours.rejects
    assert theirs.skipped == ours.skipped
    pd.testing.assert_frame_equal(frames.to_pandas(theirs.events), ours.events)
    here, there = (add_entity_columns(flat.events, Entities()) for flat in (ours, theirs))
    pd.testing.assert_frame_equal(frames.to_pandas(there), here)
    for made in (dedup_key, encoding.FEATURE_SET.encode, encoding.FEATURE_SET.is_write):
        assert (arrays.to_host(made(there)) == made(here)).all(), made.__name__
    return ours


class ReadingContract:
    """Held to by cuDF and by its fake: `tables` is the name of the library."""

    tables: str

    @pytest.mark.parametrize("name", record_corpus.real())
    def test_real_records_are_read_as_on_the_host(self, name: str) -> None:
        assert len(alike(record_corpus.real()[name], self.tables).events)

    def test_hostile_and_crooked_records_are_read_as_on_the_host(self) -> None:
        record = json.loads(record_corpus.real()["schema_variety"][3])
        assert (
            len(alike([*record_corpus.hostile(record), *record_corpus.crooked()], self.tables).rejects) > 10
        )

    def test_simulated_days_are_read_as_on_the_host(
        self, organisation: sample_organisation.SampleOrganisation
    ) -> None:
        assert not alike(sample_organisation.lines_of(organisation.new), self.tables).rejects

    def test_nothing_is_read_as_nothing(self) -> None:
        assert not len(alike([], self.tables).events)
        assert not len(alike([b"7", b"{}"], self.tables).events)

    @settings(max_examples=8, deadline=None)
    @given(st.integers(0, 2**32), st.sampled_from([0.7, 0.9, 0.99]))
    def test_whatever_is_drawn_is_read_as_on_the_host(self, seed: int, calm: float) -> None:
        chance = Random(seed)
        alike([drawn(chance, calm) for _ in range(60)], self.tables)

    @settings(max_examples=4, deadline=None)
    @given(st.integers(0, 2**32))
    def test_damaged_records_are_read_as_on_the_host(self, seed: int) -> None:
        chance = Random(seed)
        real = record_corpus.real()["schema_variety"]
        alike([mutated(chance, chance.choice(real)) for _ in range(60)], self.tables)
