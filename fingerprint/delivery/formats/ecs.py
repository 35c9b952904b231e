"""An alert as a document of the Elastic Common Schema, for Elasticsearch, OpenSearch and what reads like them.

Example:
    >>> document(News(alert))["event"]["risk_score"]
    91

What ECS has no field for stands under `fingerprint.`, as its guidelines ask for a product's own fields. A field of type `ip`
holds addresses alone: one that is none would make Elasticsearch refuse the document.
Source: https://www.elastic.co/docs/reference/ecs
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fingerprint.core.alert import Alert
from fingerprint.core.severity import band
from fingerprint.delivery.formats.text import bounded, filled
from fingerprint.delivery.notification import News, account_of, address_of, distinct, email_of, name_of
from fingerprint.sources.cloudtrail.attack_tactics import TACTICS

VERSION = "8.17.0"
LONGEST = 1_024  # characters of a text; what is longer, Elasticsearch's keywords ignore
SEVERITY = {"low": 1, "medium": 2, "high": 3, "critical": 4}


def document(news: News) -> dict[str, Any]:
    """One document an alert; its texts are bounded."""
    alert = news.alert
    made: dict[str, Any] = bounded(
        filled(
            message=alert.title,
            ecs={"version": VERSION},
            event=_event(news),
            cloud=_cloud(alert),
            user=filled(id=alert.principal, name=name_of(alert), email=email_of(alert.human)),
            source=_source(news),
            user_agent=filled(original=distinct(event.user_agent for event in news.newest)),
            error=filled(code=distinct(event.error_code for event in news.newest)),
            related=_related(news),
            rule={"name": "fingerprint", "category": "anomaly", "version": alert.bank_version},
            threat=_threat(alert),
            observer={"product": "fingerprint", "type": "ueba"},
            tags=["fingerprint"],
            fingerprint=_own(news),
        ),
        LONGEST,
    )
    return {"@timestamp": iso(alert.last_event_time)} | made


def iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _event(news: News) -> dict[str, Any]:
    alert = news.alert
    span = alert.last_event_time - alert.first_event_time
    return filled(
        kind="alert",
        category=["intrusion_detection"],
        type=["info"],
        module="fingerprint",
        dataset="fingerprint.alert",
        provider="cloudtrail",
        id=alert.alert_id,
        action=distinct(f"{event.service}:{event.action}" for event in news.newest),
        reason=alert.title,
        severity=SEVERITY[band(alert.urgency)],
        risk_score=alert.urgency,
        start=iso(alert.first_event_time),
        end=iso(alert.last_event_time),
        duration=int(span.total_seconds() * 1_000_000) * 1_000,  # nanoseconds
        url=news.link,
    )


def _cloud(alert: Alert) -> dict[str, Any]:
    return filled(
        provider="aws",
        account=filled(id=account_of(alert)),
        region=distinct(event.region for event in alert.events),
        service=filled(name=distinct(event.service for event in alert.events)),
    )


def _source(news: News) -> dict[str, Any]:
    return filled(
        address=distinct(event.source_address for event in news.newest),
        ip=_addresses(news),
    )


def _related(news: News) -> dict[str, Any]:
    alert = news.alert
    users = [alert.principal, alert.human, *(event.session for event in news.newest)]
    return filled(user=distinct(users), ip=_addresses(news))


def _addresses(news: News) -> list[str]:
    return distinct(address_of(event.source_address) or "" for event in news.newest)


def _threat(alert: Alert) -> dict[str, Any]:
    known = [name for name in alert.tactics if name in TACTICS]
    if not known:
        return {}
    return {
        "framework": "MITRE ATT&CK",
        "tactic": {"id": [TACTICS[name] for name in known], "name": known},
    }


def _own(news: News) -> dict[str, Any]:
    """What ECS has no word for."""
    alert, said = news.alert, news.said
    return filled(
        happened=news.happened,
        decision=news.decision or "open",
        decided_by=said.by if said else None,
        why=said.why if said else None,
        severity=band(alert.urgency),
        level=alert.level,
        degraded=alert.degraded,
        event_count=len(alert.events),
        event_ids=[event.event_id for event in news.newest],
        next_steps=list(alert.next_steps),
        drivers=[
            filled(feature=each.feature, seen=each.seen, expected=each.expected, rarity=each.rarity)
            for each in alert.drivers
        ],
    )
