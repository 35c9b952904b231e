"""Who may: changes from another site, logging in, links, tokens, people. Who may do what is in test_callers.py."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from datetime import timedelta
from types import SimpleNamespace

import httpx2
import pytest
from argon2 import PasswordHasher
from fastapi import APIRouter
from fastapi.routing import iter_route_contexts
from pyotp import TOTP
from typer.testing import CliRunner

from fingerprint.adapters.system import SystemClock
from fingerprint.core.account import ROLES, Role
from fingerprint.core.errors import FingerprintError
from fingerprint.core.settings import Retention, Web, load_settings
from fingerprint.store import open_store, secret_hashes
from fingerprint.store.accounts import open_account_store
from fingerprint.web import app as web_app
from fingerprint.web import pages
from fingerprint.web.app import create_app
from fingerprint.web.auth import RequireRole, client_address, csrf_token
from fingerprint.web.layout import safe_local_path
from fingerprint.web.middleware import allowed_host_names
from pipelines.commands.retention import apply_retention
from pipelines.serve import run_web_app as serve
from tests.contracts.account_store import GOOD, HERE, OTHER, Moment
from tests.support.dump_tables import dump_tables
from tests.support.services.ports import free_port
from tests.support.web_app import BASE, Site, store_in
from tests.support.web_server import served


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """argon2 at the least cost it knows; test_people.py has the real one."""
    hasher = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    monkeypatch.setattr(secret_hashes, "_hasher", hasher)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return Site.of(open_store(f"sqlite:///{tmp_path_factory.mktemp('access')}/alerts.sqlite"))


@pytest.fixture
def fresh(tmp_path):
    """A site of one's own, to do harm to."""
    return Site.of(store_in(tmp_path))


def routes_of(app):
    """(method, path, the role it needs or None) of everything that answers."""
    for route in iter_route_contexts(app.routes):
        for method in sorted((getattr(route, "methods", None) or {None}) - {"HEAD"}, key=str):
            yield method, route.path, _needed(getattr(route, "dependant", None))


def _needed(dependant) -> Role | None:
    """The highest role that a route or something it depends on needs."""
    if dependant is None:
        return None
    below = [_needed(each) for each in dependant.dependencies]
    own = dependant.call.role if isinstance(dependant.call, RequireRole) else None
    return max((role for role in (own, *below) if role), key=ROLES.index, default=None)


# every route


def test_a_new_route_without_a_role_is_found_out(site, monkeypatch):
    careless = APIRouter()
    careless.add_api_route("/careless", lambda: "everything")
    monkeypatch.setattr(pages, "ROUTERS", (*pages.ROUTERS, careless))
    monkeypatch.setattr(web_app, "_create_routes", web_app._create_routes.__wrapped__)
    assert ("GET", "/careless", None) in list(routes_of(create_app(site.deps)))


@pytest.mark.parametrize(
    ("headers", "sentence"),
    [
        ({}, "too old or not ours"),
        ({"X-CSRF-Token": "0" * 64}, "too old or not ours"),
        ({"X-CSRF-Token": "of someone else"}, "too old or not ours"),
        ({"X-CSRF-Token": "mine", "Origin": "https://evil.example"}, "another site"),
        ({"X-CSRF-Token": "mine", "Origin": "http://localhost.evil.example"}, "another site"),
        ({"X-CSRF-Token": "mine", "Origin": "null"}, "another site"),
        ({"X-CSRF-Token": "mine", "Sec-Fetch-Site": "cross-site"}, "another site"),
        ({"X-CSRF-Token": "mine", "Sec-Fetch-Site": "same-site"}, "another site"),
    ],
)
def test_no_other_site_changes_anything_with_a_persons_session(site, headers, sentence):
    known = {"mine": site.csrf("admin"), "of someone else": site.csrf("engineer")}
    headers = {name: known.get(value, value) for name, value in headers.items()}
    browser = site.browser("admin")
    # a page, the API and a route that is open: test_authorisation.py asks every route without the token of its forms
    for method, path in (("POST", "/changes"), ("PUT", "/api/v1/views/nothing"), ("POST", "/logout")):
        answer = browser.request(method, path, headers=headers)
        assert answer.status_code == 403, (method, path)
        assert sentence in answer.text, (method, path)
    assert browser.get("/account").status_code == 200


