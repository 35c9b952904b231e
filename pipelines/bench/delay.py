"""How long after an event was produced the alert that it made is in the alerts topic.

A paced producer sends a stream with attacks in it, `fingerprint stream` scores it, both as processes of their own. Each time an
alert is told, its delay is the broker's time of the alert minus the producer's time of the newest of its events that was not
told before: so a first telling is timed from the event that made it, or one before (an event that only adds to the count of an
interval is in no alert), which can only make the delay longer. A telling without news is not counted. Both times are those of
the messages themselves, on one machine's clock.
"""

from __future__ import annotations

import json
import re
import signal
from typing import NamedTuple

import numpy as np

from fingerprint.adapters.system import SystemClock
from fingerprint.core.ports import Message
from pipelines.bench.broker import BenchmarkStream, free_port, process_figures, wait_until_ready

IDLE_SECONDS = 3.0  # seconds after the last record was sent in which the last alerts are told
_EVENT_ID = re.compile(rb'"eventID":\s*"([^"]*)"')


class Delays(NamedTuple):
    """Seconds; `told` is how many tellings they are of."""

    median: float
    p99: float  # the 99th percentile
    alerts: int


def measure_delays(topics: BenchmarkStream, files: list[str], rate: float) -> Delays:
    """Send the files' records at `rate` a second to a scorer that is ready."""
    stream = BenchmarkStream(topics.address, "delays", topics.bank, topics.folder).create()
    port = free_port()
    scorer = stream.score(group="delays", port=port)
    wait_until_ready(port, scorer)
    process_figures(stream.send(files, rate))
    SystemClock().sleep(IDLE_SECONDS)
    scorer.send_signal(signal.SIGTERM)
    process_figures(scorer)
    produced: dict[str, int] = {}
    for messages in stream.read("events", "confluent", "produced"):
        for message in messages:
            if found := _EVENT_ID.search(message.value or b""):
                produced.setdefault(found[1].decode(), message.timestamp)  # a repeat makes nothing
    told = [message for messages in stream.read("alerts", "confluent", "told") for message in messages]
    seconds = alert_delays(told, produced)
    return Delays(float(np.median(seconds)), float(np.quantile(seconds, 0.99)), len(seconds))


def alert_delays(alert_messages: list[Message], produced: dict[str, int]) -> list[float]:
    """Seconds of each telling that has news; `told` in the order of the topic, `produced` in ms by event id."""
    before: dict[str, set[str]] = {}
    out = []
    for message in alert_messages:
        alert = json.loads(message.value or b"")
        known = before.setdefault(alert["alert_id"], set())
        news = {event["event_id"] for event in alert["events"]} - known
        known |= news
        if news:
            out.append((message.timestamp - max(produced[each] for each in news)) / 1000)
    return out
