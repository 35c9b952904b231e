"""Security events of the web port: one JSON line each, and counters without names.

Example:
    >>> events = SecurityEventLog()
    >>> events.record_refusal("host", SecurityEvent("request", address="198.51.100.9", request_id="5f0c27aa01b6d3e4"))

It logs `{"logger": "fingerprint.security", "message": "request refused", "event": "request", "outcome": "refused", "reason":
"host", "who": "", "address": "198.51.100.9", ...}`. Every line has the same fields; some have more
(docs/reference/security-events.md). Texts are cut, and the log formatter escapes control characters. In each time window, lines
are limited for each kind, and for each kind and source, so that a flood cannot fill the disk. One line at the end of the window
has the number of lines left out. Counters count everything.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from hashlib import blake2b
from ipaddress import IPv6Address, ip_address, ip_network
from threading import Lock
from typing import Any

import prometheus_client as prometheus

from fingerprint.core.log import get_logger

REFUSAL_REASONS = (  # every value of the label `reason`
    "login",  # a wrong name, password or second factor
    "throttled",  # too many attempts
    "unauthenticated",  # 401: no session and no token, or one that is not good
    "forbidden",  # 403: the role does not allow it
    "cross_site",  # 403: the CSRF token or the origin is not ours
    "host",  # 400: the Host header is not ours
    "too_large",  # 413: the body
    "streams",  # 503: too many listen
    "slow",  # the request did not arrive, or the answer was not taken, in time
    "malformed",  # no HTTP
    "busy",  # 503: too many connections, or too many passwords are being checked
)
COUNTED_FORMATS = ("csv", "jsonl", "ecs", "ocsf")  # of an export
LINE_WINDOW_SECONDS = 60.0  # of a window
LINES_PER_SOURCE, LINES_PER_KIND = 20, 100  # lines within one window
MAX_SOURCES = 10_000  # sources with counts of their own; further ones share one
SOURCES_LISTED = 20  # sources named in the line about lines left out
MAX_LOG_TEXT_LENGTH = 300  # characters of one text

log = get_logger("fingerprint.security")


@dataclass(frozen=True, slots=True)
class SecurityEvent:
    """One event. `event`: login, password, request, account, export, read. `route` is the template, never the path."""

    event: str
    outcome: str = ""
    reason: str = ""
    who: str = ""
    address: str = ""
    method: str = ""
    route: str = ""
    status: int = 0
    request_id: str = ""
    detail: Mapping[str, str | int] = field(default_factory=dict)

    @property
    def kind(self) -> tuple[str, str, str]:
        """Return the labels of its metric: event, outcome and reason."""
        return self.event, self.outcome, self.reason

    @property
    def source(self) -> str:
        """Return the source whose lines are counted together: the person, else the network of the address."""
        return self.who or network_prefix(self.address)

    def fields(self) -> dict[str, str | int]:
        """Return the fields of the line, every text cut to its limit."""
        fields = asdict(self)
        detail: dict[str, Any] = fields.pop("detail")
        return {
            name: value[:MAX_LOG_TEXT_LENGTH] if isinstance(value, str) else value
            for name, value in {**detail, **fields}.items()
        }


class SecurityEventLog:
    """Write event lines and count them; thread-safe."""

    def __init__(
        self, registry: prometheus.CollectorRegistry | None = None, now: Callable[[], float] = time.monotonic
    ) -> None:
        registry = registry or prometheus.CollectorRegistry()

        def counter(name: str, help: str, *labels: str) -> prometheus.Counter:
            return prometheus.Counter(f"fingerprint_web_{name}", help, labels, registry=registry)

        self._refused = counter("rejected_requests", "Requests that were rejected, by reason.", "reason")
        self._exports = counter("exports", "Exports of alerts by format, complete or aborted.", "format")
        self._exported = counter("exported_alerts", "Alerts that were exported.")
        self._read = counter("records_read", "Raw records that were shown.")
        for reason in REFUSAL_REASONS:
            self._refused.labels(reason)
        for each in COUNTED_FORMATS:
            self._exports.labels(each)
        self._now, self._lock, self._window_start = now, Lock(), now()
        self._key = secrets.token_bytes(32)
        self._written: Counter[tuple[Any, ...]] = Counter()
        self._omitted: dict[tuple[str, str, str], Counter[str]] = {}

    def record_refusal(self, reason: str, event: SecurityEvent) -> None:
        """Count a refusal and write its line."""
        self._refused.labels(reason).inc()
        self.write(replace(event, outcome="refused", reason=reason))

    def record_export(self, format: str, rows: int, event: SecurityEvent) -> None:
        """Count an export and write its line."""
        self._exports.labels(format).inc()
        self._exported.inc(rows)
        self.write(replace(event, detail={**event.detail, "format": format, "rows": rows}))

    def record_raw_reads(self, records: int, event: SecurityEvent) -> None:
        """Count raw records that were shown and write their line."""
        self._read.inc(records)
        self.write(replace(event, outcome="allowed", detail={**event.detail, "records": records}))

    def write(self, event: SecurityEvent) -> None:
        """Write the line if the window has room for it; otherwise count it as left out."""
        self.rotate_window()
        with self._lock:
            written = self._admit(event)
        if written:
            _log_line(event.outcome == "refused", f"{event.event} {event.outcome}", event.fields())

    def rotate_window(self, final: bool = False) -> None:
        """Begin a new window if this one is over (`final`: at once), and report the lines left out of it."""
        with self._lock:
            now = self._now()
            if not final and now - self._window_start < LINE_WINDOW_SECONDS:
                return
            self._window_start, left_out, self._omitted = now, self._omitted, {}
            self._written.clear()
        for fields in _summaries(left_out):
            _log_line(True, "security events left out", fields)

    def name_digest(self, name: str) -> str:
        """Return a digest (16 characters) of an entered login name, the same for the same name while this program runs.

        The key is random, because people type passwords into the name's field, and a digest without a key could be guessed.
        """
        text = name.strip().lower().encode(errors="surrogatepass")
        return blake2b(text, key=self._key, digest_size=8).hexdigest()

    def _admit(self, event: SecurityEvent) -> bool:
        kind, source = event.kind, event.source
        known = event.outcome == "allowed" and bool(
            event.who
        )  # so that noise cannot displace people's actions
        if (known or self._written[kind] < LINES_PER_KIND) and self._written[kind, source] < LINES_PER_SOURCE:
            self._written.update([kind, (kind, source)])
            return True
        counts = self._omitted.setdefault(kind, Counter())
        counts[source if source in counts or len(counts) < MAX_SOURCES else "others"] += 1
        return False


def annotate_request(scope: Any, **facts: str) -> None:
    """Add facts to the security event of a request (written by `SecurityEventMiddleware`): `event`, `reason`, `cause`, `name`."""
    scope.setdefault("state", {}).setdefault("security", {}).update(facts)


def network_prefix(address: str) -> str:
    """Return the address, or for IPv6 its /64 network, because one client may use all addresses of the network."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address[:64]
    return str(ip_network((parsed, 64), strict=False)) if isinstance(parsed, IPv6Address) else str(parsed)


def _summaries(omitted: Mapping[tuple[str, str, str], Counter[str]]) -> Iterator[dict[str, Any]]:
    for (event, outcome, reason), counts in omitted.items():
        most = [
            f"{source[:MAX_LOG_TEXT_LENGTH]}: {count}" for source, count in counts.most_common(SOURCES_LISTED)
        ]
        yield {
            "event": event,
            "outcome": outcome,
            "reason": reason,
            "left_out": counts.total(),
            "sources": len(counts),
            "most": most,
        }


def _log_line(warns: bool, message: str, fields: Mapping[str, Any]) -> None:
    renamed = {"_event" if name == "event" else name: value for name, value in fields.items()}
    log.log(logging.WARNING if warns else logging.INFO, message, **renamed)
