"""An alert as a Detection Finding (class 2004) of the Open Cybersecurity Schema Framework, version 1.5.

Example:
    >>> finding = ocsf_finding(Notification(alert))
    >>> finding["type_name"], finding["severity"]
    ('Detection Finding: Create', 'Critical')

Valid by the published schemas of 1.5, the first with `anomaly_analyses`, to 1.8. Of profiles it uses `cloud` (the account),
`host` (the actor) and `incident` (the decision). All times are milliseconds since 1970. Source:
https://schema.ocsf.io/1.5.0/classes/detection_finding
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from fingerprint.core.address import AddressPlace
from fingerprint.core.alert import (
    ActivityCurve,
    Alert,
    AlertEvent,
    Decision,
    Level,
    SurpriseDriver,
    severity_of,
)
from fingerprint.core.time_range import format_iso
from fingerprint.delivery.formats.text import (
    impact_text,
    opener_texts,
    other_record_texts,
    step_text,
    truncate_texts,
    without_empty,
)
from fingerprint.delivery.notification import (
    ChangeKind,
    Notification,
    alert_account,
    display_name,
    distinct_values,
    parse_address,
    parse_email,
)
from fingerprint.sources.active import SOURCE
from fingerprint.sources.base import TACTICS

OCSF_VERSION = "1.5.0"
PROFILES = ["cloud", "host", "incident"]
PRODUCT = {"name": "fingerprint", "vendor_name": "fingerprint"}
ACCOUNT_TYPE_IDS = {"AWS": 10}  # by cloud provider
OTHER_TYPE_ID = 99  # of a type that OCSF does not list

JsonObject = dict[str, Any]
EnumValue = tuple[int, str]  # a number of an enumeration, and its caption

SEVERITY: dict[str, EnumValue] = {
    "critical": (5, "Critical"),
    "high": (4, "High"),
    "medium": (3, "Medium"),
    "low": (2, "Low"),
}
RISK: dict[str, EnumValue] = {
    "critical": (4, "Critical"),
    "high": (3, "High"),
    "medium": (2, "Medium"),
    "low": (1, "Low"),
}
IMPACT = RISK  # the same numbers and captions
CONFIDENCE: dict[Level, EnumValue] = {  # by the fingerprint that judged
    "entity": (3, "High"),
    "principal": (3, "High"),
    "peer": (2, "Medium"),
    "generic": (1, "Low"),
}
ACTIVITY: dict[ChangeKind, EnumValue] = {
    "new": (1, "Create"),
    "updated": (2, "Update"),
    "decided": (3, "Close"),
}
STATUS: dict[Decision | None, EnumValue] = {
    None: (1, "New"),
    "true_positive": (4, "Resolved"),
    "benign": (3, "Suppressed"),
    "false_positive": (3, "Suppressed"),
    "duplicate": (5, "Archived"),
}
VERDICT: dict[Decision | None, EnumValue] = {
    None: (0, "Unknown"),
    "true_positive": (2, "True Positive"),
    "benign": (5, "Benign"),
    "false_positive": (1, "False Positive"),
    "duplicate": (10, "Duplicate"),
}
OBSERVABLE: dict[str, EnumValue] = {
    "user": (4, "User Name"),
    "email": (5, "Email Address"),
    "ip": (2, "IP Address"),
    "user_agent": (16, "HTTP User-Agent"),
    "account": (35, "Account Object: uid"),
}


def ocsf_finding(notification: Notification) -> dict[str, Any]:
    """Return the document; its texts are bounded, and its evidence is the newest events."""
    alert = notification.alert
    made: dict[str, Any] = truncate_texts(
        without_empty(
            **_class_fields(notification),
            **_judgement_fields(notification),
            metadata=_metadata_fields(notification),
            time=to_milliseconds(alert.last_event_time),
            start_time=to_milliseconds(alert.first_event_time),
            end_time=to_milliseconds(alert.last_event_time),
            count=len(alert.events),
            message=alert.title,
            finding_info=_finding_info(notification),
            cloud=_cloud_fields(alert),
            actor={"user": _user_fields(alert)},
            resources=_resources(notification),
            evidences=[
                _evidence_fields(alert, event, notification.tables.place(event.source_address))
                for event in notification.newest_events
            ],
            observables=list(_find_observables(notification)),
            anomaly_analyses=anomaly_analyses(alert),
            **_enum_fields("impact", IMPACT[severity_of(alert.impact)]),
            impact_score=alert.impact,
            remediation=without_empty(desc=" ".join(step_text(step) for step in alert.next_steps)),
            unmapped=_unmapped_fields(notification),
        )
    )
    return made


def _unmapped_fields(notification: Notification) -> dict[str, Any]:
    """Return what OCSF has no field for."""
    alert, origin = notification.alert, notification.origin
    opened = without_empty(opened_by=opener_texts(origin), same_call_by=other_record_texts(origin))
    return opened | {
        "level": alert.level,
        "degraded": alert.degraded,
        "bank_version": alert.bank_version,
        "rarity": alert.rarity,
        "impact_of": [impact_text(each) for each in alert.impact_of],
        "supporting_event_ids": [each.event_id for each in alert.supporting_events],
    }


def to_milliseconds(moment: datetime) -> int:
    """Return milliseconds since 1970."""
    return int(moment.timestamp() * 1000)


def _class_fields(notification: Notification) -> dict[str, Any]:
    closed = notification.change != "decided" or notification.disposition
    # decided, and open again since: an update
    number, name = ACTIVITY[notification.change if closed else "updated"]
    return {
        "category_uid": 2,
        "category_name": "Findings",
        "class_uid": 2004,
        "class_name": "Detection Finding",
        "activity_id": number,
        "activity_name": name,
        "type_uid": 200_400 + number,
        "type_name": f"Detection Finding: {name}",
    }


def _judgement_fields(notification: Notification) -> dict[str, Any]:
    """Return severity, confidence, status and verdict."""
    alert, disposition = notification.alert, notification.disposition
    word = severity_of(alert.urgency)
    return {
        **_enum_fields("severity", SEVERITY[word]),
        **_enum_fields("risk_level", RISK[word]),
        "risk_score": alert.urgency,
        **_enum_fields("confidence", CONFIDENCE[alert.level]),
        **_enum_fields("status", STATUS[notification.decision]),
        **_enum_fields("verdict", VERDICT[notification.decision]),
        "is_alert": disposition is None,
        "comment": f"{disposition.by}: {disposition.why}" if disposition and disposition.why else None,
    }


def _enum_fields(name: str, value: EnumValue) -> dict[str, Any]:
    return {f"{name}_id": value[0], name: value[1]}


def _metadata_fields(notification: Notification) -> dict[str, Any]:
    alert = notification.alert
    return {  # uid: a receiver drops what has one that it knows
        "version": OCSF_VERSION,
        "profiles": PROFILES,
        "product": PRODUCT,
        "uid": notification.key or f"{alert.alert_id}:{notification.change}:{len(alert.events)}",
        "log_name": SOURCE.NAME,
    }


def _finding_info(notification: Notification) -> dict[str, Any]:
    alert, disposition = notification.alert, notification.disposition
    return without_empty(
        uid=alert.alert_id or "(none)",
        title=alert.title,
        types=["Anomaly"],
        analytic=without_empty(
            name="fingerprint", type_id=4, type="Learning (ML/DL)", version=alert.bank_version
        ),
        attacks=_attacks(alert),
        data_sources=[f"{SOURCE.CLOUD_PROVIDER} {SOURCE.NAME}"],
        first_seen_time=to_milliseconds(alert.first_event_time),
        last_seen_time=to_milliseconds(alert.last_event_time),
        modified_time=to_milliseconds(disposition.at) if disposition else None,
        related_events_count=len(alert.events),
        src_url=notification.link,
    )


def _attacks(alert: Alert) -> list[JsonObject]:
    """Return the techniques behind the impact with their tactics, then the alert's other tactics, each once."""
    pairs = dict.fromkeys((row.tactic, row.technique) for row in alert.impact_of if row.technique)
    named = {tactic for tactic, _ in pairs}
    others = [(tactic, "") for tactic in alert.tactics if tactic not in named]
    return [found for pair in (*pairs, *others) if (found := _attack(*pair))]


