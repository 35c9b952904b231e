"""A small real set: the events of five principals."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import pytest


def record(name: str, number: int, kind: str = "user") -> dict[str, Any]:
    """A row of a set's events: call `number`, a minute after the one before."""
    raw = {
        "eventID": f"{name}-{number}",
        "eventName": f"Call{number}",
        "userIdentity": {"userName": name},
        "recipientAccountId": name,
        "sourceIPAddress": f"of {name}",
    }
    return {
        "event_id": f"{name}-{number}",
        "principal": name,
        "kind": kind,
        "seconds": 60 * number,
        "raw": json.dumps(raw),
    }


@pytest.fixture
def events() -> pd.DataFrame:
    """Ann and a robot all the time, Bob first, Cy later, and a service, which cannot be stolen."""
    spans = {"ann": range(100), "robot": range(100), "bob": range(50), "cy": range(70, 100), "s3": range(100)}
    rows = [
        record(name, number, {"robot": "role", "s3": "service"}.get(name, "user"))
        for name, span in spans.items()
        for number in span
    ]
    return pd.DataFrame(rows).sort_values("seconds", kind="stable", ignore_index=True)