def test_a_forms_own_field_is_as_good_as_the_header(site):
    browser = site.browser("viewer")
    assert browser.post("/account/leave-others", data={"csrf": site.csrf("viewer")}).status_code == 303
    assert browser.post("/account/leave-others", data={"csrf": "0" * 64}).status_code == 403
    assert (
        browser.post(
            "/account/leave-others", data={"csrf": "\ufffd\udcff".encode("utf-8", "replace")}
        ).status_code
        == 403
    )


# what every answer has


def test_no_answer_may_be_framed_scripted_or_kept(site):
    browser = site.browser("viewer")
    for path in ("/account", "/login", "/nothing", "/api/v1/me", "/livez"):
        headers = browser.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store", path
        assert "strict-transport-security" not in headers
    assert browser.get("/static/site.css").headers["content-security-policy"] == policy


def test_no_page_has_a_script_or_a_style_of_its_own(site):
    for role, path in (
        ("viewer", "/account"),
        ("admin", "/accounts"),
        ("viewer", "/"),
        ("viewer", "/suppressions"),
    ):
        text = site.browser(role).get(path).text
        assert not re.search(
            r"<script(?![^>]*\bsrc=\"/static/)|<style|\sstyle=|\son[a-z]+=|javascript:", text
        ), path


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "", "localhost:80@evil.example", "evil.example:8080"]
)
def test_a_name_that_is_not_the_stores_is_refused(site, host):
    answer = site.client("admin").get("/api/v1/me", headers={"Host": host})
    assert answer.status_code == 400
    assert "web.allowed_hosts" in answer.text


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1234", "127.0.0.1:8080", "[::1]:8080"])
def test_this_machine_is_always_the_stores_name(site, host):
    assert site.client("viewer").get("/api/v1/me", headers={"Host": host}).status_code == 200


def test_names_that_the_settings_name_are_the_stores():
    web = Web(public_url="https://store.example.com/", host="10.0.0.7", allowed_hosts=("Store.internal",))
    loopback = {"localhost", "127.0.0.1", "[::1]"}
    assert allowed_host_names(web) == {"store.example.com", "10.0.0.7", "store.internal"} | loopback
    assert allowed_host_names(Web(host="0.0.0.0")) == loopback  # noqa: S104
    assert allowed_host_names(Web(host="fe80::7")) == {"[fe80::7]"} | loopback


def test_behind_tls_the_cookie_is_bound_to_this_host_and_browsers_stay_with_tls(tmp_path):
    settings = load_settings(environment={}, options={"web": {"public_url": "https://store.example.com"}})
    site = Site.of(store_in(tmp_path), settings)
    link = site.people.accounts.invite("bob", "viewer", by="admin")
    headers = {"Host": "store.example.com", "Origin": "https://store.example.com"}
    answer = site.no_one().post(f"/setup/{link}", data={"password": GOOD, "again": GOOD}, headers=headers)
    cookies = answer.headers.get_list("set-cookie")
    kept = [cookie for cookie in cookies if "Max-Age=0" not in cookie]
    assert [cookie.partition("=")[0] for cookie in kept] == ["__Host-device", "__Host-session"]
    for cookie in kept:
        assert {"HttpOnly", "Secure", "Path=/", "SameSite=lax"} <= set(cookie.split("; "))
        assert "Domain" not in cookie
    assert answer.headers["strict-transport-security"] == "max-age=31536000"


@pytest.mark.parametrize(
    ("proxies", "forwarded", "address"),
    [
        (0, ["6.6.6.6"], "192.0.2.1"),
        (1, [], "192.0.2.1"),
        (1, ["203.0.113.5"], "203.0.113.5"),
        (1, ["6.6.6.6, 203.0.113.5"], "203.0.113.5"),
        (1, ["6.6.6.6", "203.0.113.5"], "203.0.113.5"),
        (2, ["6.6.6.6, 203.0.113.5, 10.0.0.1"], "203.0.113.5"),
        (2, ["203.0.113.5"], "192.0.2.1"),
    ],
)
def test_an_address_is_believed_only_from_the_proxies_that_are_there(proxies, forwarded, address):
    settings = SimpleNamespace(web=Web(trusted_proxies=proxies))
    headers = SimpleNamespace(getlist=lambda name: forwarded)
    request = SimpleNamespace(headers=headers, client=SimpleNamespace(host="192.0.2.1"))
    assert client_address(request, settings) == address