def _attack(tactic: str, number: str) -> JsonObject:
    """Return a tactic and a technique; of a sub-technique, `T1562.008`, also the technique that it is of."""
    parent = number.partition(".")[0]
    return without_empty(
        tactic=without_empty(name=tactic, uid=TACTICS.get(tactic)),
        technique=_technique(parent, SOURCE.technique_name(parent)),
        sub_technique=_technique(number, SOURCE.technique_name(number).partition(": ")[2])
        if number != parent
        else None,
    )


def _technique(number: str, name: str) -> JsonObject:
    return without_empty(uid=number, name=name)


def _resources(notification: Notification) -> list[JsonObject]:
    """Return what the newest events and those behind the impact touched: `for account 210987654321` is a label of it."""
    alert, labels = notification.alert, dict[str, list[str]]()
    for row in alert.impact_of:
        for text in row.resources:
            resource, where = split_account(text)
            labels.setdefault(resource, []).extend(filter(None, [where]))
    for event in notification.newest_events:
        labels.setdefault(event.resource, [])
    return [_resource(each, labels[each]) for each in labels if each]


def _resource(text: str, labels: list[str]) -> JsonObject:
    """Return a resource, `type:name`; one that has no name is its name."""
    kind, _, name = text.partition(":")
    return without_empty(type=kind if name else None, name=name or text, labels=distinct_values(labels))


