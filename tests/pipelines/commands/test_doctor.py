"""`fingerprint doctor` on tables of addresses."""

from __future__ import annotations

import os
from pathlib import Path

from fingerprint.core.settings import Enrichment
from pipelines.commands import doctor


def checked(options: Enrichment) -> doctor.Finding:
    return doctor._run(lambda: doctor.check_enrichment(options))


def test_a_table_of_addresses_is_there_or_old_or_missing(tmp_path: Path) -> None:
    assert checked(Enrichment()).status == "ok"
    file = tmp_path / "vpn.csv"
    missing = checked(Enrichment(known_ranges_files=(str(file),)))
    assert (missing.status, str(file) in missing.finding) == ("fail", True)
    file.write_text("198.51.100.0/24,VPN\n")
    assert checked(Enrichment(known_ranges_files=(str(file),))).status == "ok"
    os.utime(file, (0, 0))
    old = checked(Enrichment(known_ranges_files=(str(file),)))
    assert (old.status, old.remedy) == ("warn", "fetch newer tables")
