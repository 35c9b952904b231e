"""Progress of a live simulation, in a file: a restarted program goes on with the first step that is not done.

Example:
    >>> steps = ProgressFile(Path("demo"), {"principals": 40, "days": 20, "attacks": 4, "seed": 7})
    >>> steps.record("until", "2026-03-18")
    >>> "until" in ProgressFile(Path("demo"), {"principals": 40, "days": 20, "attacks": 4, "seed": 7})
    True
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fingerprint.core.errors import FingerprintError


class ProgressFile:
    """The finished steps, in a file: `until`, `past`, `bank`, `rest`, in this order.

    `organisation` are the options of the simulation. Raise FingerprintError if the folder has another simulation.
    """

    def __init__(self, folder: Path, organisation: Mapping[str, Any]) -> None:
        self._file = folder / "progress.json"
        self._done: dict[str, Any] = _read(self._file) or dict(organisation)
        before = {name: self._done.get(name) for name in organisation}
        if before != dict(organisation):
            content = ", ".join(f"--{name} {value}" for name, value in before.items())
            raise FingerprintError(
                f"{folder} holds another live simulation ({content}): name another --folder, or remove it"
            )

    def __contains__(self, what: str) -> bool:
        return what in self._done

    def record(self, what: str, value: Any) -> None:
        """Record a step atomically."""
        self._done[what] = value
        staged = self._file.with_suffix(".tmp")
        staged.write_text(json.dumps(self._done) + "\n")
        staged.replace(self._file)

    def figures(self) -> dict[str, Any]:
        """Return the figures of the steps that are done."""
        return {"folder": str(self._file.parent), **self._done}


def _read(file: Path) -> dict[str, Any] | None:
    try:
        content = json.loads(file.read_text())
    except FileNotFoundError:
        return None
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise FingerprintError(
            f"{file} is no progress file of a live simulation: remove {file.parent}, or name another --folder"
        )
    return content
