"""Rows of second factors: codes of an authenticator app (TOTP, RFC 6238), passkeys (WebAuthn), and recovery codes.

Example:
    >>> codes = add_totp_factor(connection, now, row, "telephone", secret, "492039")     # recovery codes, with the first factor
    >>> verify_second_factor(connection, now, row, SecondFactorResponse(code="105721"), challenge="")
    'code'

- A code is valid in its half minute and the two beside it, and only once: the time step of the last used code is stored.
- A passkey's answer is valid only for the challenge that it was asked with.
- A recovery code is 80 random bits, stored as a digest and valid once.

An app's secret is stored in clear, because codes are computed from it. The database is readable by its owner alone.
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
from base64 import b32encode
from datetime import datetime
from typing import Any
from uuid import uuid4

import pyotp
import sqlalchemy as sql
from webauthn import (
    generate_authentication_options,
    generate_registration_options,
    options_to_json,
    verify_authentication_response,
    verify_registration_response,
)
from webauthn.helpers import base64url_to_bytes, bytes_to_base64url
from webauthn.helpers.exceptions import WebAuthnException
from webauthn.helpers.structs import PublicKeyCredentialDescriptor

from fingerprint.core.account import FactorKind, ProofKind, RelyingParty, SecondFactor, SecondFactorResponse
from fingerprint.core.errors import FingerprintError, NotFound
from fingerprint.core.sanitize import storable
from fingerprint.store import secret_hashes
from fingerprint.store.schema import Row, accounts, second_factors

MAX_FACTORS = 10  # of one person
MAX_LABEL_LENGTH = 60  # characters
TOTP_STEP_SECONDS = 30  # seconds that a code is shown for
TOTP_STEP_OFFSETS = (0, -1, 1)  # steps by which a clock may be off
RECOVERY_CODE_COUNT = 10
TOTP_SECRET_PATTERN = re.compile(r"[A-Z2-7]{32}")  # 160 bits, as RFC 4226 recommends
MAX_RESPONSE_LENGTH = 20_000  # characters of a passkey's answer
# Errors, besides its own, that the library raises for malicious JSON
MALFORMED_RESPONSE_ERRORS = (
    WebAuthnException,
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    IndexError,
    RecursionError,
)


def new_totp_secret() -> str:
    """Return the secret of a new authenticator app, base32."""
    return pyotp.random_base32()


def totp_uri(secret: str, name: str, title: str) -> str:
    """Return the `otpauth://` URI for the QR code of an authenticator app."""
    return pyotp.TOTP(secret).provisioning_uri(name=name, issuer_name=title)


def read_factors(connection: sql.Connection, account_id: str) -> list[SecondFactor]:
    """Return the factors of a person, the oldest first, without recovery codes."""
    names = ("factor_id", "kind", "label", "created_at", "last_used")
    return [
        SecondFactor(**{name: row[name] for name in names})
        for row in _read_factor_rows(connection, account_id)
    ]


def read_factor_kinds(connection: sql.Connection, account_id: str) -> tuple[FactorKind, ...]:
    """Return the kinds of factors that a person has."""
    return tuple(sorted({factor.kind for factor in read_factors(connection, account_id)}))


def count_recovery_codes(connection: sql.Connection, account_id: str) -> int:
    """Return the number of unused recovery codes."""
    those = (second_factors.c.account_id == account_id) & (second_factors.c.kind == "recovery")
    return connection.scalar(sql.select(sql.func.count()).select_from(second_factors).where(those)) or 0


def names_with_second_factor(connection: sql.Connection) -> frozenset[str]:
    """Return the names of accounts with a second factor."""
    joined = sql.select(accounts.c.name).join(
        second_factors, second_factors.c.account_id == accounts.c.account_id
    )
    return frozenset(connection.scalars(joined.where(second_factors.c.kind != "recovery").distinct()))


def add_totp_factor(
    connection: sql.Connection, now: datetime, row: Row, label: str, secret: str, code: str
) -> list[str]:
    """Add an authenticator app if its code is right; return recovery codes if it is the first factor."""
    if not TOTP_SECRET_PATTERN.fullmatch(secret):
        raise FingerprintError("this is no secret of an authenticator app: begin again")
    step = _matching_totp_step(secret, code, now, after=-1)
    if step is None:
        raise FingerprintError("this is not the app's code: type the one it shows now, and look at its clock")
    return _add_factor(connection, now, row, kind="code", label=label, secret=secret, counter=step)


def passkey_registration_options(
    connection: sql.Connection, row: Row, party: RelyingParty, title: str
) -> tuple[str, str]:
    """Return the options (JSON) to ask a browser for a new passkey, and the challenge in them."""
    ids = passkey_ids(connection, row["account_id"])
    options = generate_registration_options(
        rp_id=party.rp_id,
        rp_name=title,
        user_name=row["name"],
        user_id=row["account_id"].encode(),
        exclude_credentials=[PublicKeyCredentialDescriptor(base64url_to_bytes(each)) for each in ids],
    )
    return options_to_json(options), bytes_to_base64url(options.challenge)


def add_passkey_factor(
    connection: sql.Connection,
    now: datetime,
    row: Row,
    label: str,
    answer: str,
    challenge: str,
    party: RelyingParty,
) -> list[str]:
    """Add the passkey that a browser made for this challenge; return recovery codes if it is the first factor."""
    try:
        made = verify_registration_response(
            credential=_parse_response(answer),
            expected_challenge=_decode_challenge(challenge),
            expected_rp_id=party.rp_id,
            expected_origin=party.origin,
        )
    except MALFORMED_RESPONSE_ERRORS:
        raise FingerprintError("the passkey could not be added: try again") from None
    kept = {"secret": bytes_to_base64url(made.credential_public_key), "counter": made.sign_count}
    credential = bytes_to_base64url(made.credential_id)
    return _add_factor(connection, now, row, kind="passkey", label=label, credential=credential, **kept)


def passkey_request_options(
    connection: sql.Connection, account_id: str, party: RelyingParty
) -> tuple[str, str]:
    """Return the options (JSON) to ask a browser for a passkey, and the challenge in them."""
    ids = passkey_ids(connection, account_id)
    allowed = [PublicKeyCredentialDescriptor(base64url_to_bytes(each)) for each in ids]
    options = generate_authentication_options(rp_id=party.rp_id, allow_credentials=allowed)
    return options_to_json(options), bytes_to_base64url(options.challenge)


def passkey_ids(connection: sql.Connection, account_id: str) -> list[str]:
    """Return the ids of a person's passkeys, base64url."""
    return [
        row["credential"] for row in _read_factor_rows(connection, account_id) if row["kind"] == "passkey"
    ]


