"""Country, network owner and known range as fields of the filter language, as tables knew them when the alert was saved."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fingerprint.core.case import AlertFilter
from fingerprint.store import SqlStore, open_store
from tests.support.alerts import KNOWN_ADDRESSES, new_pipeline, stolen_session
from tests.support.dump_tables import dump_tables


class OfTheThief:
    """Tables that know the address of the stolen session alone."""

    def place(self, address):
        return KNOWN_ADDRESSES.place(address if address.startswith("185.") else "")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> SqlStore:
    made = open_store(f"sqlite:///{tmp_path_factory.mktemp('store')}/alerts.sqlite", addresses=OfTheThief())
    made.alerts.save([stolen_session(), new_pipeline()])
    return made


@pytest.mark.parametrize(
    "query",
    [
        "country:NL",
        "country:(de, nl)",
        "network_owner:AS64500*",
        "network_owner:*hosting*",
        'network_owner:"AS64500 Example Hosting"',
        'known_range:"VPN exits*"',
        "hosting",
        "-country:DE country:N*",
    ],
)
def test_an_alert_is_found_by_what_its_addresses_are(store, query):
    found = store.queue.page(AlertFilter(q=query)).rows
    assert [row.alert_id for row in found] == [stolen_session().alert_id]


def test_an_alert_can_be_excluded_by_it_and_without_tables_nothing_is_kept(store, tmp_path: Path):
    (other,) = store.queue.page(AlertFilter(q="-country:NL")).rows
    assert other.alert_id == new_pipeline().alert_id
    plain = open_store(f"sqlite:///{tmp_path}/alerts.sqlite")
    plain.alerts.save([stolen_session()])
    kinds = dump_tables(plain)["alert_values"]
    assert not [kind for kind in ("country", "network_owner", "known_range") if kind in kinds]


@pytest.mark.parametrize(
    "query",
    ["network:185.220.0.0/16", "network:185.220.*", "network:*hosting*", "network:(AS64500*, 192.0.2.0/24)"],
)
def test_a_network_is_a_range_or_its_owner(store, query):
    (row,) = store.queue.page(AlertFilter(q=query)).rows
    assert row.alert_id == stolen_session().alert_id
    (other,) = store.queue.page(AlertFilter(q=f"-{query}")).rows
    assert other.alert_id == new_pipeline().alert_id


@pytest.mark.parametrize(
    "query", ["agent:Ärzte-Tool/1", "agent:Ärzte*", "agent:*Ärzte-Tool/1", "resource:*ÖBB*"]
)
def test_letters_that_are_not_ascii_are_found_as_they_are_written(query: str) -> None:
    """SQLite makes ASCII's letters small alone, and Python all."""
    alert = stolen_session()
    own = {"user_agent": "Ärzte-Tool/1", "resource": "Straße:ÖBB-Überblick"}
    store = open_store("sqlite://")
    store.alerts.save([replace(alert, events=tuple(replace(each, **own) for each in alert.events))])
    assert store.queue.page(AlertFilter(q=query)).total == 1
