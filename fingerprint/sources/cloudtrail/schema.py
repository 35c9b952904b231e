"""The columns of the events: what each is called, where in a record it comes from, and how it is read.

Example:
    >>> structure()["userIdentity"]["onBehalfOf"]
    {'userId': 'userIdentity.onBehalfOf.userId', 'identityStoreArn': 'userIdentity.onBehalfOf.identityStoreArn'}

This is the one table; each reader makes of it what it needs: DuckDB a structure for `json_transform`, a device a tree of nodes
for its sieve and a schema for cuDF.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from fingerprint.compute.frames import Frame
from fingerprint.core.alert import Reject

KEY_LENGTH = 1024  # characters kept of a column that others group by; what is only shown is kept whole
SHOWN = {"user_agent", "error_message", "parameter_names"}

Type = Literal["text", "flag", "time", "service", "name", "error", "keys", "target", "role"]


class Column(NamedTuple):
    """A column of the events, the path in the record that it comes from, and how it is read."""

    name: str
    path: str
    type: Type


_ISSUER = "userIdentity.sessionContext.sessionIssuer"
_ATTRIBUTES = "userIdentity.sessionContext.attributes"

COLUMNS: tuple[Column, ...] = (
    Column("event_id", "eventID", "text"),
    Column("event_time", "eventTime", "time"),
    Column("event_version", "eventVersion", "text"),
    Column("service", "eventSource", "service"),
    Column("action", "eventName", "name"),
    Column("region", "awsRegion", "text"),
    Column("source_address", "sourceIPAddress", "text"),
    Column("user_agent", "userAgent", "text"),
    Column("error_code", "errorCode", "error"),
    Column("error_message", "errorMessage", "text"),
    Column("read_only", "readOnly", "flag"),
    Column("event_type", "eventType", "text"),
    Column("event_category", "eventCategory", "text"),
    Column("management_event", "managementEvent", "flag"),
    Column("recipient_account", "recipientAccountId", "text"),
    Column("shared_event_id", "sharedEventID", "text"),
    Column("vpc_endpoint_id", "vpcEndpointId", "text"),
    Column("from_console", "sessionCredentialFromConsole", "flag"),
    Column("parameter_names", "requestParameters", "keys"),
    Column("target_account", "requestParameters", "target"),
    Column("role_arn", "requestParameters", "role"),
    Column("issued_key", "responseElements.credentials.accessKeyId", "text"),
    Column("identity_type", "userIdentity.type", "text"),
    Column("principal_id", "userIdentity.principalId", "text"),
    Column("arn", "userIdentity.arn", "text"),
    Column("account", "userIdentity.accountId", "text"),
    Column("access_key", "userIdentity.accessKeyId", "text"),
    Column("user_name", "userIdentity.userName", "text"),
    Column("invoked_by", "userIdentity.invokedBy", "text"),
    Column("identity_provider", "userIdentity.identityProvider", "text"),
    Column("issuer_type", f"{_ISSUER}.type", "text"),
    Column("issuer_arn", f"{_ISSUER}.arn", "text"),
    Column("issuer_id", f"{_ISSUER}.principalId", "text"),
    Column("issuer_account", f"{_ISSUER}.accountId", "text"),
    Column("issuer_name", f"{_ISSUER}.userName", "text"),
    Column("federated_provider", "userIdentity.sessionContext.webIdFederationData.federatedProvider", "text"),
    Column("session_created", f"{_ATTRIBUTES}.creationDate", "time"),
    Column("mfa", f"{_ATTRIBUTES}.mfaAuthenticated", "flag"),
    Column("behalf_user", "userIdentity.onBehalfOf.userId", "text"),
    Column("behalf_store", "userIdentity.onBehalfOf.identityStoreArn", "text"),
)

# Members that are no column, but are read for one: the first two say whose account is not foreign, the others what failed.
HELPERS = ("userIdentity.accountId", "recipientAccountId", "errorMessage", "responseElements.ConsoleLogin")
PARAMETERS = "requestParameters"  # three columns are made of it
RESOURCES, RESOURCE_ACCOUNT = "resources", "accountId"  # a list; what is read of each of its objects


def structure() -> dict[str, Any]:
    """The members of a record that are read, nested as they are there; for each of them its path."""
    root: dict[str, Any] = {}
    for path in (*(column.path for column in COLUMNS), *HELPERS):
        *parents, leaf = path.split(".")
        node = root
        for parent in parents:
            node = node.setdefault(parent, {})
        node[leaf] = path
    return root


def in_order(names: str | None) -> str:
    """Names of parameters in the order of the alphabet."""
    return ",".join(sorted((names or "").split(",")))


class Flat(NamedTuple):
    """What became of records: `len(events) + len(rejects) + skipped` is every record that came in, split's
    rest included."""

    events: Frame
    rejects: list[Reject]
    skipped: int
