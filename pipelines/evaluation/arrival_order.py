"""A history that remembers in which order its records were read."""

from __future__ import annotations

import pandas as pd

from fingerprint.adapters.event_spool import EventSpool


class ArrivalOrderSpool(EventSpool):
    """Its events have a further column, `arrival`: a number that grows from record to record, int64."""

    records_seen = 0

    def __enter__(self) -> ArrivalOrderSpool:
        return self

    def _spill_with_networks(self, named: pd.DataFrame, lines: list[bytes]) -> None:
        super()._spill_with_networks(
            named.assign(arrival=self.records_seen + named["row"].astype("int64")), lines
        )
        self.records_seen += len(lines)
