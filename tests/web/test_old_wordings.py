"""Wordings that the review of the pages asked to change do not come back."""

from __future__ import annotations

from html import unescape

import pytest

from fingerprint.core.case import AlertRevision, SetDisposition
from tests.support.alerts import new_pipeline, stolen_session, votes
from tests.support.web_app import Site, store_in
from tests.web.test_german import PAGES

OLD = (
    "What events are held to", "Hold events to", "What would another show?", "each line ten times the one below",
    "a z, which says how rarely", "votes on intervals leave it open", "Known attacks voted on",
    "yet: the settings say", "never seen among peers never seen", "in one moment", "Give back",
    "Who else shows it", "Usual beside unusual", "Activity beside what was expected",
    "How strange its days were", "The same principal, a day around", "its history in this one is thin", "Ask for all",
    "Single keys act on this machine", "all of whose events are as it says", "What is empty asks nothing",
    "less likely",
)  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Two alerts, of which one is decided."""
    store = store_in(tmp_path_factory.mktemp("wording"))
    stolen, pipeline = stolen_session(), new_pipeline()
    store.alerts.save([stolen, pipeline], [*votes(stolen), *votes(pipeline)])
    store.cases.change([AlertRevision(pipeline.alert_id, 0)], SetDisposition("benign", "a release"), "maria")
    return Site.of(store)


@pytest.mark.parametrize("path", PAGES)
def test_no_page_says_an_old_wording(site: Site, path: str) -> None:
    answer = site.browser("admin").get(path)
    assert answer.status_code == 200
    assert [each for each in OLD if each in " ".join(unescape(answer.text).split())] == []