def split_account(text: str) -> tuple[str, str]:
    """Return a resource of `ActionImpact.resources` and the account that the call named beside it, if it did.

    >>> split_account("role:Audit for account 210987654321"), split_account("role:Admin")
    (('role:Audit', 'for account 210987654321'), ('role:Admin', ''))
    >>> split_account("for account 210987654321")
    ('', 'for account 210987654321')
    """
    for relation in (" for ", " in "):
        resource, found, where = f" {text}".rpartition(relation)
        if found and accounts_in(where):
            return resource.lstrip(), f"{relation[1:]}{where}"
    return text, ""


def accounts_in(where: str) -> list[str]:
    """Return the accounts of `account 210987654321`, or of `3 accounts: 111111111111, 222222222222 and 1 more`."""
    words = where.replace(",", " ").split()
    named = [word for word in words if len(word) == 12 and word.isascii() and word.isdecimal()]
    return named if not {"account", "accounts:"}.isdisjoint(words) else []


def _cloud_fields(alert: Alert) -> dict[str, Any]:
    """Return provider, account, and the region where there is one: events of several each name theirs in their evidence."""
    regions = distinct_values(event.region for event in alert.events)
    region = regions[0] if len(regions) == 1 else None
    return without_empty(provider=SOURCE.CLOUD_PROVIDER, region=region, account=_account_fields(alert))


def _account_fields(alert: Alert) -> dict[str, Any]:
    uid = alert_account(alert)
    provider = SOURCE.CLOUD_PROVIDER
    type_id = ACCOUNT_TYPE_IDS.get(provider, OTHER_TYPE_ID)
    return {"uid": uid, "type_id": type_id, "type": f"{provider} Account"} if uid else {}


def _user_fields(alert: Alert) -> dict[str, Any]:
    return without_empty(
        uid=alert.principal,
        name=display_name(alert) or "(none)",
        email_addr=parse_email(alert.human),
        account=_account_fields(alert),
    )


def _evidence_fields(alert: Alert, event: AlertEvent, place: AddressPlace) -> dict[str, Any]:
    """Return one event as evidence: caller, call, source and user agent."""
    address = parse_address(event.source_address)
    data = {
        "event_time": format_iso(event.event_time),
        "entity": event.entity,
        "region": event.region,
        "resource": event.resource,
        "scores": without_empty(**event.scores),
        "flagged_by": list(event.flagged_by),
    }
    return without_empty(
        uid=event.event_id,
        api=without_empty(
            operation=event.action or "(none)",
            service=without_empty(name=event.service),
            response=without_empty(error=event.error_code),
        ),
        actor=without_empty(user=_user_fields(alert), session=without_empty(uid=event.session)),
        src_endpoint={"ip": address, **_place_fields(place)}
        if address
        else without_empty(name=event.source_address),
        http_request=without_empty(user_agent=event.user_agent),
        data=without_empty(**data),
    )


