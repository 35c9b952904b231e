"""Blocks `userIdentity` of records as JSON text: a function for each kind of caller.

Example:
    >>> aws_service("lambda.amazonaws.com")
    '{"type":"AWSService","invokedBy":"lambda.amazonaws.com"}'
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from fingerprint.sources.cloudtrail import identity as entity

_COLUMNS = {  # member -> column of `entity.IDENTITY_COLUMNS`: the caller's, the session issuer's
    "type": ("identity_type", "issuer_type"),
    "principalId": ("principal_id", "issuer_id"),
    "arn": ("arn", "issuer_arn"),
    "accountId": ("account", "issuer_account"),
    "userName": ("user_name", "issuer_name"),
}


@dataclass(frozen=True, slots=True)
class Role:
    """An IAM role. `path` begins and ends with a slash."""

    account: str
    name: str
    unique_id: str  # AROA...
    path: str = "/"

    @property
    def arn(self) -> str:
        """ARN of the role."""
        return f"arn:aws:iam::{self.account}:role{self.path}{self.name}"

    def session_arn(self, session: str) -> str:
        """Return the ARN of a session of the role."""
        return f"arn:aws:sts::{self.account}:assumed-role/{self.name}/{session}"


@dataclass(frozen=True, slots=True)
class User:
    """An IAM user."""

    account: str
    name: str
    unique_id: str  # AIDA...

    @property
    def arn(self) -> str:
        """ARN of the user."""
        return f"arn:aws:iam::{self.account}:user/{self.name}"


def assumed_role(
    role: Role,
    session: str,
    key: str,
    created: str,
    invoked_by: str = "",
    instance: bool = False,
    federated: str = "",
) -> str:
    """Return the identity of a session of a role, with the access key `key`, `created` at an ISO time.

    - `invoked_by`: the service that makes the call for the session; empty for none
    - `instance`: the session is that of an EC2 instance
    - `federated`: the ARN of the OIDC provider that confirmed the caller; empty for none
    """
    issuer = {
        "type": "Role",
        "principalId": role.unique_id,
        "arn": role.arn,
        "accountId": role.account,
        "userName": role.name,
    }
    context: dict[str, Any] = {"sessionIssuer": issuer}
    if federated:
        context["webIdFederationData"] = {"federatedProvider": federated, "attributes": {}}
    context["attributes"] = {"creationDate": created, "mfaAuthenticated": "false"}
    if instance:
        context["ec2RoleDelivery"] = "2.0"
    block = {
        "type": "AssumedRole",
        "principalId": f"{role.unique_id}:{session}",
        "arn": role.session_arn(session),
        "accountId": role.account,
        "accessKeyId": key,
        "sessionContext": context,
    }
    return _json(block, invoked_by)


def iam_user(user: User, key: str, created: str = "", mfa: bool = False) -> str:
    """Return the identity of an IAM user with an access key, or of one who signs in (without `key`).

    `created` is the ISO time of a console session; empty for a long-term key.
    """
    block: dict[str, Any] = {
        "type": "IAMUser",
        "principalId": user.unique_id,
        "arn": user.arn,
        "accountId": user.account,
    }
    if key:
        block["accessKeyId"] = key
    block["userName"] = user.name
    if created:
        block["sessionContext"] = {
            "attributes": {"creationDate": created, "mfaAuthenticated": str(mfa).lower()}
        }
    return _json(block)


def root_user(account: str, key: str, created: str) -> str:
    """Return the identity of the root user of an account, who signed in with MFA."""
    context = {"attributes": {"creationDate": created, "mfaAuthenticated": "true"}}
    block = {
        "type": "Root",
        "principalId": account,
        "arn": f"arn:aws:iam::{account}:root",
        "accountId": account,
    }
    return _json(block | {"accessKeyId": key, "sessionContext": context})


def time_of_day(second: float) -> str:
    """Return a second of the day as hh:mm:ss; a second outside the day becomes its first or its last one."""
    second = min(max(int(second), 0), 86_399)
    return f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"


def aws_service(name: str) -> str:
    """Return the identity of an AWS service that acts by itself."""
    return _json({"type": "AWSService", "invokedBy": name})


def other_account(account: str, unique_id: str) -> str:
    """Return the identity of a caller of another account."""
    return _json({"type": "AWSAccount", "principalId": unique_id, "accountId": account})


def web_identity(provider: str, subject: str) -> str:
    """Return the identity of a caller that an OIDC provider confirms."""
    block = {
        "type": "WebIdentityUser",
        "principalId": f"{provider}:sts.amazonaws.com:{subject}",
        "userName": subject,
    }
    return _json(block | {"identityProvider": provider})


def untyped(account: str, invoked_by: str) -> str:
    """Return an identity without a type, as in events that a service writes about itself."""
    return _json({"accountId": account, "invokedBy": invoked_by})


def principal_key(identity: str) -> str:
    """Return the key of the principal that detection reads from a block `userIdentity`.

    Example:
        >>> principal_key(iam_user(User("111122223333", "ana", "AIDA7"), key=""))
        '111122223333:user/ana'
    """
    block = json.loads(identity)
    issuer = block.get("sessionContext", {}).get("sessionIssuer", {})
    caller = {column: block.get(member, "") for member, (column, _) in _COLUMNS.items()}
    return entity.principal_of(
        caller | {column: issuer.get(member, "") for member, (_, column) in _COLUMNS.items()}
    ).key


def _json(block: dict[str, Any], invoked_by: str = "") -> str:
    return json.dumps(block | ({"invokedBy": invoked_by} if invoked_by else {}), separators=(",", ":"))