@pytest.mark.parametrize(
    "path",
    [
        "//evil.example",
        "https://evil.example",
        "/\\evil.example",
        "\\\\evil",
        "",
        "a",
        "/a\r\nb",
        "/\tb",
        "/" * 3,
    ],
)
def test_a_login_goes_on_to_our_own_pages_alone(path):
    assert safe_local_path(path) == "/"


@pytest.mark.parametrize("path", ["/", "/alerts/397edb7b", "/?status=open&text=%C3%A9"])
def test_a_login_goes_on_to_the_page_that_was_asked_for(path):
    assert safe_local_path(path) == path


# logging in


def test_the_first_admin_comes_in_by_a_link_once(tmp_path):
    site = Site.of(store_in(tmp_path))
    for person in site.people.accounts.list_all():
        if person.role != "admin":
            site.people.accounts.disable(person.name, by="admin")
    link = f"/setup/{site.people.accounts.invite('maria', 'admin', by='admin')}"
    browser = site.no_one()
    assert "Set a password" in browser.get(link).text
    assert "differ" in browser.post(link, data={"password": GOOD, "again": OTHER}).text
    assert "at least 12" in browser.post(link, data={"password": "short", "again": "short"}).text
    assert browser.post(link, data={"password": GOOD, "again": GOOD}).headers["location"] == "/"
    assert "maria" in browser.get("/account").text
    assert site.no_one().get(link).status_code == 404
    assert site.no_one().post(link, data={"password": OTHER, "again": OTHER}).status_code == 404


