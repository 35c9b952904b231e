"""Export of all alerts to a file, in the formats of delivery: `fingerprint alerts export`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import BinaryIO

from fingerprint.adapters.output_files import staged_output
from fingerprint.core.address import NO_ADDRESS_TABLES, AddressTables
from fingerprint.core.errors import FingerprintError
from fingerprint.delivery.formats import encode_export
from fingerprint.store import open_store
from fingerprint.store.evidence import AlertWithDisposition
from fingerprint.web.session_origin import export_notifications


def export_alerts(
    database_url: str, format: str, out: Path | None = None, addresses: AddressTables = NO_ADDRESS_TABLES
) -> int:
    """Write every alert, most urgent first, to a file or to standard output; return their number.

    Raises FingerprintError if there is no database, or the file cannot be written.
    """
    with closing(open_store(database_url, create=False)) as store, _open_atomic(out) as file:
        found = CountedAlerts(store.evidence.iterate_full_alerts())
        for piece in encode_export(format, export_notifications(store, found, addresses)):
            file.write(piece)
    return found.count


class CountedAlerts:
    """An iterable of alerts that counts them."""

    def __init__(self, found: Iterable[AlertWithDisposition]) -> None:
        self.found, self.count = found, 0

    def __iter__(self) -> Iterator[AlertWithDisposition]:
        for each in self.found:
            self.count += 1
            yield each


@contextmanager
def _open_atomic(out: Path | None) -> Iterator[BinaryIO]:
    """Open a file that replaces an earlier one only when it is complete. Devices and pipes are written directly."""
    if out is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        with staged_output(out) as staged, staged.open("wb") as file:
            yield file
    except OSError as error:
        raise FingerprintError(f"{out} cannot be written: {error.strerror or error}") from None
