"""The alert store's application behind a real HTTP server, for tests: people with tokens, alerts of every kind.

Example:
    >>> with served(create_app(adapters)) as url:
    ...     httpx.get(f"{url}/livez").text
    'ok\\n'
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from threading import Thread
from typing import Any

import pytest
from argon2 import PasswordHasher
from fastapi import FastAPI

from fingerprint.core.account import Role, Scope
from fingerprint.core.alert import Alert
from fingerprint.core.ports.accounts import AccountStore
from fingerprint.store import secret_hashes
from fingerprint.web.server import DeadlineServer, uvicorn_config
from tests.support.alerts import NASTY, nasty, new_pipeline, stolen_session

PASSWORD = "four plain english words"  # noqa: S105
SCOPE: dict[Role, Scope] = {"viewer": "read", "analyst": "triage", "engineer": "engineer", "admin": "admin"}


@contextmanager
def served(app: FastAPI) -> Iterator[str]:
    """Its URL, for as long as the block runs. Requests wait in the socket until the server takes them."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = DeadlineServer(uvicorn_config(app))
        thread = Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def tokens(people: AccountStore, now: Any) -> dict[Role, str]:
    """A person of each role, called as the role is, and the secret of a token of theirs.

    Their passwords are hashed by argon2 at the least cost it knows; the first login of each hashes at the usual cost again.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(secret_hashes, "_hasher", PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
        people.logins.accept_invitation(people.accounts.create_first_invitation() or "", "admin", PASSWORD)
        for role in SCOPE:
            if role != "admin":
                people.logins.accept_invitation(people.accounts.invite(role, role, "admin"), role, PASSWORD)
    ends = now + timedelta(days=1)
    return {
        role: people.tokens.create(role, "tests", [scope], ends, role)[1] for role, scope in SCOPE.items()
    }


def variants(count: int) -> list[Alert]:
    """Alerts of different principals, urgencies and days, the stolen session and the pipeline by turns."""
    kinds = (stolen_session(), new_pipeline())
    return [_variant(kinds[number % 2], number) for number in range(count)]


def _variant(kind: Alert, number: int) -> Alert:
    later = timedelta(days=number)
    return replace(
        kind,
        alert_id=f"{number:04x}{kind.alert_id[:12]}",
        principal=f"{kind.principal}.{number}",
        urgency=kind.urgency - number % 30,
        first_event_time=kind.first_event_time + later,
        last_event_time=kind.last_event_time + later,
        events=tuple(
            replace(each, event_id=f"{number:04x}{each.event_id[:28]}", event_time=each.event_time + later)
            for each in kind.events
        ),
    )


def all_nasty() -> list[Alert]:
    """An alert for each nasty string, with the string in every field."""
    return [replace(nasty(text), alert_id=f"bad5ec0de{number:07d}") for number, text in enumerate(NASTY)]
