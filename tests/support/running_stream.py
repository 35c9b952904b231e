"""A stream that runs in the test's own process, turn by turn, while banks come and go."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from fingerprint.detection.detectors.autoencoder.evidence import FINGERPRINT_TAIL, RARE_NATS, feature_surprise
from fingerprint.detection.inference import LocalInference
from fingerprint.estimators import autoencoder
from fingerprint.features.encoding import DAY_COUNTS
from fingerprint.registry import versions
from fingerprint.registry.bank import Bank
from fingerprint.registry.versions import VersionDecision
from fingerprint.state.event_batch import EventBatch
from fingerprint.streaming.stream_service import StreamService
from tests.support.stream_environment import Place, Records

PATIENCE = 600  # turns


def serve(place: Place, version: str) -> None:
    versions.serve_version(place.bank, version, VersionDecision("publish"))


class Live:
    """A stream that runs in this process, as far as it is let."""

    def __init__(self, place: Place, program: StreamService) -> None:
        self.place, self.program, self.sent = place, program, 0

    def read(self, records: Records) -> None:
        """Send, and let it read all of that."""
        self.place.send(records)
        self.sent += len(records)
        self.until(lambda: sum(kept.offset for kept in self.program.owned.values()) == self.sent)

    def until(self, condition: Callable[[], bool]) -> None:
        for _ in range(PATIENCE):
            self.program.run_once(0.02)
            if condition():
                return
        raise AssertionError(f"did not come to pass in {PATIENCE} turns")

    def judged_by(self) -> set[str]:
        return {kept.processor.bank.version for kept in self.program.owned.values()}

    def waiting(self) -> Iterator[tuple[str, EventBatch]]:
        """The events that wait, by the version that measured them."""
        for kept in self.program.owned.values():
            for part in kept.processor.pipeline.state.pending.parts:
                for version in part.frame["bank_version"].unique():
                    yield str(version), part.take(np.flatnonzero(part.frame["bank_version"] == version))

    def shown(self) -> set[str]:
        """What the metric says."""
        (metric,) = self.program.metrics.bank.collect()
        return {sample.labels["version"] for sample in metric.samples if sample.value == 1}


@contextmanager
def live(place: Place, **adapters: Any) -> Iterator[Live]:
    with place.consumer() as consumer, place.producer() as producer:
        program = place.program(consumer, producer, **adapters)
        consumer.subscribe([place.settings.kafka.events_topic], program.assigned, program.revoked)
        yield Live(place, program)
        program.commit()


def ids_of(records: Records, seen: Records | None = None) -> set[str]:
    """Of events that did not come before: CloudTrail delivers some twice."""
    ids, before = ({json.loads(value)["eventID"] for _, value in part} for part in (records, seen or []))
    return ids - before


def measured_by(bank: Bank, batch: EventBatch) -> None:
    """The evidence of events is that of a bank, whole."""
    whole = bank.whole[batch.fingerprint]
    levels = (batch.fingerprint, np.where(whole >= 0, whole, batch.fingerprint))
    loss, known = zip(*(LocalInference(bank).losses(level, batch.codes) for level in levels), strict=True)
    surprise = [
        autoencoder.surprise_per_feature(each, bank.baseline.center, level)
        for each, level in zip(loss, levels, strict=True)
    ]
    found, tail = feature_surprise(batch), batch.evidence["autoencoder"][:, FINGERPRINT_TAIL]
    # Unknown and rare values are less surprising if they came before; the principal is only asked about rows with an odd value.
    usual = known[0] & (np.maximum(*loss) < RARE_NATS)
    for count, counted in DAY_COUNTS:  # is judged beside what it counts
        usual[:, count] &= usual[:, counted].all(axis=1)
    away = np.minimum(*(np.abs(found - each) for each in (surprise[0], np.minimum(*surprise))))
    np.testing.assert_allclose(away[usual], 0, atol=1e-4)
    assert (found <= surprise[0] + 1e-4).all()
    usual = bank.baseline
    for column, each in enumerate((usual.rate, usual.edge, usual.slope, bank.shift)):
        np.testing.assert_array_equal(tail[:, column], each[batch.fingerprint])
