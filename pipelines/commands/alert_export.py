"""Every alert as a file, in the formats of delivery: `fingerprint alerts export`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO

from fingerprint.adapters.output_files import staged_output
from fingerprint.core.address import NO_ADDRESS_TABLES, AddressTables
from fingerprint.core.errors import FingerprintError
from fingerprint.delivery.formats import encode_export
from fingerprint.delivery.notification import Notification
from fingerprint.store import SqlStore, open_store
from fingerprint.web.session_origin import with_origin


def export_alerts(
    database_url: str, format: str, out: Path | None = None, addresses: AddressTables = NO_ADDRESS_TABLES
) -> int:
    """Write every alert, most urgent first, to a file or to standard output; return their number.

    Raises FingerprintError if there is no database, or the file cannot be written.
    """
    with closing(open_store(database_url, create=False)) as store, _open_atomic(out) as file:
        notifications = CountedNotifications(store, addresses)
        for piece in encode_export(format, notifications):
            file.write(piece)
    return notifications.count


class CountedNotifications:
    """Iterate over the alerts of a database, few of them in memory at a time, and count them."""

    def __init__(self, store: SqlStore, addresses: AddressTables) -> None:
        self.store, self.addresses, self.count = store, addresses, 0

    def __iter__(self) -> Iterator[Notification]:
        for alert, disposition in self.store.evidence.iterate_full_alerts():
            self.count += 1
            whole, origin = with_origin(self.store, alert)
            records = partial(self.store.evidence.records, alert.alert_id)
            yield Notification(
                whole, "new", disposition, tables=self.addresses, origin=origin, read_records=records
            )


@contextmanager
def _open_atomic(out: Path | None) -> Iterator[BinaryIO]:
    """Open a file that appears when complete; an earlier file stays if it is not. Devices and pipes are written as they are."""
    if out is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        with staged_output(out) as staged, staged.open("wb") as file:
            yield file
    except OSError as error:
        raise FingerprintError(f"{out} cannot be written: {error.strerror or error}") from None
