"""Records of calls as JSON lines: the template of each call, filled in with caller, time, place and ids.

A record depends on its call alone, so a call that is written twice gives the same bytes, as a repeated delivery does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fingerprint.simulation.api_calls import CallerSession, Calls
from fingerprint.simulation.identifiers import POOL_MASK
from fingerprint.simulation.record_templates import RecordTemplate

_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_DIGITS = np.array([i for i in range(36) if i not in (8, 13, 18, 23)])
_BASE36 = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def to_uuids(raw: NDArray[np.uint8]) -> list[str]:
    """Return n UUIDs in hexadecimal, from sixteen random bytes each (n, 16)."""
    text = np.full((len(raw), 36), ord("-"), np.uint8)
    text[:, _DIGITS] = _HEX[np.stack([raw >> 4, raw & 15], axis=2).reshape(len(raw), 32)]
    whole = text.tobytes().decode()
    return [whole[i : i + 36] for i in range(0, len(whole), 36)]


def render_records(
    calls: Calls,
    sessions: Sequence[CallerSession],
    forms: Sequence[RecordTemplate],
    midnight: np.datetime64,
    event: list[str],
    request: list[str],
) -> Iterator[str]:
    """Yield the record of each of n calls as JSON text with a newline.

    `event` and `request` have the id of each call's event and of its request; the day begins at `midnight` (UTC).
    """
    stamps = np.datetime_as_string(
        midnight + calls.time.astype("timedelta64[s]"), unit="s", timezone="UTC"
    ).tolist()
    rows = zip(
        calls.form.tolist(), calls.session.tolist(), calls.salt.tolist(), stamps, event, request, strict=True
    )
    for number, who, salt, stamp, event_id, request_id in rows:
        yield _render_record(forms[number], sessions[who], salt, stamp, event_id, request_id)


def _render_record(
    form: RecordTemplate, session: CallerSession, salt: int, stamp: str, event_id: str, request_id: str
) -> str:
    fixed, pools, shift = session.values, session.pools, session.salt + salt
    if form.dated:
        fixed = fixed | _date_values(stamp)
    filled: list[Any] = [
        fixed[kind] if kind in fixed else pools[kind][(which + shift) & POOL_MASK]
        for kind, which in form.placeholders
    ]
    region = form.region or session.region
    direct = session.address[-1].isdigit()
    middle = (
        f',"sharedEventID":"{event_id[::-1].replace("-", "")[:8]}{event_id[8:]}"' if session.shared else ""
    )
    if session.endpoint:
        middle += f',"vpcEndpointId":"{session.endpoint}"'
    tls = form.tls_details(region) if direct else ""
    tail = ',"sessionCredentialFromConsole":"true"' if session.console else tls
    return form.template % (
        session.identity,
        stamp,
        region,
        session.address,
        session.user_agent.render(form.service, form.name),
        *filled[: form.split],
        _request_member(form, request_id),
        event_id,
        *filled[form.split :],
        fixed["account"],
        middle,
        tail,
    )


def _request_member(form: RecordTemplate, request_id: str) -> str:
    if form.service == "s3":
        return "".join([_BASE36[int(c, 16) * 2 + 1] for c in request_id[:8] + request_id[24:32]])
    return request_id if form.has_request_id else ""


def _date_values(stamp: str) -> dict[str, str]:
    when = datetime.fromisoformat(stamp)
    return {
        "iso": stamp[:19],
        "when": f"{when:%b} {when.day}, {when.year}, {when.hour % 12 or 12}:{when:%M:%S %p}",
    }
