"""Who may do what: every route is asked by every kind of caller that may fare unlike another there, against one table.

A route that is missing there fails.

A line of the table: the role it takes, how (`any` caller of that role, `person`: no token, `proven`: a person who proved within
ten minutes who they are), method and path.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta

import pytest
from argon2 import PasswordHasher
from starlette.testclient import TestClient

from fingerprint.core.account import ROLES, SCOPES, ExternalIdentity, Role, role_includes
from fingerprint.store import secret_hashes
from fingerprint.web.auth import csrf_token
from fingerprint.web.cookies import cookie_name
from tests.contracts.account_store import Moment
from tests.support.web_app import Site, store_in
from tests.web.test_auth import routes_of

TABLE = """
open     any     GET     /livez
open     any     GET     /readyz
viewer   any     GET     /metrics
open     any     None    /static
open     any     GET     /static/style.css

open     any     GET     /login
open     any     POST    /login
open     any     POST    /logout
open     any     GET     /login/provider
open     any     GET     /login/provider/back
open     any     GET     /login/second
open     any     POST    /login/second
open     any     POST    /login/second/app
open     any     GET     /setup/{secret}
open     any     POST    /setup/{secret}
viewer   person  GET     /confirm
viewer   person  POST    /confirm

viewer   any     GET     /
viewer   any     POST    /display
viewer   any     POST    /language
viewer   any     GET     /help
analyst  any     POST    /views
analyst  any     POST    /views/forget
analyst  any     POST    /changes
viewer   any     GET     /overview
viewer   any     GET     /incidents
viewer   any     GET     /incidents/{incident_id}
viewer   any     GET     /leads
analyst  any     POST    /incidents/{incident_id}/changes
analyst  any     POST    /incidents/{incident_id}/split
analyst  any     POST    /incidents/{incident_id}/join
analyst  any     POST    /incidents/edits/{edit_id}/undo
viewer   any     GET     /alerts/{alert_id}
viewer   any     GET     /alerts/{alert_id}/preview
viewer   any     GET     /alerts/{alert_id}/record
viewer   any     GET     /alerts/{alert_id}/entity
viewer   any     GET     /entities/{principal:path}
viewer   any     GET     /graph
viewer   any     GET     /suppressions
engineer any     GET     /suppressions/new
engineer any     POST    /suppressions/preview
engineer any     POST    /suppressions
engineer any     POST    /suppressions/{suppression_id}/end
viewer   any     GET     /thresholds
engineer any     POST    /thresholds
viewer   any     GET     /banks
engineer any     GET     /audit
engineer any     GET     /audit/export

viewer   person  GET     /account
viewer   person  POST    /account/password
viewer   person  POST    /account/sessions/{session_id}/end
viewer   person  POST    /account/leave-others
viewer   proven  POST    /account/tokens
viewer   person  POST    /account/tokens/{token_id}/revoke
viewer   proven  GET     /account/second
viewer   proven  POST    /account/second/app
viewer   proven  POST    /account/second/passkey
viewer   proven  POST    /account/second/recovery-codes
viewer   proven  POST    /account/second/{factor_id}/remove

admin    person  GET     /accounts
admin    proven  POST    /accounts
admin    proven  POST    /accounts/{name}/link
admin    proven  POST    /accounts/{name}/role
admin    person  POST    /accounts/{name}/disable
admin    proven  POST    /accounts/{name}/enable
admin    person  POST    /accounts/{name}/end
admin    proven  POST    /accounts/{name}/reset-second-factor
admin    person  POST    /accounts/tokens/{token_id}/revoke

