"""The schema of events: the name of each column, its path in a record, and how it is read.

Example:
    >>> record_structure()["userIdentity"]["onBehalfOf"]
    {'userId': 'userIdentity.onBehalfOf.userId'}

Both readers are built from this table: on the host a structure for DuckDB's `json_transform`; on a device a tree of nodes for the
filter, and a schema for cuDF.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

MAX_COLUMN_LENGTH = 1024  # characters kept of columns that others group by; columns only shown are kept whole
UNTRUNCATED_COLUMNS = {"user_agent", "error_message", "parameter_names"}

ColumnType = Literal["text", "flag", "mfa", "time", "service", "name", "error", "keys", "target", "resource"]


class ColumnSpec(NamedTuple):
    """A column of the events: its name, its path in a record, and how it is read."""

    name: str
    path: str
    type: ColumnType


_ISSUER = "userIdentity.sessionContext.sessionIssuer"
_ATTRIBUTES = "userIdentity.sessionContext.attributes"

COLUMNS: tuple[ColumnSpec, ...] = (
    ColumnSpec("event_id", "eventID", "text"),
    ColumnSpec("event_time", "eventTime", "time"),
    ColumnSpec("service", "eventSource", "service"),
    ColumnSpec("action", "eventName", "name"),
    ColumnSpec("region", "awsRegion", "text"),
    ColumnSpec("source_address", "sourceIPAddress", "text"),
    ColumnSpec("user_agent", "userAgent", "text"),
    ColumnSpec("error_code", "errorCode", "error"),
    ColumnSpec("error_message", "errorMessage", "text"),
    ColumnSpec("read_only", "readOnly", "flag"),
    ColumnSpec("event_type", "eventType", "text"),
    ColumnSpec("event_category", "eventCategory", "text"),
    ColumnSpec("recipient_account", "recipientAccountId", "text"),
    ColumnSpec("vpc_endpoint_account", "vpcEndpointAccountId", "text"),
    ColumnSpec("from_console", "sessionCredentialFromConsole", "flag"),
    ColumnSpec("parameter_names", "requestParameters", "keys"),
    ColumnSpec("target_account", "requestParameters", "target"),
    ColumnSpec("resource", "requestParameters", "resource"),
    ColumnSpec("issued_key", "responseElements.credentials.accessKeyId", "text"),
    ColumnSpec("identity_type", "userIdentity.type", "text"),
    ColumnSpec("principal_id", "userIdentity.principalId", "text"),
    ColumnSpec("arn", "userIdentity.arn", "text"),
    ColumnSpec("account", "userIdentity.accountId", "text"),
    ColumnSpec("access_key", "userIdentity.accessKeyId", "text"),
    ColumnSpec("user_name", "userIdentity.userName", "text"),
    ColumnSpec("invoked_by", "userIdentity.invokedBy", "text"),
    ColumnSpec("identity_provider", "userIdentity.identityProvider", "text"),
    ColumnSpec("issuer_type", f"{_ISSUER}.type", "text"),
    ColumnSpec("issuer_arn", f"{_ISSUER}.arn", "text"),
    ColumnSpec("issuer_id", f"{_ISSUER}.principalId", "text"),
    ColumnSpec("issuer_account", f"{_ISSUER}.accountId", "text"),
    ColumnSpec("issuer_name", f"{_ISSUER}.userName", "text"),
    ColumnSpec(
        "federated_provider", "userIdentity.sessionContext.webIdFederationData.federatedProvider", "text"
    ),
    ColumnSpec("source_identity", "userIdentity.sessionContext.sourceIdentity", "text"),
    ColumnSpec("session_created", f"{_ATTRIBUTES}.creationDate", "time"),
    ColumnSpec("mfa", f"{_ATTRIBUTES}.mfaAuthenticated", "mfa"),
    ColumnSpec("behalf_user", "userIdentity.onBehalfOf.userId", "text"),
)

# The account and the role whose credentials Identity Center issued, in its events GetRoleCredentials and Federate.
GIVEN_ACCOUNT, GIVEN_ROLE = "serviceEventDetails.account_id", "serviceEventDetails.role_name"
# A sign-in to the console has no session yet, so this member says whether MFA was used, in these words.
MFA_USED, MFA_ANSWERS = "additionalEventData.MFAUsed", {"Yes": "true", "No": "false"}
# Members in which `Failure` means a failed sign-in, which has no errorCode: to the console, by the second factor, to another
# role, and to Identity Center.
LOGINS = (
    *(f"responseElements.{action}" for action in ("ConsoleLogin", "CheckMfa", "SwitchRole")),
    "serviceEventDetails.CredentialVerification",
)
# Members that are no columns, but are needed for some: the first two name the accounts that are not foreign.
HELPER_PATHS = (
    "userIdentity.accountId",
    "recipientAccountId",
    "errorMessage",
    MFA_USED,
    *LOGINS,
    GIVEN_ACCOUNT,
    GIVEN_ROLE,
)
PARAMETERS = "requestParameters"  # the source of three columns
OMITTED = "omitted"  # the member that is true if AWS left out parameters because they are too large
RESOURCES = "resources"  # a list of objects
RESOURCE_ACCOUNT = "accountId"  # a member that is read of each object, beside `resources.ARN_MEMBER`


def record_structure() -> dict[str, Any]:
    """Return the members of a record that are read, nested as in the record, each with its path."""
    root: dict[str, Any] = {}
    for path in (*(column.path for column in COLUMNS), *HELPER_PATHS):
        *parents, leaf = path.split(".")
        node = root
        for parent in parents:
            node = node.setdefault(parent, {})
        node[leaf] = path
    return root


def sort_parameter_names(names: str | None) -> str:
    """Return comma-separated names of parameters in alphabetical order."""
    return ",".join(sorted((names or "").split(",")))