def verify_second_factor(
    connection: sql.Connection, now: datetime, row: Row, what: SecondFactorResponse, challenge: str
) -> ProofKind | None:
    """Return the kind of the proof, and use the proof up; None if the response proves nothing."""
    if what.passkey:
        return _verify_passkey(connection, now, row, what, challenge)
    code = re.sub(r"[\s-]", "", what.code).upper()
    return _verify_totp(connection, now, row, code) or _verify_recovery_code(connection, row, code)


def remove_factor(connection: sql.Connection, account_id: str, factor_id: str) -> SecondFactor:
    """Remove a factor, and with the last one the recovery codes. Raise NotFound if it is not the account's."""
    there = {factor.factor_id: factor for factor in read_factors(connection, account_id)}
    if factor_id not in there:
        raise NotFound("there is no such second factor")
    of_account = second_factors.c.account_id == account_id
    removed = of_account if len(there) == 1 else of_account & (second_factors.c.factor_id == factor_id)
    connection.execute(sql.delete(second_factors).where(removed))
    return there[factor_id]


def remove_all_factors(connection: sql.Connection, account_id: str) -> None:
    """Remove all factors and recovery codes of a person."""
    connection.execute(sql.delete(second_factors).where(second_factors.c.account_id == account_id))


def replace_recovery_codes(connection: sql.Connection, now: datetime, account_id: str) -> list[str]:
    """Return new recovery codes, each valid once; earlier ones become invalid."""
    those = (second_factors.c.account_id == account_id) & (second_factors.c.kind == "recovery")
    connection.execute(sql.delete(second_factors).where(those))
    codes = [b32encode(secrets.token_bytes(10)).decode() for _ in range(RECOVERY_CODE_COUNT)]
    shared = {"account_id": account_id, "kind": "recovery", "label": "", "counter": 0, "created_at": now}
    rows = [
        shared | {"factor_id": uuid4().hex, "secret": secret_hashes.secret_digest(code)} for code in codes
    ]
    connection.execute(sql.insert(second_factors), rows)
    return ["-".join(code[at : at + 4] for at in range(0, 16, 4)) for code in codes]


