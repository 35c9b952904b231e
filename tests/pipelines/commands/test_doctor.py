"""`fingerprint doctor` on tables of addresses, on receivers of alerts and on full disks."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from fingerprint.core.settings import Enrichment, Settings, load_settings
from fingerprint.store import open_store
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


def delivery(settings: Settings, url: str) -> doctor.Finding:
    return doctor._run(lambda: doctor.check_delivery(settings, url))


def test_a_receiver_has_its_secret_and_a_program_that_delivers_to_it(tmp_path: Path) -> None:
    url, secret = f"sqlite:///{tmp_path}/alerts.sqlite", tmp_path / "url"
    assert delivery(Settings(), url).status == "ok"
    settings = load_settings(environment={"FINGERPRINT_DELIVER__SOC__URL_FILE": str(secret)})
    missing = delivery(settings, url)
    assert (missing.status, "deliver.soc" in missing.finding) == ("fail", True)
    secret.write_text("https://hooks.example.com/x")
    secret.chmod(0o600)
    idle = delivery(settings, url)
    assert (idle.status, idle.finding) == ("warn", "no program has delivered to soc yet")
    assert "web.run_delivery" in idle.remedy
    with closing(open_store(url)) as store:
        store.outbox.register_receiver("soc", settings.deliver["soc"])
    assert delivery(settings, url).status == "ok"


def test_a_folder_without_room_is_a_warning_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = {tmp_path: 10 << 30}
    monkeypatch.setattr(
        doctor.shutil, "disk_usage", lambda folder: SimpleNamespace(free=free.get(Path(folder), 50 << 30))
    )
    assert doctor.check_disk(Settings(), tmp_path).status == "ok"
    free[tmp_path] = 1 << 20
    full = doctor.check_disk(Settings(), tmp_path)
    assert (full.status, str(tmp_path) in full.finding) == ("warn", True)
