"""Attackers at the web port who hold a viewer's account or a leaked token: what they cannot reach, and how it ends.

For each power: alerts of the attacks in the alert store stay as they are, what comes next still reaches the queue, and nothing
of the attacker's outlives a reset or a disabled account.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta

import pytest
from argon2 import PasswordHasher
from starlette.testclient import TestClient

from fingerprint.core.account import (
    SCOPES,
    AuthenticationFailed,
    ClientInfo,
    Role,
    Scope,
    SecondFactorResponse,
    TooManyAttempts,
)
from fingerprint.store import secret_hashes
from fingerprint.store.accounts import open_account_store
from fingerprint.web.auth import csrf_token
from fingerprint.web.cookies import cookie_name
from tests.contracts.account_store import GOOD, HERE, OTHER, Moment, with_app
from tests.support.alerts import new_pipeline, stolen_session, votes
from tests.support.dump_tables import dump_tables
from tests.support.web_app import Site, store_in
from tests.web.test_authorisation import GUARDED

ALERTS = [stolen_session(), new_pipeline()]
LATER = replace(stolen_session(), alert_id="00000000000000ff", principal="1:user/next")
PEOPLE = ("accounts", "tokens", "invitations", "second_factors")  # what would outlive the attacker's secret
DETECTION = ("alerts", "alert_events", "cases", "votes", "suppressions", "threshold_overrides")
MOMENT = re.compile(r'"\d{4}-\d\d-\d\d \d\d:\d\d[^"]*"')


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    hasher = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    monkeypatch.setattr(secret_hashes, "_hasher", hasher)


@pytest.fixture
def site(tmp_path):
    site = Site.of(store_in(tmp_path), clock=Moment())
    site.deps.store.alerts.save(ALERTS, [vote for alert in ALERTS for vote in votes(alert)])
    return site


def tries_everything(client: TestClient, csrf: str = "") -> list[tuple[str, str]]:
    """Every route with bodies that would do something, of people and alerts that are there; what was not refused."""
    names = {"alert_id": ALERTS[0].alert_id, "name": "admin", "principal:path": ALERTS[0].principal}
    bodies = {
        "role": "admin",
        "name": "backdoor",
        "label": "x",
        "scopes": ["admin"],
        "why": "x",
        "decision": "benign",
    }
    forms = bodies | {
        "scope": "admin",
        "days": "365",
        "csrf": csrf,
        "password": OTHER,
        "new": OTHER,
        "again": OTHER,
    }
    done = []
    for method, path in GUARDED:
        filled = re.sub(r"\{([^}]*)\}", lambda found: names.get(found[1], "nothing"), path)
        if method == "GET" or path in ("/account/leave-others", "/api/v1/live"):
            continue
        sent = {"json": bodies} if path.startswith("/api/") else {"data": forms}
        answer = client.request(method, filled, headers={"X-CSRF-Token": csrf} if csrf else {}, **sent)
        if answer.status_code not in (401, 403):
            done.append((method, path))
    return done


def kept(site: Site, tables: tuple[str, ...]) -> dict[str, str]:
    """What those tables hold, but for moments: when a token was last used is written down."""
    dump = dump_tables(site.deps.store)
    return {name: MOMENT.sub("null", dump[name]) for name in tables}


def check_that_detection_goes_on(site: Site) -> None:
    """The attacks' alerts are where they were, and what comes next is in the queue."""
    assert {row["alert_id"] for row in queue(site)} == {alert.alert_id for alert in ALERTS}
    site.deps.store.alerts.save([LATER])
    assert LATER.alert_id in {row["alert_id"] for row in queue(site)}


def queue(site: Site) -> list[dict]:
    return site.client("analyst").get("/api/v1/alerts").json()["rows"]


# holds a viewer's account


def test_a_viewers_session_changes_nothing_that_detection_rests_on_and_no_ones_account(site):
    before = kept(site, DETECTION + PEOPLE)
    done = tries_everything(site.browser("viewer"), site.csrf("viewer"))
    after = kept(site, DETECTION + PEOPLE)
    assert {name for name in after if after[name] != before[name]} == set()
    assert not [path for _, path in done if "accounts" in path or "disposition" in path or path == "/changes"]
    check_that_detection_goes_on(site)


def test_a_viewers_stolen_session_becomes_no_token_after_ten_minutes(site):
    """The session itself ends when its owner ends it, or after a day."""
    browser, csrf = site.browser("viewer"), {"X-CSRF-Token": site.csrf("viewer")}
    site.deps.clock.pass_by(minutes=10)
    ends = (site.deps.clock.time + timedelta(days=365)).isoformat()
    answer = browser.post(
        "/api/v1/tokens", json={"label": "x", "scopes": ["read"], "expires_at": ends}, headers=csrf
    )
    assert (answer.status_code, "/confirm" in answer.text) == (403, True)
    browser.delete("/api/v1/sessions", headers=csrf)
    site.people.sessions.end_all("viewer", by="admin")
    assert browser.get("/account").status_code == 303


