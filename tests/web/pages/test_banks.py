"""The page of banks: how often each detector votes for each kind of principal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fingerprint.core.settings import Settings
from fingerprint.registry import bank_files
from fingerprint.registry.catalog import BankListing
from fingerprint.registry.vote_rates import votes_by_kind
from tests.support.sample_organisation import SampleOrganisation
from tests.support.web_app import Site, store_in


@pytest.mark.parametrize("language", ["en", "de"])
def test_the_rates_of_votes_of_the_served_bank_are_shown_by_kind_and_detector(
    organisation: SampleOrganisation, tmp_path: Path, language: str
) -> None:
    store = store_in(tmp_path)
    listing = BankListing(organisation.bank, Settings())
    page = (
        Site.of(store, banks=listing).browser("viewer").get("/banks", headers={"Accept-Language": language})
    )
    store.close()
    table = page.text[page.text.index('<h2 id="rates">') :].split("</table>")[0]
    rates = bank_files.open_bank(organisation.bank).manifest["quality"]["vote_rates"]
    kinds = {kind for each in rates.values() for kind in each}
    assert re.findall(r'<bdi class="key">([^<]*)</bdi>', table) == sorted(kinds)
    assert table.count("<tr>") == len(kinds) + 1
    assert table.count(" %") == sum(len(each) for each in rates.values())


def test_a_detector_without_an_opinion_on_a_kind_has_no_share_and_the_most_events_are_shown() -> None:
    rate = {"events": 10, "days": 1.0, "share": 0.5}
    [one] = votes_by_kind({"a": {}, "b": {"root": rate}, "c": {"root": {**rate, "events": 30}}})
    assert (one.kind, one.events, one.shares) == ("root", 30, [None, 0.5, 0.5])
