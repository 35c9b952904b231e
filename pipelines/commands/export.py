"""Alerts as a file for other systems: `fingerprint alerts export`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import BinaryIO

from fingerprint.core.alert import FingerprintError
from fingerprint.delivery.formats import encode_export
from fingerprint.delivery.notification import Notification
from fingerprint.store import SqlStore, open_store


def export_alerts(database_url: str, format: str, out: Path | None = None) -> int:
    """Write every alert of the desk, the most urgent first, to a file or to standard output; how many. FingerprintError where
    there is no desk, or the file cannot be written."""
    with closing(open_store(database_url, create=False)) as desk, _open_atomic(out) as file:
        told = CountedNotifications(desk, raw=format == "jsonl")
        for piece in encode_export(format, told):
            file.write(piece)
    return told.count


class CountedNotifications:
    """The alerts of a desk, few of them in memory at a time; how many there were."""

    def __init__(self, store: SqlStore, raw: bool) -> None:
        self.store, self.raw, self.count = store, raw, 0

    def __iter__(self) -> Iterator[Notification]:
        for alert, said in self.store.evidence.iterate_full_alerts(self.raw):
            self.count += 1
            yield Notification(alert, "new", said)


@contextmanager
def _open_atomic(out: Path | None) -> Iterator[BinaryIO]:
    """A file that appears when it is complete; what was there stays if it is not."""
    if out is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    staged = out.with_name(f".{out.name}.partial")
    try:
        with staged.open("wb") as file:
            yield file
        staged.replace(out)
    except OSError as error:
        raise FingerprintError(f"{out} cannot be written: {error.strerror or error}") from None
    finally:
        staged.unlink(missing_ok=True)
