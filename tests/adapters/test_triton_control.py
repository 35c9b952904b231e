"""The control of a Triton server, with answers made by hand; tests/system/test_triton.py asks a real one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from tritonclient.utils import InferenceServerException

from fingerprint.adapters.triton import client
from fingerprint.adapters.triton.client import ModelControl
from fingerprint.core import settings
from fingerprint.core.errors import FingerprintError, ServerUnavailable


@pytest.fixture
def control(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelControl]:
    monkeypatch.setattr(client, "SETTLE_POLL_SECONDS", 0.0)
    with closing(ModelControl(settings.Triton(url="localhost:1"))) as opened:
        yield opened


def fail(message: str) -> Any:
    def load_model(*_: object, **__: object) -> None:
        raise InferenceServerException(message)

    return load_model


def test_a_refused_load_returns_once_the_server_has_unloaded_what_it_loaded_for_nothing(
    control: ModelControl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A load before that may crash it."""
    states = [
        {1: "READY", 2: "UNLOADING"},
        {1: "READY", 2: "LOADING"},
        {1: "READY", 2: "UNAVAILABLE"},
        {1: "LOADING"},
    ]
    monkeypatch.setattr(control.client, "load_model", fail("bank is damaged"))
    monkeypatch.setattr(control, "version_states", lambda: states.pop(0))
    with pytest.raises(FingerprintError, match="damaged"):
        control.load_model()
    assert states == [{1: "LOADING"}]


def test_it_waits_neither_for_ever_nor_for_a_server_that_is_away(
    control: ModelControl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "SETTLE_SECONDS", 0.01)
    monkeypatch.setattr(control, "version_states", lambda: {2: "UNLOADING"})
    monkeypatch.setattr(control.client, "load_model", fail("bank is damaged"))
    with pytest.raises(FingerprintError, match="damaged"):
        control.load_model()
    monkeypatch.setattr(control, "version_states", lambda: pytest.fail("it is asked nothing more"))
    monkeypatch.setattr(control.client, "load_model", fail("failed to connect to all addresses"))
    with pytest.raises(ServerUnavailable):
        control.load_model()