def _place_fields(place: AddressPlace) -> dict[str, Any]:
    """Return country and network owner of an address, where tables know them."""
    return without_empty(
        location=without_empty(country=place.country),
        autonomous_system=without_empty(number=place.as_number, name=place.organisation),
    )


def _find_observables(notification: Notification) -> Iterator[dict[str, Any]]:
    """Yield the values that other tools can search for, each once."""
    alert, events = notification.alert, notification.newest_events
    found = {
        ("user", "actor.user.name"): [display_name(alert)],
        ("email", "actor.user.email_addr"): [parse_email(alert.human) or ""],
        ("account", "cloud.account.uid"): [alert_account(alert)],
        ("account", "resources[].labels"): [
            account
            for row in alert.impact_of
            for text in row.resources
            for account in accounts_in(split_account(text)[1])
        ],
        ("ip", "evidences[].src_endpoint.ip"): [
            parse_address(event.source_address) or "" for event in events
        ],
        ("user_agent", "evidences[].http_request.user_agent"): [event.user_agent for event in events],
    }
    for (kind, name), values in found.items():
        number, caption = OBSERVABLE[kind]
        for value in distinct_values(values):
            yield {"name": name, "type_id": number, "type": caption, "value": value}


# --- unusual values beside usual ones ------------------------------------------------------------------------------------


def anomaly_analyses(alert: Alert) -> list[JsonObject]:
    """Return one analysis: the principal's values against its habits, and its activity against the expected one.

    Return no analysis for an alert without drivers and curve.
    """
    pairs = [_driver_pair(driver) for driver in alert.drivers]
    if alert.curve:
        pairs += _curve_pairs(alert.curve)
    if not pairs:
        return []
    return [
        {
            "analysis_targets": [{"name": alert.principal or "(none)", "type": "Principal"}],
            "anomalies": [anomaly for anomaly, _ in pairs],
            "baselines": [baseline for _, baseline in pairs],
        }
    ]


def _driver_pair(driver: SurpriseDriver) -> tuple[JsonObject, JsonObject]:
    """Return a surprising value of a feature, and the usual ones."""
    feature = driver.feature or "(none)"
    seen = {"value": driver.seen or "(none)", "count": driver.events}
    alone = ", but not with the rest of the call" if driver.unusual_together else ""
    surprise = f"{driver.rarity}{alone}; {driver.surprise:.1f} nats above what is usual"
    return (
        _anomaly_part(feature, "Habit", surprise, [seen]),
        _anomaly_part(feature, "Habit", None, [{"value": driver.expected or "(none)"}]),
    )


def _curve_pairs(curve: ActivityCurve) -> list[tuple[JsonObject, JsonObject]]:
    """Return the flagged intervals of a curve: the counts, and the expected counts."""
    spans = [place for place in curve.flagged if place < len(curve.counts)]
    if not spans:
        return []
    name, pattern = curve.channel or "(none)", f"per {curve.interval_seconds} s, {curve.entity}"
    counted = [_observation(curve, place, curve.counts[place]) for place in spans]
    expected = [_observation(curve, place, curve.expected[place]) for place in spans]
    return [
        (
            _anomaly_part(name, "Activity", pattern, counted),
            _anomaly_part(name, "Activity", pattern, expected),
        )
    ]


def _observation(curve: ActivityCurve, place: int, value: float) -> JsonObject:
    start = curve.start + timedelta(seconds=curve.interval_seconds * place)
    ends = (start, start + timedelta(seconds=curve.interval_seconds))
    first, last = (int(moment.timestamp() * 1000) for moment in ends)
    return {
        "value": f"{value:g}" if math.isfinite(value) else "unknown",
        "timespan": {"start_time": first, "end_time": last, "type_id": 9, "type": "Time Interval"},
    }


def _anomaly_part(
    parameter: str, kind: str, pattern: str | None, observations: list[JsonObject]
) -> JsonObject:
    return without_empty(
        observation_parameter=parameter,
        observation_type=kind,
        observed_pattern=pattern,
        observations=observations,
    )
