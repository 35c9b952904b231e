"""Who and where: the credential, MFA, the console and the peer group; and links into the AWS console."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fingerprint.core.alert import Alert
from fingerprint.web.static_report import render_alert
from tests.support.alerts import NASTY, stolen_session
from tests.support.grave_attack import GRACE, KEY, grave_attack
from tests.support.web_app import Site, store_in
from tests.support.web_server import all_nasty
from tests.web.test_static_report import Page

ID = "3038ebd2-c98a-4c65-9b6e-e22506292313"


def with_identity(alert: Alert, **identity: object) -> Alert:
    record = json.dumps({"userIdentity": identity})
    events = (
        replace(alert.events[0], event_id=ID, raw=record),
        *(replace(e, raw=record) for e in alert.events[1:]),
    )
    return replace(alert, events=events)


def shown(tmp_path: Path, alert: Alert) -> str:
    store = store_in(tmp_path)
    store.alerts.save([alert])
    page = Site.of(store).browser("viewer").get(f"/alerts/{alert.alert_id}").text
    store.close()
    return page


def without_spaces(text: str) -> str:
    """Terms and what is said of them stand side by side, with nothing between them."""
    return "".join(text.split())


def who(page: str) -> str:
    text = without_spaces(Page.lenient(page[page.index('id="who"') :]).text)
    return text[: text.index("Sessions")]


def test_the_first_and_the_last_records_are_asked(tmp_path: Path) -> None:
    """253 events, the first of them with MFA and the last ones without: both ends are read, the middle is not."""
    alert = with_identity(grave_attack(), type="IAMUser", accessKeyId=KEY)
    session = {"attributes": {"mfaAuthenticated": "true"}}
    first = json.dumps(
        {"userIdentity": {"type": "IAMUser", "accessKeyId": "ASIAX", "sessionContext": session}}
    )
    alert = replace(alert, events=(replace(alert.events[0], raw=first), *alert.events[1:]))
    text = who(shown(tmp_path, alert))
    assert (
        without_spaces("Credential long-term access key \u00d7 199 temporary key of a user \u00d7 1") in text
    )
    assert without_spaces("MFA used, says 1 record") in text


@pytest.mark.parametrize(
    ("identity", "said"),
    [
        (
            {"type": "IAMUser", "accessKeyId": KEY},
            "long-term access key MFA not in the records From the console not in the records",
        ),
        (
            {"type": "Root", "sessionContext": {"attributes": {"mfaAuthenticated": "false"}}},
            "root user MFA not used, say 9 records From",
        ),
        (
            {"type": "AssumedRole", "sessionContext": {"attributes": {"mfaAuthenticated": "false"}}},
            "not used, say 9 records This is AWS's own MFA: a second factor at an identity provider is not recorded.",
        ),
        ({}, "Credential not in the records MFA not in the records"),
    ],
)
def test_what_the_records_say_is_said_and_nothing_else(
    tmp_path: Path, identity: dict[str, object], said: str
) -> None:
    alert = with_identity(stolen_session(), **identity)
    assert without_spaces(said) in who(shown(tmp_path, alert))
    assert without_spaces(said) in without_spaces(Page(render_alert(alert)).text)


def test_principal_key_and_event_have_links_into_the_console(tmp_path: Path) -> None:
    alert = with_identity(grave_attack(), type="IAMUser", accessKeyId=KEY)
    page = shown(tmp_path, alert)
    links = re.findall(
        r'<a href="(https://[^"]*console[^"]*)" rel="noreferrer noopener" target="_blank">', page
    )
    assert [url.partition("#")[2] for url in links[:3]] == [
        "/users/details/grace.moreau1%40example.com",
        "/events?Username=grace.moreau1%40example.com",
        f"/events?AccessKeyId={KEY}",
    ]
    assert any(url.endswith(f"EventId={ID}") for url in links)
    assert "console.aws.amazon.com" not in render_alert(alert)  # a report of a file has no links out


def test_the_page_of_the_principal_has_them_too(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    store.alerts.save([grave_attack()])
    page = Site.of(store).browser("viewer").get(f"/entities/{GRACE}").text
    assert f'/events?AccessKeyId={KEY}" rel="noreferrer noopener"' in page
    store.close()


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Every nasty text in an alert of its own."""
    store = store_in(tmp_path_factory.mktemp("hostile"))
    store.alerts.save(all_nasty())
    yield Site.of(store)
    store.close()


@pytest.mark.parametrize("alert", all_nasty(), ids=range(len(NASTY)))
def test_what_an_attacker_wrote_makes_no_link(hostile: Site, alert: Alert) -> None:
    page = hostile.browser("viewer").get(f"/alerts/{alert.alert_id}")
    assert page.status_code == 200
    assert "console.aws" not in page.text


def test_without_a_bank_the_peer_group_is_not_known(tmp_path: Path) -> None:
    page = shown(tmp_path, stolen_session())
    assert re.search(r"<dt>Peer group</dt><dd><span class=\"none\">not known here</span>", page)
