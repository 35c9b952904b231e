"""What one process, left in peace, makes of what a deployment was sent: the alert store that it is compared with.

Example:
    >>> alone(folder)       # with the simulated days somewhere in it, and the bank that judged them in `bank`
    {'71abf0b0d5cf10eb': {'2f6d...', ...}}
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from fingerprint.store import open_store
from pipelines.simulate import training_days


def alone(folder: Path) -> dict[str, set[str]]:
    """Events by alert, of the days that the bank has not learned."""
    store = f"sqlite:///{folder / 'alerts.sqlite'}"
    days = sorted(str(each) for each in folder.rglob("*.jsonl.gz"))
    command = [sys.executable, "-m", "pipelines.cli", "score", *days[training_days(len(days)) :]]
    subprocess.run([*command, "--bank", str(folder / "bank"), "--database", store], check=True, cwd=folder)
    return {each.alert_id: set(each.event_ids) for each in open_store(store).alerts.by_urgency()}
