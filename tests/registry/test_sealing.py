"""Of a bank's folder only plain files are read, however often they are asked for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fingerprint.core.errors import FingerprintError
from fingerprint.registry.sealing import VerifiedFolder


def test_a_pipe_is_refused_each_time(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    files = VerifiedFolder(tmp_path)
    for _ in range(2):
        with pytest.raises(FingerprintError, match="no plain file"):
            files.descriptor("pipe")
