"""Users and roles that a call makes or lets someone into: what they do next belongs to the same attack.

Example:
    >>> record = '{"recipientAccountId": "123456789012", "requestParameters": {"userName": "backup"}}'
    >>> opened_access("iam", "CreateLoginProfile", record).principals
    ('123456789012:user/backup',)

The names are those of a request that AWS carried out, so they are names that exist. Calls that change what a user may do, and not
who is behind it, are left out: administrators make them all day.
"""

from __future__ import annotations

from typing import Any

import msgspec

from fingerprint.sources.base import OpenedAccess, escape_key

MAX_RECORD_CHARACTERS = 262_144  # a longer record is not read
_OPENS = {  # actions of IAM -> the member of the request that names what they open, and its kind
    **dict.fromkeys(
        (
            "CreateUser",
            "CreateAccessKey",
            "CreateLoginProfile",
            "UpdateLoginProfile",
            "CreateServiceSpecificCredential",
            "UploadSigningCertificate",
            "UploadSSHPublicKey",
        ),
        ("userName", "user"),
    ),
    **dict.fromkeys(("CreateRole", "UpdateAssumeRolePolicy"), ("roleName", "role")),
}


class _Record(msgspec.Struct):
    recipientAccountId: Any = None
    requestParameters: Any = None
    responseElements: Any = None
    errorCode: Any = None


_DECODER = msgspec.json.Decoder(_Record)
_NOTHING = OpenedAccess()


def opened_access(service: str, action: str, record: str) -> OpenedAccess:
    """Return the user or role that a call made or opened, and the long-term key that it issued; nothing where it failed."""
    named, kind = _OPENS.get(action, ("", ""))
    if service != "iam" or not named or not 0 < len(record) <= MAX_RECORD_CHARACTERS:
        return _NOTHING
    try:
        read = _DECODER.decode(record)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return _NOTHING
    account, request = read.recipientAccountId, read.requestParameters
    if read.errorCode or not isinstance(account, str) or not account:
        return _NOTHING
    key = _members(_members(read.responseElements).get("accessKey"))
    name = _text(_members(request).get(named)) or _text(key.get(named))
    principals = (f"{account}:{kind}/{escape_key(name)}",) if name else ()
    return OpenedAccess(principals, _text(key.get("accessKeyId")))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _members(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