def test_a_page_that_was_asked_for_is_shown_after_the_login(fresh):
    fresh.people.logins.accept_invitation(fresh.people.accounts.invite("bob", "viewer", by="admin"), "", GOOD)
    browser = fresh.no_one()
    there = browser.get("/account?x=1").headers["location"]
    assert there == "/login?next=%2Faccount%3Fx%3D1"
    assert 'value="/account?x=1"' in browser.get(there).text
    answer = browser.post("/login", data={"name": "bob", "password": GOOD, "next": "/account?x=1"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/account?x=1")
    assert browser.get("/login?next=/account").headers["location"] == "/account"


def test_a_form_that_comes_from_elsewhere_logs_no_one_in(fresh):
    """Or a victim would work on in an attacker's account."""
    fresh.people.logins.accept_invitation(fresh.people.accounts.invite("bob", "viewer", by="admin"), "", GOOD)
    form = {"name": "bob", "password": GOOD}
    for headers in (
        {"Origin": "https://evil.example"},
        {"Origin": "http://["},
        {"Sec-Fetch-Site": "cross-site"},
    ):
        answer = fresh.no_one().post("/login", data=form, headers=headers)
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers
    assert fresh.no_one().post("/login", data=form, headers={"Origin": BASE}).status_code == 303


def test_after_some_failures_the_page_says_how_long_to_wait_and_a_known_browser_goes_in(fresh):
    fresh.people.logins.accept_invitation(fresh.people.accounts.invite("bob", "viewer", by="admin"), "", GOOD)
    wrong, right = {"name": "bob", "password": OTHER}, {"name": "bob", "password": GOOD}
    mine, stranger = fresh.no_one(), fresh.no_one()
    assert mine.post("/login", data=right).status_code == 303
    mine.cookies.delete("session")
    for _ in range(4):
        assert stranger.post("/login", data=wrong).status_code == 401
    answer = stranger.post("/login", data=wrong)
    assert answer.status_code == 429
    assert 0 < int(answer.headers["retry-after"]) <= 2
    assert "try again in" in answer.text
    assert mine.post("/login", data=right).status_code == 303  # from the same address


def test_logging_out_ends_the_session_for_every_copy_of_its_cookie(fresh):
    browser, copy = fresh.browser("analyst"), fresh.browser("analyst")
    answer = browser.post("/logout", data={"csrf": fresh.csrf("analyst")})
    assert answer.headers["location"] == "/login"
    assert 'session=""' in answer.headers["set-cookie"]
    assert copy.get("/account").status_code == 303


# account and people


def test_a_token_is_shown_once_and_works_until_it_is_revoked(fresh):
    browser, csrf = fresh.browser("engineer"), {"csrf": fresh.csrf("engineer")}
    page = browser.post(
        "/account/tokens", data=csrf | {"label": "<b>SIEM</b>", "scope": ["read", "triage"], "days": 30}
    )
    secret = re.search(r"fpt_[\w-]{43}", page.text)[0]
    assert "&lt;b&gt;SIEM&lt;/b&gt;" in page.text
    assert secret not in browser.get("/account").text
    api = fresh.no_one()
    api.headers["authorization"] = f"Bearer {secret}"
    assert api.get("/api/v1/me").json() == {
        "name": "engineer",
        "role": "analyst",
        "scopes": ["read", "triage"],
    }
    found = next(each for each in api.get("/api/v1/tokens").json() if each["label"] == "<b>SIEM</b>")
    assert browser.post(f"/account/tokens/{found['token_id']}/revoke", data=csrf).status_code == 303
    assert api.get("/api/v1/me").status_code == 401


def test_a_scope_beyond_the_role_is_refused_with_a_sentence(fresh):
    form = {"csrf": fresh.csrf("analyst"), "label": "x", "scope": ["admin"], "days": 30}
    page = fresh.browser("analyst").post("/account/tokens", data=form)
    assert page.status_code == 400
    assert "cannot have admin" in page.text


def test_a_token_makes_no_tokens_and_no_accounts_on_pages(fresh):
    api, ends = fresh.client("admin"), "2027-01-01T00:00:00Z"
    for method, path in (("POST", "/account/tokens"), ("GET", "/account"), ("POST", "/accounts")):
        assert api.request(method, path).status_code == 403
    body = {"label": "x", "scopes": ["read"], "expires_at": ends}
    assert api.post("/api/v1/tokens", json=body).status_code == 403


def test_a_session_makes_a_token_over_the_api_with_its_csrf_token(fresh):
    ends = (fresh.deps.clock.now() + timedelta(days=7)).isoformat()
    body = {"label": "x", "scopes": ["read"], "expires_at": ends}
    browser, csrf = fresh.browser("viewer"), {"X-CSRF-Token": fresh.csrf("viewer")}
    assert browser.post("/api/v1/tokens", json=body).status_code == 403
    made = browser.post("/api/v1/tokens", json=body, headers=csrf)
    assert made.status_code == 201
    assert fresh.people.tokens.authenticate(made.json()["secret"])[0].name == "viewer"


def test_an_admin_revokes_anybodys_token_and_others_their_own(fresh):
    theirs = fresh.client("viewer").get("/api/v1/tokens").json()[0]["token_id"]
    csrf = lambda role: {"X-CSRF-Token": fresh.csrf(role)}  # noqa: E731
    path = f"/api/v1/tokens/{theirs}"
    assert fresh.browser("analyst").delete(path, headers=csrf("analyst")).status_code == 404
    assert fresh.client("viewer").delete(path).status_code == 403  # nor a token itself
    assert fresh.client("analyst").get("/api/v1/tokens?everybody=true").status_code == 403
    assert len(fresh.client("admin").get("/api/v1/tokens?everybody=true").json()) == 4
    assert fresh.browser("admin").delete(path, headers=csrf("admin")).status_code == 204
    assert fresh.client("viewer").get("/api/v1/me").status_code == 401


@pytest.mark.parametrize(
    "authorization", ["Basic YTpi", "Bearer", "Bearer ", "Bearer fpt_" + "a" * 43, "Bearer \xff", "x" * 5000]
)
def test_what_is_no_token_is_refused_even_beside_a_good_session(site, authorization):
    browser = site.browser("admin")
    answer = browser.get("/api/v1/me", headers={"Authorization": authorization.encode("latin-1")})
    assert answer.status_code == 401
    assert "invalid_token" in answer.headers["www-authenticate"]


def test_someone_is_invited_given_a_role_and_disabled_on_one_page(fresh):
    admin, csrf = fresh.browser("admin"), {"csrf": fresh.csrf("admin")}
    page = admin.post("/accounts", data=csrf | {"name": "Bob", "role": "analyst"})
    link = re.search(rf"{BASE}(/setup/[\w-]+)", page.text)[1]
    assert link not in admin.get("/accounts").text
    bob = fresh.no_one()
    assert bob.post(link, data={"password": GOOD, "again": GOOD}).status_code == 303
    assert bob.get("/accounts").status_code == 403
    admin.post("/accounts/bob/role", data=csrf | {"role": "admin"})
    assert bob.get("/accounts").status_code == 303  # another role is another session
    bob.post("/login", data={"name": "bob", "password": GOOD})
    assert bob.get("/accounts").status_code == 200
    admin.post("/accounts/bob/disable", data=csrf)
    assert bob.get("/accounts").status_code == 303
    assert bob.post("/login", data={"name": "bob", "password": GOOD}).status_code == 401


def test_the_last_admin_is_told_why_nothing_happened(fresh):
    admin, csrf = fresh.browser("admin"), {"csrf": fresh.csrf("admin")}
    for path, more in (("disable", {}), ("role", {"role": "viewer"})):
        page = admin.post(f"/accounts/admin/{path}", data=csrf | more)
        assert page.status_code == 409
        assert "last admin" in page.text
    headers = {"X-CSRF-Token": fresh.csrf("admin")}
    assert admin.post("/api/v1/accounts/admin/disable", headers=headers).status_code == 400


def test_the_api_gives_an_admin_the_same_over_people(fresh):
    api = fresh.browser("admin")
    api.headers["X-CSRF-Token"] = fresh.csrf("admin")
    made = api.post("/api/v1/accounts", json={"name": "Bob", "role": "viewer"})
    assert made.status_code == 201
    secret = made.json()["link"].rpartition("/")[2]
    fresh.people.logins.accept_invitation(secret, "", GOOD)
    assert api.post("/api/v1/accounts/bob/role", json={"role": "engineer"}).json()["role"] == "engineer"
    assert api.post("/api/v1/accounts/bob/disable").json()["disabled_at"]
    assert api.post("/api/v1/accounts/bob/enable").json()["disabled_at"] is None
    assert api.post("/api/v1/accounts/bob/link").status_code == 201
    assert [each["owner"] for each in api.get("/api/v1/accounts/viewer/sessions").json()] == ["viewer"]
    assert api.post("/api/v1/accounts/viewer/end").status_code == 200
    assert fresh.browser("viewer").get("/account").status_code == 303
    assert fresh.client("viewer").get("/api/v1/me").status_code == 401
    assert api.post("/api/v1/accounts/bob/reset-second-factor").json()["name"] == "bob"
    assert [each["name"] for each in api.get("/api/v1/accounts").json()] == [
        "admin",
        "analyst",
        "bob",
        "engineer",
        "viewer",
    ]
    assert api.post("/api/v1/accounts/stranger/disable").status_code == 404


def test_a_new_password_needs_the_old_one(fresh):
    session = fresh.people.logins.accept_invitation(
        fresh.people.accounts.invite("bob", "viewer", by="admin"), "", GOOD
    )
    fresh.sessions["viewer"] = session
    browser, csrf = fresh.browser("viewer"), {"csrf": fresh.csrf("viewer")}
    change = lambda **form: browser.post("/account/password", data=csrf | form)  # noqa: E731
    assert "old password is wrong" in change(old=OTHER, new=OTHER, again=OTHER).text
    assert "differ" in change(old=GOOD, new=OTHER, again=GOOD).text
    assert "at least 12" in change(old=GOOD, new="short", again="short").text
    before = fresh.browser("viewer")
    assert change(old=GOOD, new=OTHER, again=OTHER).status_code == 303
    assert browser.get("/account").status_code == 200
    assert before.get("/account").status_code == 303
    assert fresh.people.logins.log_in("bob", OTHER, HERE)


def with_password(fresh, role: str = "viewer"):
    """bob, logged in with a password; a browser, and his CSRF field."""
    fresh.people.logins.accept_invitation(fresh.people.accounts.invite("bob", role, by="admin"), "", GOOD)
    browser = fresh.no_one()
    assert browser.post("/login", data={"name": "bob", "password": GOOD}).status_code == 303
    return browser, {"csrf": csrf_token(browser.cookies["session"])}


def test_a_second_factor_is_set_up_asked_for_and_removed_on_pages(tmp_path):
    clock = Moment()
    site = Site.of(store_in(tmp_path), clock=clock)
    browser, csrf = with_password(site)
    page = browser.get("/account/second").text
    secret = re.search(r'name="app_secret" value="([A-Z2-7]{32})"', page)[1]
    assert "<svg" in page
    assert "style=" not in page
    form = csrf | {"app_secret": secret, "label": "<b>telephone</b>"}
    assert "not the app" in browser.post("/account/second/app", data=form | {"code": "000000"}).text
    made = browser.post("/account/second/app", data=form | {"code": TOTP(secret).at(clock.time)}).text
    codes = re.findall(r"(?:[A-Z2-7]{4}-){3}[A-Z2-7]{4}", made)
    assert len(codes) == 10
    page = browser.get("/account/second").text
    assert "&lt;b&gt;telephone&lt;/b&gt;" in page
    assert not set(codes) & set(page.split())
    browser.post("/logout", data=csrf)

    clock.sleep(60)
    there = browser.post("/login", data={"name": "bob", "password": GOOD, "next": "/banks"})
    assert there.headers["location"] == "/login/second?next=%2Fbanks"
    assert browser.get("/account").status_code == 303
    assert "recovery code" in browser.get("/login/second?next=/banks").text
    assert browser.post("/login/second", data={"code": "000000"}).status_code == 401
    answer = browser.post("/login/second", data={"code": TOTP(secret).at(clock.time), "next": "/banks"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/banks")
    assert browser.get("/login/second").headers["location"] == "/login"  # that login is over

    csrf = {"csrf": csrf_token(browser.cookies["session"])}
    clock.pass_by(minutes=11)
    referer = {"Referer": f"{BASE}/account/second"}
    path = f"/account/second/{site.people.second_factors.of_account('bob')[0].factor_id}/remove"
    there = browser.post(path, data=csrf, headers=referer).headers["location"]
    assert there == "/confirm?next=%2Faccount%2Fsecond"
    form = csrf | {"next": "/account/second"}
    assert browser.post("/confirm", data=form | {"password": GOOD}).status_code == 403
    answer = browser.post("/confirm", data=form | {"code": codes[0]})
    assert answer.headers["location"] == "/account/second"
    assert browser.post("/account/second/recovery-codes", data=csrf).status_code == 200
    assert browser.post(path, data=csrf).status_code == 303
    assert site.people.second_factors.of_account("bob") == []


def test_where_a_second_factor_is_required_the_first_login_sets_one_up(tmp_path):
    clock, settings = Moment(), load_settings(environment={}, options={"web": {"second_factor": "required"}})
    site = Site.of(store_in(tmp_path), settings, clock=clock)
    link = f"/setup/{site.people.accounts.invite('bob', 'viewer', by='admin')}"
    browser = site.no_one()
    assert browser.post(link, data={"password": GOOD, "again": GOOD}).headers["location"] == "/login/second"
    assert browser.get("/").status_code == 303
    page = browser.get("/login/second").text
    secret = re.search(r'name="app_secret" value="([A-Z2-7]{32})"', page)[1]
    wrong = browser.post("/login/second/app", data={"app_secret": secret, "code": "000000"})
    assert (wrong.status_code, secret in wrong.text) == (400, True)
    clock.sleep(2)
    form = {"app_secret": secret, "code": TOTP(secret).at(clock.time)}
    answer = browser.post("/login/second/app", data=form)
    assert "Recovery codes" in answer.text
    assert browser.get("/account").status_code == 200


def test_sessions_are_shown_on_the_account_page_and_ended_there(fresh):
    browser, csrf = with_password(fresh)
    other = fresh.no_one()
    other.headers["User-Agent"] = "<i>Lynx</i>"
    other.post("/login", data={"name": "bob", "password": GOOD})
    page = browser.get("/account").text
    assert "&lt;i&gt;Lynx&lt;/i&gt;" in page
    assert page.count("this one") == 1
    found = browser.get("/api/v1/sessions").json()
    theirs = next(each for each in found if each["agent"] == "<i>Lynx</i>")
    assert [each["current"] for each in found].count(True) == 1
    assert browser.post(f"/account/sessions/{theirs['session_id']}/end", data=csrf).status_code == 303
    assert other.get("/account").status_code == 303
    assert browser.get("/account").status_code == 200


# a real server


@pytest.fixture(scope="module")
def address(site):
    with served(site.app) as url:
        yield url


def test_a_body_that_is_too_large_is_refused_with_its_length_and_without(address):
    endless = (b"name=" + b"a" * 65536 for _ in range(64))
    for content, headers in (
        (b"a" * (2 << 20), {}),
        (endless, {"Content-Type": "application/x-www-form-urlencoded"}),
    ):
        answer = httpx2.post(f"{address}/login", content=content, headers=headers)
        assert answer.status_code == 413
        assert "1,048,576 bytes" in answer.text


@pytest.mark.parametrize(
    "request_line",
    [b"GET /login HTTP/1.1\r\n\r\n", b"GET /login HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n"],
)
def test_a_request_without_a_host_or_with_two_is_refused(address, request_line):
    with socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), timeout=5) as connection:
        connection.sendall(request_line)
        assert connection.recv(100).split()[1] == b"400"


def test_a_page_that_listens_with_no_one_before_it_keeps_no_session_alive(tmp_path):
    clock = Moment()
    site = Site.of(store_in(tmp_path), clock=clock)
    browser = site.browser("viewer")
    for _ in range(4):
        clock.pass_by(hours=2)
        answer = browser.get("/api/v1/live?seconds=0")
    assert answer.status_code == 401


def test_a_probe_needs_no_login_and_metrics_do(site, address):
    assert httpx2.get(f"{address}/livez").text == "ok\n"
    assert httpx2.get(f"{address}/readyz").text == "ok\n"
    assert httpx2.get(f"{address}/metrics").status_code == 401
    assert httpx2.get(f"{address}/livez", headers={"Host": "10.1.2.3:8080"}).text == "ok\n"
    token = {"Authorization": f"Bearer {site.tokens['viewer']}"}
    assert "process_cpu_seconds_total" in httpx2.get(f"{address}/metrics", headers=token).text


def test_what_breaks_here_says_nothing_and_the_log_no_secret(site, monkeypatch, caplog):
    def breaks(secret):
        raise RuntimeError("of the inside")

    monkeypatch.setattr(type(site.people.accounts), "invitation", lambda self, secret: breaks(secret))
    answer = site.no_one().get("/setup/the-secret-of-a-link")
    assert answer.status_code == 500
    assert "logged on this server" in answer.text
    assert "inside" not in answer.text
    said = [record.fields for record in caplog.records if record.getMessage() == "request failed"]
    assert said == [{"route": "/setup/{secret}", "request_id": answer.headers["x-request-id"]}]


def test_what_breaks_here_is_in_the_log_once_and_the_answer_has_the_headers_of_a_page(
    site, address, monkeypatch, caplog
):
    def breaks(self, secret):
        raise RuntimeError("of the inside")

    monkeypatch.setattr(type(site.people.accounts), "invitation", breaks)
    answer = httpx2.get(f"{address}/setup/a-link")
    assert answer.status_code == 500
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert [record.name for record in caplog.records if record.exc_info] == ["fingerprint.web"]


# the programs


def test_the_first_start_prints_a_link_for_the_first_admin_and_serves_metrics_on_a_port_of_their_own(
    tmp_path,
):
    store, port = f"sqlite:///{tmp_path}/alerts.sqlite", free_port()
    command = (sys.executable, "-m", "pipelines.cli", "serve", "--port", "0", "--database", store)
    watched = {"FINGERPRINT_WEB__SERVE_HEALTH": "true", "FINGERPRINT_HEALTH__PORT": str(port)}
    with subprocess.Popen(  # noqa: S603
        command, stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=os.environ | watched
    ) as serving:
        try:
            greeting = [serving.stdout.readline() for _ in range(2)]
            url = re.fullmatch(r"The alert queue is at (http://127\.0\.0\.1:\d+)\n", greeting[0])[1]
            link = re.search(r"Open this once, within 24 hours: (\S+)", greeting[1])[1]
            with httpx2.Client(base_url=url, timeout=120) as browser:
                form = {"name": "maria", "password": GOOD, "again": GOOD}
                answer = browser.post(link, data=form)
                assert answer.headers["location"] == "/"
                assert "server" not in answer.headers
                assert "maria" in browser.get("/account").text
            # retries of connections refused, after 0, 0.5, 1, 2 ... seconds
            when_up = httpx2.HTTPTransport(retries=8)
            with httpx2.Client(base_url=f"http://127.0.0.1:{port}", transport=when_up) as prometheus:
                told = prometheus.get("/metrics").text  # without a token
        finally:
            serving.send_signal(signal.SIGTERM)
        assert serving.stdout.read() == ""
    assert serving.returncode == 0
    assert 'fingerprint_ready{check="database"} 1.0' in told
    assert "process_resident_memory_bytes" in told
    assert (
        open_account_store(open_store(store).session, SystemClock(), Web()).accounts.create_first_invitation()
        is None
    )  # a second start prints none


def test_a_port_that_is_taken_is_one_sentence(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        settings = load_settings(environment={}, options={"web": {"port": port}})
        with pytest.raises(
            FingerprintError, match=f"cannot listen on 127.0.0.1:{port}.*set --host and --port"
        ):
            serve(settings, f"sqlite:///{tmp_path}/alerts.sqlite", tmp_path)


def test_without_the_extra_one_sentence_says_what_to_install(monkeypatch, capsys):
    from pipelines import cli

    monkeypatch.delitem(sys.modules, "pipelines.serve")
    for name in ("accounts", "account_rows", "secret_hashes"):
        monkeypatch.delitem(sys.modules, f"fingerprint.store.{name}")
        monkeypatch.delattr(f"fingerprint.store.{name}")
    monkeypatch.setitem(sys.modules, "argon2", None)
    monkeypatch.setattr(sys, "argv", ["fingerprint", "serve"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert (
        capsys.readouterr().err
        == "fingerprint: argon2 is not installed: `pip install '.[web]'` in a checkout of cloudtrail-fingerprint has it\n"
    )


def test_sessions_and_links_that_are_over_go_with_what_else_is_old(tmp_path):
    clock = Moment()
    site = Site.of(store_in(tmp_path), clock=clock)
    site.people.accounts.invite("bob", "viewer", by="admin")
    clock.pass_by(days=2)
    assert apply_retention(site.deps.store, Retention(), [site.people.delete_expired])
    kept = dump_tables(site.deps.store)
    assert (kept["sessions"], kept["invitations"]) == ("", "")


def test_an_admin_who_is_locked_out_gets_a_link_from_the_command_line(tmp_path, monkeypatch):
    from pipelines.cli.app import app

    url = f"sqlite:///{tmp_path}/alerts.sqlite"
    site, run = Site.of(open_store(url)), CliRunner()
    monkeypatch.setattr(os, "environ", {**os.environ, "COLUMNS": "200"})
    said = lambda *arguments: run.invoke(app, ["accounts", *arguments, "--database", url])  # noqa: E731
    link = re.search(r"/setup/([\w-]+)", said("add", "maria", "--role", "admin").output)[1]
    site.people.logins.accept_invitation(link, "", GOOD)
    again = re.search(r"/setup/([\w-]+)", said("invite", "maria").output)[1]
    site.people.logins.accept_invitation(again, "", OTHER)
    assert "maria" in said("reset-second-factor", "maria").output
    session = site.people.logins.log_in("maria", OTHER, HERE)
    assert "maria" in said("end-sessions", "maria").output
    assert site.people.sessions.authenticate(session) is None
    assert "engineer" in said("role", "maria", "engineer").output
    assert "disabled" in said("disable", "maria").output
    assert "local" in said("enable", "maria").output
    assert re.search(r"maria +engineer +local", said("list").output)
    assert isinstance(said("disable", "stranger").exception, FingerprintError)
    by = [line.by for line in site.deps.store.audit.entries("maria")]
    assert all(name == "maria" or name.startswith("console:") for name in by)
    assert "console:" in by[0]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"public_url": "store.example.com"}, "public_url"),
        ({"public_url": "https://store.example.com/path"}, "without a path"),
        ({"second_factor": "always"}, "second_factor"),
        ({"single_sign_on_only": True}, "needs a provider"),
        (
            {
                "single_sign_on_only": True,
                "oidc": {"issuer": "https://id.example.com", "client_id": "x", "default_role": "viewer"},
            },
            "leaves no admin",
        ),
        ({"session_max_hours": 0}, "session_max_hours"),
    ],
)
def test_settings_of_the_pages_that_make_no_sense_are_refused(options, sentence):
    with pytest.raises(FingerprintError, match=sentence):
        load_settings(environment={}, options={"web": options})
