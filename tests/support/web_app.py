"""An alert store's whole application for the tests, and people of each role who are logged in.

Example:
    >>> site = Site.of(open_store("sqlite://"))
    >>> site.client("analyst").get("/api/v1/alerts").status_code
    200
    >>> site.browser("analyst").post("/logout", data={"csrf": site.csrf("analyst")})

No one's password is hashed here: that takes a tenth of a second each. Sessions and tokens are the real ones.
"""

from __future__ import annotations

import atexit
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal
from fastapi import FastAPI
from starlette.testclient import TestClient

from fingerprint.adapters.system import SystemClock
from fingerprint.core.account import SCOPES, ExternalIdentity, Role
from fingerprint.core.ports.accounts import AccountStore
from fingerprint.core.settings import Settings, load_settings
from fingerprint.store import SqlStore, open_store
from fingerprint.store.accounts import open_account_store
from fingerprint.web.app import create_app
from fingerprint.web.auth import csrf_token
from fingerprint.web.cookies import cookie_name
from fingerprint.web.dependencies import Dependencies

BASE = "http://localhost"


def store_in(folder: Path) -> SqlStore:
    """An empty alert store in a file; its tables are made once for all of them."""
    file = folder / "alerts.sqlite"
    file.write_bytes(_empty())
    return open_store(f"sqlite:///{file}")


@cache
def _empty() -> bytes:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "alerts.sqlite"
        open_store(f"sqlite:///{file}").close()
        return file.read_bytes()


@cache
def _event_loop() -> BlockingPortal:
    """The loop of all clients. One of its own for each request, with its threads, costs more than most requests."""
    ending = ExitStack()
    atexit.register(ending.close)
    return ending.enter_context(start_blocking_portal())


@dataclass
class Site:
    """`people` has an account of each role named like the role."""

    app: FastAPI
    deps: Dependencies
    sessions: dict[Role, str] = field(default_factory=dict)
    tokens: dict[Role, str] = field(default_factory=dict)

    @classmethod
    def of(cls, store: SqlStore, settings: Settings | None = None, **fields: Any) -> Site:
        """Return the application over an alert store; `fields` are further fields of Dependencies."""
        loaded = settings or load_settings(environment={})
        clock = fields.pop("clock", None) or SystemClock()
        people = open_account_store(store.session, clock, loaded.web)
        opened = replace(Dependencies(store, people, clock, loaded), **fields)
        site = cls(create_app(opened), opened)
        for scope, role in SCOPES.items():
            site.sessions[role] = people.logins.log_in_as(
                ExternalIdentity("https://tests.example", role, role, role, authenticated_at=clock.now())
            )
            ends = clock.now() + timedelta(days=1)
            site.tokens[role] = people.tokens.create(role, "tests", [scope], ends, by=role)[1]
        return site

    @property
    def people(self) -> AccountStore:
        return self.deps.account_store

    def no_one(self) -> TestClient:
        """Who shows nothing."""
        client = TestClient(self.app, base_url=BASE, follow_redirects=False, raise_server_exceptions=False)
        client.portal = _event_loop()
        return client

    def client(self, role: Role) -> TestClient:
        """A program with a token of this role."""
        client = self.no_one()
        client.headers["authorization"] = f"Bearer {self.tokens[role]}"
        return client

    def browser(self, role: Role) -> TestClient:
        """A person of this role, logged in; changes need `csrf`."""
        client = self.no_one()
        client.cookies.set(cookie_name("session", self.deps.settings), self.sessions[role])
        return client

    def csrf(self, role: Role) -> str:
        return csrf_token(self.sessions[role])
