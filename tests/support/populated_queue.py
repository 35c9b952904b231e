"""An alert store as it is in the morning, and the web app that serves it: some forty alerts of people and roles, alike each time.

Example:
    >>> with served(url_of_store, folder) as place:
    ...     place.base, place.setup
    ('http://127.0.0.1:40123', 'http://127.0.0.1:40123/setup/Q0b...')
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from hashlib import blake2b
from pathlib import Path

from fingerprint.core.alert import Alert, AlertEvent, NextStep
from fingerprint.store import open_store
from tests.support.alerts import ACCOUNT, DRIVERS, curve, event, new_pipeline, stolen_session, votes
from tests.support.forked import Forked, fingerprint

PEOPLE = (
    "ana.silva",
    "bo.chen",
    "carla.rossi",
    "deniz.kaya",
    "emma.dubois",
    "farid.aziz",
    "grace.owusu",
    "hugo.lind",
)
# For ever: they are of a day in March.
KEPT = {f"FINGERPRINT_RETENTION__{what}_DAYS": "0" for what in ("RECORD", "VOTE", "CLOSED_ALERT")}
# what was done, service, calls, tactics, urgency
STORIES = (
    (
        "read {n} secrets from {ip}, a network never seen for {who}",
        "secretsmanager",
        ("ListSecrets", "GetSecretValue"),
        ("Credential Access",),
        88,
    ),
    (
        "listed users and roles {n} times with a tool never seen",
        "iam",
        ("ListUsers", "ListRoles"),
        ("Discovery",),
        64,
    ),
    (
        "shared a snapshot with another account",
        "ec2",
        ("DescribeSnapshots", "ModifySnapshotAttribute"),
        ("Exfiltration",),
        77,
    ),
    ("deleted {n} objects at night", "s3", ("ListBuckets", "DeleteObject"), ("Impact",), 51),
    (
        "called a service for the first time",
        "athena",
        ("StartQueryExecution", "GetQueryResults"),
        ("Collection",),
        37,
    ),
)


def alerts() -> list[Alert]:
    """Forty: every person with every story, less urgent by person, an hour apart."""
    made = [_alert(at, who, story) for at, who in enumerate(PEOPLE) for story in STORIES[: 5 - at % 2]]
    return [stolen_session(), new_pipeline(), *made, *_loud()]


def lay_out(url: str, alerts: list[Alert]) -> None:
    """Put alerts on a new alert store, with a vote on each of their events."""
    store = open_store(url)
    store.alerts.save(
        alerts, [vote for alert in alerts for vote in (*votes(alert), *votes(alert, "spectral"))]
    )
    store.close()


@dataclass(frozen=True)
class Place:
    """A served alert store: where, and the link that makes its first admin."""

    base: str
    setup: str


@contextmanager
def served(url: str, folder: Path, bank: Path | None = None) -> Iterator[Place]:
    """`fingerprint serve` over an alert store, on a free port, until the block ends; without `bank` no bank is there."""
    command = ("serve", "--port", "0", "--database", url, "--bank", str(bank or folder / "bank"))
    process = fingerprint(*command, environment=os.environ | KEPT)
    try:
        yield _greeting(process)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)


def _greeting(process: Forked) -> Place:
    while process.poll() is None:
        if found := re.search(r"(http://\S+?)/setup/\S+\n", process.out):
            return Place(found[1], found[0].strip())
        time.sleep(0.05)
    raise AssertionError(f"the alert store was not served: {process.out}{process.err[-2000:]}")


def _alert(at: int, who: str, story: tuple[str, str, tuple[str, ...], tuple[str, ...], int]) -> Alert:
    said, service, calls, tactics, urgency = story
    principal = f"{ACCOUNT}:user/{who}"
    shift, address = timedelta(hours=-at), f"203.0.113.{10 + at}"
    events = tuple(_event(each, principal, service, calls, address, shift) for each in range(3 + at))
    name = who.split(".")[0].capitalize()
    return stolen_session(
        alert_id=blake2b(f"{who} {service}".encode(), digest_size=8).hexdigest(),
        principal=principal,
        human="",
        title=f"{name} " + said.format(n=len(events), ip=address, who=name),
        urgency=max(1, urgency - 4 * at),
        window_start=stolen_session().window_start + shift,
        first_event_time=events[0].event_time,
        last_event_time=events[-1].event_time,
        level=("entity", "principal", "peer", "generic")[at % 4],
        tactics=tactics,
        drivers=(replace(DRIVERS[0], seen=address), replace(DRIVERS[1], seen=calls[-1]), DRIVERS[2]),
        curve=replace(curve(peak=9.0 + at), entity=f"{principal}|{service}|direct"),
        next_steps=(
            NextStep("verify", f"Ask {name} by telephone whether this was them."),
            NextStep("extent", f"Look at what {service} was used for since.", "aws cloudtrail lookup-events"),
        ),
        rarity=max(1, urgency - 4 * at),
        impact=0,
        impact_of=(),
        events=events,
        degraded=at == 3,
    )


def _event(
    at: int, principal: str, service: str, calls: tuple[str, ...], address: str, shift: timedelta
) -> AlertEvent:
    made = event(
        3 * at,
        service,
        calls[at % len(calls)],
        entity=f"{principal}|{service}|direct",
        source_address=address,
        session="",
        parameters={"place": at, "of": principal},
    )
    return replace(
        made, event_time=made.event_time + shift, event_id=f"{made.event_id[:16]}-{principal[-6:]}"
    )


def _loud() -> list[Alert]:
    """Two with much to tell: a title and a tool that are long, and more services than a row has room for."""
    wide = stolen_session(
        alert_id="10ade0000000001a",
        principal=f"{ACCOUNT}:role/nightly-export-of-everything-to-the-warehouse-in-the-other-region",
        human="i-0123456789abcdef0",
        urgency=71,
        title="nightly-export made calls it never made before, in nine services at once, " + "and more " * 30,
    )
    services = ("kms", "sns", "sqs", "logs", "rds", "glue", "lambda", "dynamodb", "sts")
    events = tuple(
        event(at, name, "Describe", entity=f"{wide.principal}|{name}|direct")
        for at, name in enumerate(services)
    )
    return [replace(wide, events=events)]
