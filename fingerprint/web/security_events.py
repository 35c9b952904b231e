"""Security events of the web port: one JSON line each, and counters without names.

Example:
    >>> events = SecurityEvents()
    >>> events.refused("host", SecurityEvent("request", address="198.51.100.9", request_id="5f0c27aa01b6d3e4"))
    {... "logger": "fingerprint.security", "message": "request refused", "event": "request", "outcome": "refused", "why": "host",
     "who": "", "address": "198.51.100.9", "method": "", "route": "", "status": 0, "request_id": "5f0c27aa01b6d3e4"}

Every line has the same fields; some have more (docs/reference/metrics.md). Texts are cut to LONGEST characters, and
`edges/logs.py` escapes
control characters. Lines are bounded, so that nobody fills the disk: PER_SOURCE lines of a kind and source and PER_KIND of a kind
in each window of SECONDS. What is left out is counted in one line when the window is over. Counters count everything.
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

REFUSAL_REASONS = (  # every value of the label `why`
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
MAX_SOURCES = 10_000  # that are counted one by one; further ones together
SOURCES_LISTED = 20  # sources that the line about what was left out names
MAX_LOG_TEXT_LENGTH = 300  # characters of one text

log = logging.getLogger("fingerprint.security")


@dataclass(frozen=True, slots=True)
class SecurityEvent:
    """One line. `event`: login, password, request, account, export, read. `route` is the template, never the path."""

    event: str
    outcome: str = ""
    why: str = ""
    who: str = ""
    address: str = ""
    method: str = ""
    route: str = ""
    status: int = 0
    request_id: str = ""
    detail: Mapping[str, str | int] = field(default_factory=dict)

    @property
    def kind(self) -> tuple[str, str, str]:
        return self.event, self.outcome, self.why

    @property
    def source(self) -> str:
        """Whose lines are counted together: a person's, or those of an address."""
        return self.who or network_prefix(self.address)

    def fields(self) -> dict[str, str | int]:
        """The line's own part, every text cut."""
        said = asdict(self)
        detail: dict[str, Any] = said.pop("detail")
        return {
            name: value[:MAX_LOG_TEXT_LENGTH] if isinstance(value, str) else value
            for name, value in {**detail, **said}.items()
        }


class SecurityEventLog:
    """Writes lines and counts. May be used from several threads."""

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
        for why in REFUSAL_REASONS:
            self._refused.labels(why)
        for each in COUNTED_FORMATS:
            self._exports.labels(each)
        self._now, self._lock, self._window_start = now, Lock(), now()
        self._key = secrets.token_bytes(32)
        self._written: Counter[tuple[Any, ...]] = Counter()
        self._omitted: dict[tuple[str, str, str], Counter[str]] = {}

    def record_refusal(self, why: str, event: SecurityEvent) -> None:
        """Count a refusal and write its line."""
        self._refused.labels(why).inc()
        self.write(replace(event, outcome="refused", why=why))

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
        """Write the line, if there is room for it in this window; count it otherwise."""
        self.rotate_window()
        with self._lock:
            written = self._admit(event)
        if written:
            _log_line(event.outcome == "refused", f"{event.event} {event.outcome}", event.fields())

    def rotate_window(self, final: bool = False) -> None:
        """Begin another window once this one is over (`last`: now), and say what was left out of it."""
        with self._lock:
            now = self._now()
            if not final and now - self._window_start < LINE_WINDOW_SECONDS:
                return
            self._window_start, left_out, self._omitted = now, self._omitted, {}
            self._written.clear()
        for fields in _summaries(left_out):
            _log_line(True, "security events left out", fields)

    def name_digest(self, name: str) -> str:
        """16 letters for a name that somebody typed, the same for the same name while this program runs.

        The key is random: people type passwords into the field of the name, and a plain digest could be guessed."""
        text = name.strip().lower().encode(errors="surrogatepass")
        return blake2b(text, key=self._key, digest_size=8).hexdigest()

    def _admit(self, event: SecurityEvent) -> bool:
        kind, source = event.kind, event.source
        known = event.outcome == "allowed" and bool(
            event.who
        )  # nobody else's noise pushes out what people do
        if (known or self._written[kind] < LINES_PER_KIND) and self._written[kind, source] < LINES_PER_SOURCE:
            self._written.update([kind, (kind, source)])
            return True
        counts = self._omitted.setdefault(kind, Counter())
        counts[source if source in counts or len(counts) < MAX_SOURCES else "others"] += 1
        return False


def annotate_request(scope: Any, **facts: str) -> None:
    """Add facts to the line of a request, whatever becomes of it (`watch.Watch` writes it): `event`, `why`, `name`."""
    scope.setdefault("state", {}).setdefault("security", {}).update(facts)


def network_prefix(address: str) -> str:
    """The address; of IPv6 the network of 64 bits, since whoever has one address there has all."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address[:64]
    return str(ip_network((parsed, 64), strict=False)) if isinstance(parsed, IPv6Address) else str(parsed)


def _summaries(omitted: Mapping[tuple[str, str, str], Counter[str]]) -> Iterator[dict[str, Any]]:
    for (event, outcome, why), counts in omitted.items():
        most = [
            f"{source[:MAX_LOG_TEXT_LENGTH]}: {count}" for source, count in counts.most_common(SOURCES_LISTED)
        ]
        yield {
            "event": event,
            "outcome": outcome,
            "why": why,
            "left_out": counts.total(),
            "sources": len(counts),
            "most": most,
        }


def _log_line(warns: bool, message: str, fields: Mapping[str, Any]) -> None:
    log.log(logging.WARNING if warns else logging.INFO, message, extra={"fields": dict(fields)})
