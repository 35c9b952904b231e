"""An alert as a document of the Elastic Common Schema, for Elasticsearch, OpenSearch and what reads like them.

Example:
    >>> ecs_document(Notification(alert))["event"]["risk_score"]
    91

What ECS has no field for stands under `fingerprint.`, as its guidelines ask for a product's own fields. A field of type `ip`
holds addresses alone: one that is none would make Elasticsearch refuse the document.
Source: https://www.elastic.co/docs/reference/ecs
"""

from __future__ import annotations

from typing import Any

from fingerprint.core.alert import Alert, severity_of
from fingerprint.core.time_range import format_iso
from fingerprint.delivery.formats.text import (
    impact_text,
    opener_texts,
    other_record_texts,
    truncate_texts,
    without_empty,
)
from fingerprint.delivery.notification import (
    Notification,
    alert_account,
    display_name,
    distinct_values,
    parse_address,
    parse_email,
)
from fingerprint.sources.active import SOURCE
from fingerprint.sources.base import TACTICS

ECS_VERSION = "8.17.0"
MAX_KEYWORD_LENGTH = 1_024  # characters of a text; what is longer, Elasticsearch's keywords ignore
SEVERITY_NUMBERS = {"low": 1, "medium": 2, "high": 3, "critical": 4}


def ecs_document(notification: Notification) -> dict[str, Any]:
    """Return the document of an alert; its texts are bounded."""
    alert = notification.alert
    made: dict[str, Any] = truncate_texts(
        without_empty(
            message=alert.title,
            ecs={"version": ECS_VERSION},
            event=_event_fields(notification),
            cloud=_cloud_fields(alert),
            user=without_empty(id=alert.principal, name=display_name(alert), email=parse_email(alert.human)),
            source=_source_fields(notification),
            user_agent=without_empty(
                original=distinct_values(event.user_agent for event in notification.newest_events)
            ),
            error=without_empty(
                code=distinct_values(event.error_code for event in notification.newest_events)
            ),
            related=_related_fields(notification),
            rule={"name": "fingerprint", "category": "anomaly", "version": alert.bank_version},
            threat=_threat_fields(alert),
            observer={"product": "fingerprint", "type": "ueba"},
            tags=["fingerprint"],
            fingerprint=_custom_fields(notification),
        ),
        MAX_KEYWORD_LENGTH,
    )
    return {"@timestamp": format_iso(alert.last_event_time)} | made


def _event_fields(notification: Notification) -> dict[str, Any]:
    alert = notification.alert
    span = alert.last_event_time - alert.first_event_time
    return without_empty(
        kind="alert",
        category=["intrusion_detection"],
        type=["info"],
        module="fingerprint",
        dataset="fingerprint.alert",
        provider=SOURCE.NAME.lower(),
        id=alert.alert_id,
        action=distinct_values(event.action_name for event in notification.newest_events),
        reason=alert.title,
        severity=SEVERITY_NUMBERS[severity_of(alert.urgency)],
        risk_score=alert.urgency,
        start=format_iso(alert.first_event_time),
        end=format_iso(alert.last_event_time),
        duration=int(span.total_seconds() * 1_000_000) * 1_000,  # nanoseconds
        url=notification.link,
    )


def _cloud_fields(alert: Alert) -> dict[str, Any]:
    return without_empty(
        provider=SOURCE.CLOUD_PROVIDER.lower(),
        account=without_empty(id=alert_account(alert)),
        region=distinct_values(event.region for event in alert.events),
        service=without_empty(name=distinct_values(event.service for event in alert.events)),
    )


def _source_fields(notification: Notification) -> dict[str, Any]:
    places = notification.places()
    numbers = list(dict.fromkeys(place.as_number for place in places if place.as_number is not None))
    organisations = distinct_values(place.organisation for place in places)
    return without_empty(
        address=distinct_values(event.source_address for event in notification.newest_events),
        ip=_addresses(notification),
        geo=without_empty(country_iso_code=distinct_values(place.country for place in places)),
        **{"as": without_empty(number=numbers, organization=without_empty(name=organisations))},
    )


def _related_fields(notification: Notification) -> dict[str, Any]:
    alert, opener = notification.alert, notification.origin.opener
    users = [alert.principal, alert.human, opener, *(event.session for event in notification.newest_events)]
    return without_empty(user=distinct_values(users), ip=_addresses(notification))


def _addresses(notification: Notification) -> list[str]:
    return distinct_values(parse_address(event.source_address) or "" for event in notification.newest_events)


def _threat_fields(alert: Alert) -> dict[str, Any]:
    known = [name for name in alert.tactics if name in TACTICS]
    techniques = distinct_values(each.technique for each in alert.impact_of)
    if not known and not techniques:
        return {}
    return without_empty(
        framework="MITRE ATT&CK",
        tactic={"id": [TACTICS[name] for name in known], "name": known} if known else None,
        technique={"id": techniques} if techniques else None,
    )


def _custom_fields(notification: Notification) -> dict[str, Any]:
    """Return the fields that ECS has no name for."""
    alert, disposition = notification.alert, notification.disposition
    return without_empty(
        happened=notification.change,
        decision=notification.decision or "open",
        decided_by=disposition.by if disposition else None,
        why=disposition.why if disposition else None,
        severity=severity_of(alert.urgency),
        level=alert.level,
        degraded=alert.degraded,
        scores=alert.highest_scores,
        flagged_by=list(alert.flagged_by),
        event_count=len(alert.events),
        event_ids=[event.event_id for event in notification.newest_events],
        supporting_event_ids=[event.event_id for event in alert.supporting_events],
        rarity=alert.rarity,
        impact=alert.impact,
        impact_of=[impact_text(each) for each in alert.impact_of],
        opened_by=opener_texts(notification.origin),
        same_call_by=other_record_texts(notification.origin),
        next_steps=[
            without_empty(phase=each.phase, text=each.text, command=each.command) for each in alert.next_steps
        ],
        drivers=[
            without_empty(feature=each.feature, seen=each.seen, expected=each.expected, rarity=each.rarity)
            for each in alert.drivers
        ],
    )
