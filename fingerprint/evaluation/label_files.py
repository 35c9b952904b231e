"""Labels in a file: JSON lines that say of some events what they were; beside the records, or named.

Example:
    >>> read_labels(["data/real/invictus_stratus"])[0]["label"]
    'attack_setup'
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from fingerprint.core.alert import FingerprintError

LABEL_FILES = ("labels.jsonl", "labels.jsonl.gz")
BENIGN_ANOMALY_FILES = ("labels.surprises.jsonl", "labels.surprises.jsonl.gz")


def read_labels(sources: list[str], file: Path | None = None) -> list[dict[str, Any]]:
    """The labels of `file`, or those beside the records of every source.

    Raises FingerprintError where there are none or a line is no object.
    """
    found = [file] if file else [path for source in sources for path in _files_beside(Path(source))]
    if not found:
        raise FingerprintError(
            f"no {LABEL_FILES[0]} in {', '.join(sources)}: evaluating needs to know the attacks"
        )
    return [label for path in dict.fromkeys(found) for label in _read_json_lines(path)]


def read_benign_anomalies(sources: list[str]) -> list[dict[str, Any]]:
    """What harmless surprises there were, and whom they befell, where a file beside the records says so."""
    found = [path for source in sources for path in _files_beside(Path(source), BENIGN_ANOMALY_FILES)]
    return [surprise for path in dict.fromkeys(found) for surprise in _read_json_lines(path)]


def _files_beside(source: Path, names: tuple[str, ...] = LABEL_FILES) -> list[Path]:
    folder = source if source.is_dir() else source.parent
    return [folder / name for name in names if (folder / name).is_file()]


def _read_json_lines(file: Path) -> list[dict[str, Any]]:
    try:
        text = file.read_bytes()
        text = gzip.decompress(text) if text.startswith(b"\x1f\x8b") else text
        labels = [json.loads(line) for line in text.splitlines() if line.strip()]
    except (OSError, EOFError, ValueError) as error:
        raise FingerprintError(f"labels {file} cannot be read: {error}") from None
    if not all(isinstance(label, dict) for label in labels):
        raise FingerprintError(f"labels {file}: every line must be a JSON object")
    return labels