def _add_factor(connection: sql.Connection, now: datetime, row: Row, label: str, **more: object) -> list[str]:
    there = read_factors(connection, row["account_id"])
    if len(there) >= MAX_FACTORS:
        raise FingerprintError(f"you have {MAX_FACTORS} second factors already: remove one first")
    named = storable(label.strip())[:MAX_LABEL_LENGTH] or str(more["kind"])
    new = {
        "factor_id": uuid4().hex,
        "account_id": row["account_id"],
        "label": named,
        "created_at": now,
    } | more
    connection.execute(sql.insert(second_factors).values(**new))
    return [] if there else replace_recovery_codes(connection, now, row["account_id"])


def _read_factor_rows(connection: sql.Connection, account_id: str) -> list[Row]:
    those = (second_factors.c.account_id == account_id) & (second_factors.c.kind != "recovery")
    query = (
        sql.select(second_factors)
        .where(those)
        .order_by(second_factors.c.created_at, second_factors.c.factor_id)
    )
    return [dict(row) for row in connection.execute(query).mappings()]


def _matching_totp_step(secret: str, code: str, now: datetime, after: int) -> int | None:
    """Return the time step of a code, if it is later than `after`."""
    app, today = pyotp.TOTP(secret), int(now.timestamp()) // TOTP_STEP_SECONDS
    typed = re.sub(r"\s", "", code).encode(errors="replace")
    near = [today + off for off in TOTP_STEP_OFFSETS]
    return next(
        (
            step
            for step in near
            if step > after and hmac.compare_digest(app.generate_otp(step).encode(), typed)
        ),
        None,
    )


def _verify_totp(connection: sql.Connection, now: datetime, row: Row, code: str) -> ProofKind | None:
    for each in _read_factor_rows(connection, row["account_id"]):
        if each["kind"] != "code":
            continue
        step = _matching_totp_step(each["secret"], code, now, after=each["counter"])
        if step is not None:
            _mark_used(connection, now, each, step)
            return "code"
    return None


def _verify_recovery_code(connection: sql.Connection, row: Row, code: str) -> ProofKind | None:
    of_account = (second_factors.c.account_id == row["account_id"]) & (second_factors.c.kind == "recovery")
    this_code = of_account & (second_factors.c.secret == secret_hashes.secret_digest(code))
    return (
        "recovery code" if connection.execute(sql.delete(second_factors).where(this_code)).rowcount else None
    )


def _verify_passkey(
    connection: sql.Connection, now: datetime, row: Row, what: SecondFactorResponse, challenge: str
) -> ProofKind | None:
    try:
        answer = _parse_response(what.passkey)
        each = next(
            each
            for each in _read_factor_rows(connection, row["account_id"])
            if each["credential"] == answer["id"]
        )
        proven = verify_authentication_response(
            credential=answer,
            expected_challenge=_decode_challenge(challenge),
            expected_rp_id=what.party.rp_id if what.party else "",
            expected_origin=what.party.origin if what.party else "",
            credential_public_key=base64url_to_bytes(each["secret"]),
            credential_current_sign_count=each["counter"],
        )
    except (*MALFORMED_RESPONSE_ERRORS, StopIteration):
        return None
    _mark_used(connection, now, each, proven.new_sign_count)
    return "passkey"


def _parse_response(text: str) -> dict[str, Any]:
    """Return a browser's answer. Raise ValueError for a text that cannot be one."""
    answer = json.loads(text) if len(text) <= MAX_RESPONSE_LENGTH else None
    if not isinstance(answer, dict) or not isinstance(answer.get("id"), str):
        raise ValueError("no passkey's answer")
    return answer


def _decode_challenge(kept: str) -> bytes:
    """Return the bytes of a challenge. Raise ValueError if there is none."""
    if not kept:
        raise ValueError("nothing was asked")
    return base64url_to_bytes(kept)


def _mark_used(connection: sql.Connection, now: datetime, each: Row, counter: int) -> None:
    this_factor = second_factors.c.factor_id == each["factor_id"]
    connection.execute(sql.update(second_factors).where(this_factor).values(counter=counter, last_used=now))
