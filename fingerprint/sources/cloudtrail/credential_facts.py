"""Facts about the credential behind records: its kind, whether MFA was used, whether it came from the console.

Example:
    >>> credential_facts([record])
    CredentialFacts(kinds=(('access key', 1),), mfa=0, no_mfa=0, console=0, records=1)

Nothing is guessed: the record of a long-term access key does not mention MFA, so it counts neither way. `mfaAuthenticated` is
about AWS's own MFA. For a role session that an identity provider opened, it says nothing about a second factor at the provider.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

from fingerprint.core.story import ranked
from fingerprint.sources.base import CredentialFacts, CredentialType
from fingerprint.sources.cloudtrail.record_members import as_members, as_text, decode_record

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
    """Return the facts that records state; records that cannot be read are left out."""
    read = [found for record in records if (found := decode_record(_DECODER, record)) is not None]
    kinds: Counter[str] = Counter(kind for each in read if (kind := _kind(each)) is not None)
    used = [_mfa(each) for each in read]
    console = sum(map(_from_console, read))
    return CredentialFacts(ranked(kinds), used.count(True), used.count(False), console, len(read))


def signed_in_without_mfa(record: str) -> bool:
    """Return whether a record is a successful sign-in of root or an IAM user that states that MFA was not used.

    Sign-ins from an identity provider do not count: their records state the same, whatever factor the provider required.
    """
    read = decode_record(_DECODER, record) if "ConsoleLogin" in record else None
    if read is None or read.eventName != "ConsoleLogin" or _mfa(read) is not False:
        return False
    succeeded = as_text(as_members(read.responseElements).get("ConsoleLogin")) == "Success"
    return succeeded and _kind(read) in ("root", "console sign-in")


def signed_in_as(principal: str, records: Iterable[str]) -> str:
    """Return the e-mail address with which a user of Identity Center signed in, if a record has it: other records have an id.

    >>> record = '{"eventName": "CredentialVerification", "additionalEventData": {"UserName": "ann@example.com"}}'
    >>> signed_in_as("123456789012:identitycenter/88af1797-f069155b", ["", record])
    'ann@example.com'
    """
    if not principal.partition(":")[2].startswith("identitycenter/"):
        return ""
    found = (decode_record(_DECODER, record) for record in records if '"UserName"' in record)
    names = (as_text(as_members(read.additionalEventData).get("UserName")) for read in found if read)
    return next((name for name in names if "@" in name), "")


def signed_in_with_device_code(record: str) -> bool:
    """Return whether a call exchanged a device code for a token, as a phisher's call does after a victim confirmed the code.

    >>> signed_in_with_device_code('{"eventName": "CreateToken", "requestParameters": {"deviceCode": "***"}}')
    True
    """
    read = decode_record(_DECODER, record) if "CreateToken" in record else None
    if read is None or read.eventName != "CreateToken" or read.errorCode:
        return False
    request = as_members(read.requestParameters)
    return "deviceCode" in request or as_text(request.get("grantType")).endswith(":device_code")


def is_of_instance(record: str) -> bool:
    """Return whether a call was made with the credentials of an EC2 instance: AWS records the version of the metadata service.

    The name of such a session, the id of the machine, proves nothing: a caller who assumes a role may choose any name.

    >>> is_of_instance('{"userIdentity": {"sessionContext": {"ec2RoleDelivery": "2.0"}}}')
    True
    """
    read = decode_record(_DECODER, record) if '"ec2RoleDelivery"' in record else None
    session = as_members(as_members(read.userIdentity).get("sessionContext")) if read else {}
    return bool(session.get("ec2RoleDelivery"))


def issued_key(record: str) -> str:
    """Return the access key that a call issued to a caller without a key (SAML, web identity, another account); else empty.

    For a caller with a key, the credential chain has the link; calls of a service for itself are no session of a caller.

    >>> identity, credentials = '{"type": "SAMLUser"}', '{"credentials": {"accessKeyId": "ASIAEXAMPLE"}}'
    >>> issued_key(f'{{"userIdentity": {identity}, "responseElements": {credentials}}}')
    'ASIAEXAMPLE'
    """
    read = decode_record(_DECODER, record)
    if read is None or as_members(read.userIdentity).get("accessKeyId") or _kind(read) == "service":
        return ""
    return as_text(as_members(as_members(read.responseElements).get("credentials")).get("accessKeyId"))


def shared_call(record: str) -> str:
    """Return the id that two records of one call share: in the caller's account and in the account that it was made on.

    Only the record in the caller's account says who called. AWS writes UUIDs: any other text gives an empty one.

    >>> shared_call('{"sharedEventID": "7c5e1a2b-0000-4000-8000-000000000001"}')
    '7c5e1a2b-0000-4000-8000-000000000001'
    """
    read = decode_record(_DECODER, record) if '"sharedEventID"' in record else None
    name = as_text(read.sharedEventID) if read else ""
    return name if len(name) == UUID_LENGTH and UUID_CHARACTERS.issuperset(name) else ""


def _kind(record: _Record) -> CredentialType | None:
    """Return the kind of credential; None if the record names none."""
    identity = as_members(record.userIdentity)
    named, key = identity.get("type"), as_text(identity.get("accessKeyId"))
    if named == "IAMUser":
        by_key: dict[str, CredentialType] = {"AKIA": "access key", "ASIA": "user session"}
        return by_key.get(key[:4], "console sign-in" if record.eventName == "ConsoleLogin" else None)
    return _KINDS.get(named) if isinstance(named, str) else None


def _mfa(record: _Record) -> bool | None:
    """Return whether MFA was used; None if the record does not say so."""
    session = as_members(as_members(record.userIdentity).get("sessionContext"))
    mfa = as_members(session.get("attributes")).get("mfaAuthenticated")
    if mfa is None:
        mfa = as_members(record.additionalEventData).get("MFAUsed")
    return {"true": True, "yes": True, "false": False, "no": False}.get(_flag(mfa))


def _from_console(record: _Record) -> bool:
    return record.eventName == "ConsoleLogin" or _flag(record.sessionCredentialFromConsole) == "true"


def _flag(value: Any) -> str:
    """Return a flag in lower case: AWS writes some as text, some as JSON booleans."""
    return str(value).lower() if isinstance(value, str | bool) else ""
