"""What the tables know of an address stands beside it on the pages, as text; without tables nothing does."""

from __future__ import annotations

from pathlib import Path

import pytest

from fingerprint.core.address import AddressPlace
from fingerprint.web.address_places import place_of, using_address_tables
from fingerprint.web.static_report import render_alert
from tests.support.alerts import KNOWN_ADDRESSES, NASTY, stolen_session
from tests.support.web_app import Site, store_in

KNOWN = "NL · AS64500 Example Hosting · VPN exits of Example"


def site_of(folder: Path, **fields: object) -> Site:
    store = store_in(folder)
    store.alerts.save([stolen_session()])
    return Site.of(store, **fields)


def test_an_alert_says_whose_its_addresses_are(tmp_path):
    site = site_of(tmp_path, addresses=KNOWN_ADDRESSES)
    page = site.browser("viewer").get(f"/alerts/{stolen_session().alert_id}").text
    assert page.count(KNOWN) > 1
    exported = site.client("viewer").get("/api/v1/alerts/export?format=csv").text
    assert "AS64500 Example Hosting" in exported


def test_without_tables_the_page_says_nothing_of_them(tmp_path):
    page = site_of(tmp_path).browser("viewer").get(f"/alerts/{stolen_session().alert_id}").text
    assert 'class="note place"' not in page


@pytest.mark.parametrize("text", NASTY)
def test_a_table_cannot_write_markup(text):
    class Hostile:
        def place(self, address: str) -> AddressPlace:
            return AddressPlace(owner=text, ranges=(text,))

    with using_address_tables(Hostile()):
        page = render_alert(stolen_session())
    assert "<script>" not in page.replace("<script type=", "")
    assert place_of("198.51.100.7").text == "", "the tables are those of one page alone"