viewer   any     GET     /api/v1/me
viewer   any     GET     /api/v1/openapi.json
viewer   any     GET     /api/v1/live
viewer   any     GET     /api/v1/health
viewer   any     GET     /api/v1/banks
viewer   any     GET     /api/v1/banks/served
viewer   any     GET     /api/v1/alerts
viewer   any     GET     /api/v1/alerts/export
viewer   any     GET     /api/v1/alerts/counts
viewer   any     GET     /api/v1/alerts/groups
viewer   any     GET     /api/v1/alerts/{alert_id}
viewer   any     GET     /api/v1/alerts/{alert_id}/events
viewer   any     GET     /api/v1/alerts/{alert_id}/events/{event_id:path}
viewer   any     GET     /api/v1/alerts/{alert_id}/history
analyst  any     POST    /api/v1/alerts/bulk
analyst  any     POST    /api/v1/alerts/{alert_id}/disposition
analyst  any     POST    /api/v1/alerts/{alert_id}/assignee
analyst  any     POST    /api/v1/alerts/{alert_id}/reopen
analyst  any     POST    /api/v1/alerts/{alert_id}/undo
analyst  any     POST    /api/v1/alerts/{alert_id}/notes
viewer   any     GET     /api/v1/suggestions
analyst  any     POST    /api/v1/alerts/{alert_id}/status
viewer   any     GET     /api/v1/incidents
viewer   any     GET     /api/v1/incidents/counts
viewer   any     GET     /api/v1/incidents/{incident_id}
analyst  any     POST    /api/v1/incidents/{incident_id}/disposition
analyst  any     POST    /api/v1/incidents/{incident_id}/assignee
analyst  any     POST    /api/v1/incidents/{incident_id}/reopen
analyst  any     POST    /api/v1/incidents/{incident_id}/undo
analyst  any     POST    /api/v1/incidents/{incident_id}/status
analyst  any     POST    /api/v1/incidents/{incident_id}/notes
analyst  any     POST    /api/v1/incidents/{incident_id}/split
analyst  any     POST    /api/v1/incidents/{incident_id}/join
analyst  any     POST    /api/v1/incidents/edits/{edit_id}/undo
viewer   any     GET     /api/v1/people
viewer   any     GET     /api/v1/overview
viewer   any     GET     /api/v1/entities
viewer   any     GET     /api/v1/entities/{principal:path}
viewer   any     GET     /api/v1/graph
viewer   any     GET     /api/v1/votes
viewer   any     GET     /api/v1/suppressions
viewer   any     POST    /api/v1/suppressions/preview
engineer any     POST    /api/v1/suppressions
engineer any     POST    /api/v1/suppressions/{suppression_id}/end
viewer   any     GET     /api/v1/leads
viewer   any     GET     /api/v1/thresholds
viewer   any     POST    /api/v1/thresholds/preview
engineer any     POST    /api/v1/thresholds
viewer   any     GET     /api/v1/views
analyst  any     PUT     /api/v1/views/{name}
analyst  any     DELETE  /api/v1/views/{name}
engineer any     GET     /api/v1/audit
viewer   any     GET     /api/v1/tokens
viewer   proven  POST    /api/v1/tokens
viewer   person  DELETE  /api/v1/tokens/{token_id}
viewer   person  GET     /api/v1/sessions
viewer   person  DELETE  /api/v1/sessions
viewer   person  DELETE  /api/v1/sessions/{session_id}
admin    any     GET     /api/v1/accounts
admin    proven  POST    /api/v1/accounts
admin    proven  POST    /api/v1/accounts/{name}/link
admin    proven  POST    /api/v1/accounts/{name}/role
admin    person  POST    /api/v1/accounts/{name}/disable
admin    proven  POST    /api/v1/accounts/{name}/enable
admin    person  GET     /api/v1/accounts/{name}/sessions
admin    person  POST    /api/v1/accounts/{name}/end
admin    proven  POST    /api/v1/accounts/{name}/reset-second-factor
"""
RULES = {
    (method, path): (role, how)
    for role, how, method, path in (line.split() for line in TABLE.splitlines() if line)
}
GUARDED = {route: rule for route, rule in RULES.items() if rule[0] != "open"}
ONE_OF_EACH = {(method, path.startswith("/api/")): (method, path) for method, path in GUARDED}.values()
GATES = re.compile("needs the role|a token cannot do this|too old or not ours", re.IGNORECASE)


@dataclass
class Kind:
    """A kind of caller; without a role it is no one we know."""

    client: TestClient
    role: Role | None = None
    token: bool = False
    csrf: str = ""
    proven: bool = True

    def is_telling(self, method: str, path: str) -> bool:
        """Return whether this kind may fare unlike all others at a route.

        A role is asked where it is the least that may or the greatest that may not; the admin who proved nothing of
        late, and no one, everywhere. Any other who is not known is turned away before the route is looked at: one
        route of each method will do.
        """
        role, how = GUARDED[method, path]
        if self.role is None:
            return not (self.token or self.csrf) or (method, path) in ONE_OF_EACH
        if not self.proven:
            return bool(self.csrf) or method != "GET"
        if self.token and how != "any":
            return self.role == "admin"
        return ROLES.index(role) - ROLES.index(self.role) in (0, 1)

    def may_expect(self, method: str, path: str) -> str:
        """What comes of it, if the table is right."""
        role, how = GUARDED[method, path]
        api = path.startswith("/api/") or path == "/metrics"
        if self.role is None:
            return "401" if self.token or api else "login"
        if not self.token and not self.csrf and method != "GET":
            return "403"
        if not role_includes(self.role, role) or (self.token and how != "any"):
            return "403"
        return "prove" if how == "proven" and not self.proven else "in"

    def asks(self, method: str, path: str) -> str:
        """What came of it."""
        filled = re.sub(r"\{[^}]*\}", "nothing", path) + ("?seconds=0" if path.endswith("/live") else "")
        answer = self.client.request(method, filled, headers={"X-CSRF-Token": self.csrf} if self.csrf else {})
        location = answer.headers.get("location", "")
        if location.startswith("/confirm?next=") or "confirm your identity first" in answer.text.lower():
            return "prove"
        if answer.status_code == 303 and location.startswith("/login"):
            return "login"
        if answer.status_code == 401 and "Bearer" in answer.headers.get("www-authenticate", ""):
            return "401"
        if answer.status_code == 403 and GATES.search(answer.text):
            return "403"
        return "in" if answer.status_code < 500 or answer.status_code == 503 else str(answer.status_code)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Passwords are hashed at the least cost that argon2 knows: what a caller may do does not depend on it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(secret_hashes, "_hasher", PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
        yield Site.of(store_in(tmp_path_factory.mktemp("callers")), clock=Moment())


@pytest.fixture(scope="module")
def kinds(site) -> dict[str, Kind]:
    people, now = site.people, site.deps.clock.now()
    found = {"anonymous": Kind(site.no_one())}
    found |= {f"the {role}": Kind(site.browser(role), role, csrf=site.csrf(role)) for role in ROLES}
    found |= {f"a token: {scope}": Kind(site.client(role), role, True) for scope, role in SCOPES.items()}

    def admin(name: str) -> str:
        return people.logins.log_in_as(ExternalIdentity("https://tests.example", name, name, "admin"))

    def with_cookie(secret: str) -> TestClient:
        client = site.no_one()
        client.cookies.set(cookie_name("session", site.deps.settings), secret)
        return client

    def with_token(secret: str) -> TestClient:
        client = site.no_one()
        client.headers["authorization"] = f"Bearer {secret}"
        return client

    def token(name: str) -> tuple[str, str]:
        made, secret = people.tokens.create(name, "x", ["admin"], now + timedelta(days=1), by=name)
        return made.token_id, secret

    late, careless, gone = admin("late"), admin("careless"), admin("gone")
    found["an admin who proved nothing of late"] = Kind(
        with_cookie(late), "admin", csrf=csrf_token(late), proven=False
    )
    found["an admin's cookie without CSRF token"] = Kind(with_cookie(careless), "admin", proven=False)
    revoked, secret = token("careless")
    people.tokens.revoke(revoked, by="careless")
    found["a revoked token"] = Kind(with_token(secret), token=True)
    _, secret = people.tokens.create("careless", "x", ["admin"], now + timedelta(seconds=1), by="careless")
    site.deps.clock.sleep(2)
    found["an expired token"] = Kind(with_token(secret), token=True)
    found["no token of ours"] = Kind(with_token("fpt_" + "a" * 43), token=True)
    found["a disabled person's token"] = Kind(with_token(token("gone")[1]), token=True)
    people.accounts.disable("gone", by="admin")
    found["a disabled person's cookie"] = Kind(with_cookie(gone), csrf=csrf_token(gone))
    return found


def test_the_table_names_every_route_and_no_other(site):
    assert {(str(method), path) for method, path, _ in routes_of(site.app)} == set(RULES)


def test_every_route_does_for_every_kind_of_caller_what_the_table_says(kinds):
    wrong = [
        (name, method, path, expected, came)
        for name, kind in kinds.items()
        for method, path in GUARDED
        if kind.is_telling(method, path)
        and (came := kind.asks(method, path)) != (expected := kind.may_expect(method, path))
    ]
    assert wrong == []
    assert len(kinds) == 16


def test_what_is_open_breaks_for_no_one(kinds):
    no_one = kinds["anonymous"]
    assert {
        no_one.asks(*route) for route, rule in RULES.items() if rule[0] == "open" and route[0] != "None"
    } <= {
        "in",
        "login",
    }
