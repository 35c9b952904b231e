"""Users and roles that a call makes, or to which it gives someone access: their next calls belong to the same attack.

Example:
    >>> record = '{"recipientAccountId": "123456789012", "requestParameters": {"userName": "backup"}}'
    >>> opened_access("iam", "CreateLoginProfile", record).principals
    ('123456789012:user/backup',)

AWS carried out the request, so the names in it exist. Calls that change the rights of a user, but not who can use it, are left
out: administrators make them all day.
"""

from __future__ import annotations

from typing import Any

import msgspec

from fingerprint.sources.base import OpenedAccess, escape_key
from fingerprint.sources.cloudtrail.record_members import as_members, as_text, decode_record

_OPENS = {  # action of IAM -> member of the request that names the user or role, and which of these it is
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
    """Return the user or role that a call made or opened, and the long-term key that it issued; empty if the call failed."""
    named, kind = _OPENS.get(action, ("", ""))
    read = decode_record(_DECODER, record) if service == "iam" and named else None
    if read is None:
        return _NOTHING
    account, request = read.recipientAccountId, read.requestParameters
    if read.errorCode or not isinstance(account, str) or not account:
        return _NOTHING
    key = as_members(as_members(read.responseElements).get("accessKey"))
    name = as_text(as_members(request).get(named)) or as_text(key.get(named))
    principals = (f"{account}:{kind}/{escape_key(name)}",) if name else ()
    return OpenedAccess(principals, as_text(key.get("accessKeyId")))
