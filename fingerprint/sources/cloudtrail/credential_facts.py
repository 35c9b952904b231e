"""What records say of the credential behind them: its kind, whether MFA was used, whether it came from the console.

Example:
    >>> credential_facts([record])
    CredentialFacts(kinds=(('access key', 1),), mfa=0, no_mfa=0, console=0, records=1)

Nothing is guessed: a record of a long-term access key has no word about MFA, so it counts neither way. `mfaAuthenticated` is
AWS's own MFA; of a role session that an identity provider opened, it says nothing about a second factor there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

from fingerprint.core.story import ranked
from fingerprint.sources.base import CredentialFacts, CredentialType

MAX_RECORD_CHARACTERS = 262_144  # a longer record is not read
UUID_LENGTH, UUID_CHARACTERS = 36, frozenset("0123456789abcdefABCDEF-")
_KINDS: dict[str, CredentialType] = {
    "Root": "root",
    "AssumedRole": "role session",
    "FederatedUser": "federated session",
    "SAMLUser": "federated session",
    "WebIdentityUser": "federated session",
    "IdentityCenterUser": "single sign-on",
    "AWSService": "service",
    "AWSAccount": "other account",
}


class _Record(msgspec.Struct):
    userIdentity: Any = None
    eventName: Any = None
    sessionCredentialFromConsole: Any = None
    additionalEventData: Any = None
    requestParameters: Any = None
    responseElements: Any = None
    errorCode: Any = None
    sharedEventID: Any = None


_DECODER = msgspec.json.Decoder(_Record)


def credential_facts(records: Iterable[str]) -> CredentialFacts:
    """Return what records say, those that cannot be read left out."""
    read = [found for record in records if (found := _read(record)) is not None]
    kinds: Counter[str] = Counter(kind for each in read if (kind := _kind(each)) is not None)
    used = [_mfa(each) for each in read]
    console = sum(map(_from_console, read))
    return CredentialFacts(ranked(kinds), used.count(True), used.count(False), console, len(read))


def signed_in_without_mfa(record: str) -> bool:
    """Return whether a record is a sign-in of root or an IAM user that succeeded, and says that MFA was not used.

    Of a person who comes from an identity provider it says so, too, whatever that provider asked for: they do not count.
    """
    read = _read(record) if "ConsoleLogin" in record else None
    if read is None or read.eventName != "ConsoleLogin" or _mfa(read) is not False:
        return False
    succeeded = _text(_members(read.responseElements).get("ConsoleLogin")) == "Success"
    return succeeded and _kind(read) in ("root", "console sign-in")


def signed_in_with_device_code(record: str) -> bool:
    """Return whether a call turned a device code into a token, as a phisher's does for whom someone else confirmed the code.

    >>> signed_in_with_device_code('{"eventName": "CreateToken", "requestParameters": {"deviceCode": "***"}}')
    True
    """
    read = _read(record) if "CreateToken" in record else None
    if read is None or read.eventName != "CreateToken" or read.errorCode:
        return False
    request = _members(read.requestParameters)
    return "deviceCode" in request or _text(request.get("grantType")).endswith(":device_code")


def issued_key(record: str) -> str:
    """Return the access key that a call issued whose caller had none: SAML, a web identity, another account; else no text.

    The record alone says it: of a caller with a key its credential chain does, and a service's own calls are no one's session.

    >>> identity, credentials = '{"type": "SAMLUser"}', '{"credentials": {"accessKeyId": "ASIAEXAMPLE"}}'
    >>> issued_key(f'{{"userIdentity": {identity}, "responseElements": {credentials}}}')
    'ASIAEXAMPLE'
    """
    read = _read(record)
    if read is None or _members(read.userIdentity).get("accessKeyId") or _kind(read) == "service":
        return ""
    return _text(_members(_members(read.responseElements).get("credentials")).get("accessKeyId"))


def shared_call(record: str) -> str:
    """Return the id by which the record of a call in the caller's account names the one in the account it was made on, and back.

    Of the two, only the caller's own says who called. AWS writes UUIDs: any other text is none.

    >>> shared_call('{"sharedEventID": "7c5e1a2b-0000-4000-8000-000000000001"}')
    '7c5e1a2b-0000-4000-8000-000000000001'
    """
    read = _read(record) if '"sharedEventID"' in record else None
    name = _text(read.sharedEventID) if read else ""
    return name if len(name) == UUID_LENGTH and UUID_CHARACTERS.issuperset(name) else ""


def _read(record: str) -> _Record | None:
    if not 0 < len(record) <= MAX_RECORD_CHARACTERS:
        return None
    try:
        return _DECODER.decode(record)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _kind(record: _Record) -> CredentialType | None:
    """Return the kind of credential; None where the record names none."""
    identity = _members(record.userIdentity)
    named, key = identity.get("type"), _text(identity.get("accessKeyId"))
    if named == "IAMUser":
        by_key: dict[str, CredentialType] = {"AKIA": "access key", "ASIA": "user session"}
        return by_key.get(key[:4], "console sign-in" if record.eventName == "ConsoleLogin" else None)
    return _KINDS.get(named) if isinstance(named, str) else None


def _mfa(record: _Record) -> bool | None:
    """Return whether MFA was used; None where the record does not say."""
    session = _members(_members(record.userIdentity).get("sessionContext"))
    mfa = _members(session.get("attributes")).get("mfaAuthenticated")
    if mfa is None:
        mfa = _members(record.additionalEventData).get("MFAUsed")
    return {"true": True, "yes": True, "false": False, "no": False}.get(_text(mfa).lower())


def _from_console(record: _Record) -> bool:
    return record.eventName == "ConsoleLogin" or _text(record.sessionCredentialFromConsole).lower() == "true"


def _text(value: Any) -> str:
    return str(value) if isinstance(value, str | bool) else ""


def _members(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