def test_an_admins_stolen_session_makes_no_account_after_ten_minutes(site):
    browser, csrf = site.browser("admin"), site.csrf("admin")
    site.deps.clock.pass_by(minutes=10)
    before = kept(site, ("accounts", "invitations", "second_factors"))
    for path in ("/api/v1/accounts", "/api/v1/accounts/viewer/role", "/api/v1/accounts/viewer/link"):
        body = {"name": "backdoor", "role": "admin"} if path.endswith("accounts") else {"role": "admin"}
        assert browser.post(path, json=body, headers={"X-CSRF-Token": csrf}).status_code == 403
    assert kept(site, ("accounts", "invitations", "second_factors")) == before


# holds a leaked token


@pytest.mark.parametrize("scope", SCOPES)
def test_a_leaked_token_becomes_nothing_permanent_whatever_its_scope(site, scope: Scope):
    role: Role = SCOPES[scope]
    before = kept(site, PEOPLE)
    tries_everything(site.client(role))
    assert kept(site, PEOPLE) == before
    assert site.people.sessions.of_account(role)[0].proof == "provider"
    check_that_detection_goes_on(site) if scope == "read" else None
    site.people.sessions.end_all(role, by="admin")
    assert site.client(role).get("/api/v1/me").status_code == 401


def test_a_leaked_token_of_scope_read_revokes_no_integration(site):
    client = site.client("admin")
    mine = client.get("/api/v1/tokens").json()[0]["token_id"]
    assert client.delete(f"/api/v1/tokens/{mine}").status_code == 403
    assert client.get("/api/v1/me").status_code == 200


def test_a_thiefs_token_ends_with_the_reset_that_throws_the_thief_out(site):
    """The account was taken over: its password changed, a token made, a browser remembered."""
    people = site.people
    people.logins.accept_invitation(people.accounts.invite("bob", "admin", by="admin"), "", GOOD)
    session = people.logins.log_in("bob", GOOD, HERE)
    thief = people.logins.change_password(session, GOOD, OTHER, HERE, end_tokens=False)
    device = people.logins.remember_browser(thief, "")
    ends = site.deps.clock.time + timedelta(days=300)
    _, secret = people.tokens.create("bob", "x", ["admin"], ends, by="bob")
    again = people.logins.accept_invitation(people.accounts.invite("bob", None, by="admin"), "", GOOD)
    assert people.sessions.authenticate(again).name == "bob"
    assert (people.sessions.authenticate(thief), people.tokens.authenticate(secret)) == (None, None)
    with pytest.raises(AuthenticationFailed):
        people.logins.log_in("bob", OTHER, ClientInfo(HERE.address, device=device))


def test_what_a_leaked_triage_token_does_stands_in_the_audit_in_its_owners_name(site):
    alert = ALERTS[0].alert_id
    row = site.client("analyst").get(f"/api/v1/alerts/{alert}")
    answer = site.client("analyst").post(
        f"/api/v1/alerts/{alert}/disposition",
        json={"decision": "benign", "why": "mine"},
        headers={"If-Match": row.headers["etag"]},
    )
    assert answer.status_code == 200
    assert [line.by for line in site.deps.store.audit.entries(alert)] == ["analyst"]


# guesses


def test_who_guesses_from_everywhere_keeps_no_one_out_who_was_in_before(site):
    people = site.people
    people.logins.accept_invitation(people.accounts.invite("bob", "viewer", by="admin"), "", GOOD)
    device = people.logins.remember_browser(people.logins.log_in("bob", GOOD, HERE), "")
    outcomes = []
    for number in range(120):
        with pytest.raises(AuthenticationFailed) as refused:
            people.logins.log_in("bob", f"guess {number}", ClientInfo(f"203.0.113.{number}"))
        outcomes.append(isinstance(refused.value, TooManyAttempts))
    assert outcomes == [False] * 50 + [True] * 70
    assert (
        people.sessions.authenticate(
            people.logins.log_in("bob", GOOD, ClientInfo(HERE.address, device=device))
        ).name
        == "bob"
    )


def test_who_knows_the_password_still_has_no_session_without_the_second_factor(site):
    people, clock = site.people, site.deps.clock
    people.logins.accept_invitation(people.accounts.invite("bob", "admin", by="admin"), "", GOOD)
    app, _ = with_app(people, "bob", clock)
    browser = TestClient(site.app, base_url="http://localhost", follow_redirects=False)
    there = browser.post("/login", data={"name": "bob", "password": GOOD}).headers["location"]
    assert there == "/login/second"
    login = browser.cookies["login"]
    as_session = site.no_one()
    as_session.cookies.set(cookie_name("session", site.deps.settings), login)
    assert as_session.get("/accounts").status_code == 303
    assert as_session.post("/accounts", data={"csrf": csrf_token(login), "name": "x"}).status_code == 303
    refused = [browser.post("/login/second", data={"code": f"{guess:06}"}).status_code for guess in range(8)]
    assert refused == [401] * 4 + [429] * 4
    assert people.logins.finish(login, SecondFactorResponse(app.at(clock.time)), ClientInfo("198.51.100.77"))


def test_a_second_server_counts_the_same_guesses(site):
    beside = open_account_store(site.deps.store.session, site.deps.clock, site.deps.settings.web)
    for people in (site.people, site.people, beside, beside):
        with pytest.raises(AuthenticationFailed, match="wrong"):
            people.logins.log_in("stranger", "x", HERE)
    with pytest.raises(TooManyAttempts):
        beside.logins.log_in("stranger", "x", HERE)
