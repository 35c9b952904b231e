"""The way in for a newcomer: the hint of a store without accounts, the form of an invitation, and its sentences."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fingerprint.core.account import NAME_RULE
from fingerprint.web.formatting import sentence
from tests.support.alerts import NASTY
from tests.support.web_app import Site, store_in

HINT = "Open the link that <code>fingerprint serve</code> printed"
PASSWORD = "four plain english words"  # noqa: S105


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site.of(store_in(tmp_path))


@pytest.fixture
def new(tmp_path: Path) -> Site:
    """A site whose only admin is gone: as new."""
    folder = tmp_path / "new"
    folder.mkdir()
    made = Site.of(store_in(folder))
    with made.people.accounts._session.engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM accounts")
    return made


def text_of(page: str) -> str:
    return re.sub(r"<[^>]+>", "", page.partition("<main")[2])


def test_the_login_page_of_a_store_without_accounts_says_how_to_get_in(new, site):
    page = new.no_one().get("/login")
    assert HINT in page.text
    assert HINT in new.no_one().post("/login", data={"name": "ola", "password": PASSWORD}).text
    assert HINT not in site.no_one().get("/login").text


def test_a_link_of_the_first_account_that_is_void_says_where_another_one_is(new, site):
    assert "start `fingerprint serve` again" in text_of(new.no_one().get("/setup/nothing").text)
    void = text_of(site.no_one().get("/setup/nothing").text)
    assert "This link was used, or is older than a day: ask for another" in void


@pytest.mark.parametrize(
    ("name", "password", "again", "said"),
    [
        ("Ola Nordmann", PASSWORD, PASSWORD, "A name has 1 to 64 of the letters a to z"),
        ("ola", PASSWORD, PASSWORD + "!", "The two passwords differ: type both again"),
        ("ola", "short", "short", "A password has"),
        (NASTY[0], "short", "short", "A "),
    ],
)
def test_the_form_of_the_first_account_keeps_the_name_and_no_password(new, name, password, again, said):
    link = f"/setup/{new.people.accounts.create_first_invitation()}"
    form = new.no_one().get(link).text
    assert NAME_RULE in form
    answer = new.no_one().post(link, data={"name": name, "password": password, "again": again})
    assert answer.status_code == 400
    assert said in text_of(answer.text)
    if name.isprintable() and "<" not in name:
        assert f'name="name" value="{name}"' in answer.text
    assert password not in answer.text.replace(name, "")


def test_an_invitation_that_is_refused_keeps_what_was_typed(site):
    admin = site.browser("admin")
    data = {"name": "Ola Nordmann", "role": "engineer", "csrf": site.csrf("admin")}
    answer = admin.post("/accounts", data=data)
    assert answer.status_code == 409
    assert 'value="Ola Nordmann"' in answer.text
    assert "<option selected>engineer</option>" in answer.text.partition('id="invite"')[2]
    assert NAME_RULE in answer.text


def test_a_sentence_begins_with_a_capital_letter_unless_a_name_begins_it():
    assert sentence("the old password is wrong") == "The old password is wrong"
    assert sentence("web.public_url: give a URL") == "web.public_url: give a URL"
    assert sentence("status: choose one of open, closed") == "status: choose one of open, closed"
    assert sentence("'x' has no account") == "'x' has no account"
    assert sentence("") == ""
