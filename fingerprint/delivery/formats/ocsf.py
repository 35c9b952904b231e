"""An alert as a Detection Finding of the Open Cybersecurity Schema Framework (class 2004), in the words of version 1.5.

Example:
    >>> finding(News(alert))["type_name"], finding(News(alert))["severity"]
    ('Detection Finding: Create', 'Critical')

Valid by the published schemas of 1.5, the first with `anomaly_analyses`, to 1.8 (tests/test_ocsf.py asks them). Of profiles it
uses `cloud` (whose account), `host` (who acted) and `incident` (what an analyst said). All times are milliseconds since 1970.
Source: https://schema.ocsf.io/1.5.0/classes/detection_finding
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from fingerprint.core.alert import Alert, AlertEvent, Decision, Level
from fingerprint.core.severity import band
from fingerprint.delivery.formats.ocsf_anomalies import analyses
from fingerprint.delivery.formats.text import bounded, filled
from fingerprint.delivery.notification import (
    Happened,
    News,
    account_of,
    address_of,
    distinct,
    email_of,
    name_of,
)
from fingerprint.sources.cloudtrail.attack_tactics import TACTICS

VERSION = "1.5.0"
PROFILES = ["cloud", "host", "incident"]
PRODUCT = {"name": "fingerprint", "vendor_name": "fingerprint"}

Named = tuple[int, str]  # a number of an enumeration, and its caption

SEVERITY: dict[str, Named] = {
    "critical": (5, "Critical"),
    "high": (4, "High"),
    "medium": (3, "Medium"),
    "low": (2, "Low"),
}
RISK: dict[str, Named] = {
    "critical": (4, "Critical"),
    "high": (3, "High"),
    "medium": (2, "Medium"),
    "low": (1, "Low"),
}
CONFIDENCE: dict[Level, Named] = {  # how much was known of whom it judges
    "entity": (3, "High"),
    "principal": (3, "High"),
    "peer": (2, "Medium"),
    "generic": (1, "Low"),
}
ACTIVITY: dict[Happened, Named] = {"new": (1, "Create"), "grown": (2, "Update"), "decided": (3, "Close")}
STATUS: dict[Decision | None, Named] = {
    None: (1, "New"),
    "true_positive": (4, "Resolved"),
    "benign": (3, "Suppressed"),
    "false_positive": (3, "Suppressed"),
    "duplicate": (5, "Archived"),
}
VERDICT: dict[Decision | None, Named] = {
    None: (0, "Unknown"),
    "true_positive": (2, "True Positive"),
    "benign": (5, "Benign"),
    "false_positive": (1, "False Positive"),
    "duplicate": (10, "Duplicate"),
}
OBSERVABLE: dict[str, Named] = {
    "user": (4, "User Name"),
    "email": (5, "Email Address"),
    "ip": (2, "IP Address"),
    "user_agent": (16, "HTTP User-Agent"),
    "account": (35, "Account Object: uid"),
}


def finding(news: News) -> dict[str, Any]:
    """The whole document; its texts are bounded, and of its events it has the newest as evidence."""
    alert = news.alert
    made: dict[str, Any] = bounded(
        filled(
            **_class(news),
            **_judgement(news),
            metadata=_metadata(news),
            time=millis(alert.last_event_time),
            start_time=millis(alert.first_event_time),
            end_time=millis(alert.last_event_time),
            count=len(alert.events),
            message=alert.title,
            finding_info=_info(news),
            cloud=_cloud(alert),
            actor={"user": _user(alert)},
            evidences=[_evidence(alert, event) for event in news.newest],
            observables=list(_observables(news)),
            anomaly_analyses=analyses(alert),
            remediation=filled(desc=" ".join(alert.next_steps)),
            unmapped={"level": alert.level, "degraded": alert.degraded, "bank_version": alert.bank_version},
        )
    )
    return made


def millis(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def _class(news: News) -> dict[str, Any]:
    closed = news.happened != "decided" or news.said
    number, name = ACTIVITY[news.happened if closed else "grown"]  # decided, and open again since: an update
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


def _judgement(news: News) -> dict[str, Any]:
    """How bad, how sure, how it stands, and what was said of it."""
    alert, said = news.alert, news.said
    word = band(alert.urgency)
    return {
        **_both("severity", SEVERITY[word]),
        **_both("risk_level", RISK[word]),
        "risk_score": alert.urgency,
        **_both("confidence", CONFIDENCE[alert.level]),
        **_both("status", STATUS[news.decision]),
        **_both("verdict", VERDICT[news.decision]),
        "is_alert": said is None,
        "comment": f"{said.by}: {said.why}" if said and said.why else None,
    }


def _both(name: str, value: Named) -> dict[str, Any]:
    return {f"{name}_id": value[0], name: value[1]}


def _metadata(news: News) -> dict[str, Any]:
    alert = news.alert
    return {
        "version": VERSION,
        "profiles": PROFILES,
        "product": PRODUCT,
        "uid": f"{alert.alert_id}:{news.happened}:{len(alert.events)}",
        "log_name": "CloudTrail",
    }


def _info(news: News) -> dict[str, Any]:
    alert, said = news.alert, news.said
    return filled(
        uid=alert.alert_id or "(none)",
        title=alert.title,
        types=["Anomaly"],
        analytic=filled(name="fingerprint", type_id=4, type="Learning (ML/DL)", version=alert.bank_version),
        attacks=[{"tactic": filled(name=name, uid=TACTICS.get(name))} for name in alert.tactics if name],
        data_sources=["AWS CloudTrail"],
        first_seen_time=millis(alert.first_event_time),
        last_seen_time=millis(alert.last_event_time),
        modified_time=millis(said.at) if said else None,
        related_events_count=len(alert.events),
        src_url=news.link,
    )


def _cloud(alert: Alert) -> dict[str, Any]:
    region = next((event.region for event in alert.events if event.region), None)
    return filled(provider="AWS", region=region, account=_account(alert))


def _account(alert: Alert) -> dict[str, Any]:
    uid = account_of(alert)
    return {"uid": uid, "type_id": 10, "type": "AWS Account"} if uid else {}


def _user(alert: Alert) -> dict[str, Any]:
    return filled(
        uid=alert.principal,
        name=name_of(alert) or "(none)",
        email_addr=email_of(alert.human),
        account=_account(alert),
    )


def _evidence(alert: Alert, event: AlertEvent) -> dict[str, Any]:
    """One event: who called what, from where, with which tool."""
    address = address_of(event.source_address)
    data = {
        "event_time": event.event_time.isoformat(),
        "entity": event.entity,
        "region": event.region,
        "autoencoder_z": event.autoencoder_z,
        "spectral_z": event.spectral_z,
    }
    return filled(
        uid=event.event_id,
        api=filled(
            operation=event.action or "(none)",
            service=filled(name=event.service),
            response=filled(error=event.error_code),
        ),
        actor=filled(user=_user(alert), session=filled(uid=event.session)),
        src_endpoint={"ip": address} if address else filled(name=event.source_address),
        http_request=filled(user_agent=event.user_agent),
        data=filled(**data),
    )


def _observables(news: News) -> Iterator[dict[str, Any]]:
    """What can be searched for elsewhere, each once."""
    alert, events = news.alert, news.newest
    found = {
        ("user", "actor.user.name"): [name_of(alert)],
        ("email", "actor.user.email_addr"): [email_of(alert.human) or ""],
        ("account", "cloud.account.uid"): [account_of(alert)],
        ("ip", "evidences[].src_endpoint.ip"): [address_of(event.source_address) or "" for event in events],
        ("user_agent", "evidences[].http_request.user_agent"): [event.user_agent for event in events],
    }
    for (kind, name), values in found.items():
        number, caption = OBSERVABLE[kind]
        for value in distinct(values):
            yield {"name": name, "type_id": number, "type": caption, "value": value}
