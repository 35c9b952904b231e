"""The features of CloudTrail events: columns that identify behaviour and are hard to mimic.

Example:
    >>> FEATURE_SET.names[:4]
    ('action', 'parameters', 'resource', 'error')

Ids that are new in every record (request ids, session keys) are no features. The record's own flag says whether a call changed
something; without the flag the verb of the action does.
"""

from __future__ import annotations

import numpy as np

from fingerprint.compute import arrays
from fingerprint.compute.arrays import Array
from fingerprint.compute.dictionary import DictionaryEncoded, MappedColumn
from fingerprint.compute.frames import Frame
from fingerprint.features.feature_set import Feature, FeatureSet, Openings
from fingerprint.features.value_texts import (
    count_text,
    idle_text,
    network_range,
    network_text,
    of_text,
    or_default,
    program_and_version,
    session_age,
    session_age_text,
    time_of_day,
    time_of_day_text,
    under_text,
)
from fingerprint.sources.cloudtrail.action_verbs import changes_something
from fingerprint.sources.cloudtrail.named_accounts import ENTRIES, TO_MEMBERS
from fingerprint.sources.cloudtrail.openings import (
    OPENING_ACTIONS,
    OPENING_COLUMNS,
    WORKLOAD_SIGN_INS,
    opening,
)
from fingerprint.sources.cloudtrail.record_members import DRY_RUNS
from fingerprint.sources.cloudtrail.resources import ACCOUNT_DIGITS, fold

KEY_KINDS = {"AKIA": "long-lived key", "ASIA": "temporary key", "": "no key"}

# Error codes of failures of the service itself: the call had no effect, and its caller is not the cause. In an outage the calls
# of all principals fail with these codes, and are repeated.
SERVICE_FAILURES = frozenset(
    {
        "InternalError",
        "InternalException",
        "InternalFailure",
        "InternalFailureException",
        "InternalServerError",
        "InternalServerErrorException",
        "InternalServerException",
        "InternalServiceError",
        "InternalServiceErrorException",
        "InternalServiceException",
        "InternalServiceFault",
        "KMSInternalException",
        "DependencyTimeoutException",
        "ServiceException",
        "ServiceFailure",
        "ServiceFailureException",
        "ServiceUnavailable",
        "ServiceUnavailableException",
        "Unavailable",
        "Server.InternalError",
        "Server.ServiceUnavailable",
        "Server.Unavailable",
    }
)

# Error codes of throttled calls. SDKs repeat these by themselves, so their number says how long the throttling lasted, and not
# how much was read: they make no amount. But the caller helped to cause the throttling, so the error and the surge of calls are
# judged.
THROTTLING = frozenset(
    {
        "Throttling",
        "ThrottlingException",
        "ThrottledException",
        "RequestThrottled",
        "RequestThrottledException",
        "RequestLimitExceeded",
        "Client.RequestLimitExceeded",
        "TooManyRequestsException",
        "SlowDown",
        "ProvisionedThroughputExceededException",
        "PriorRequestNotComplete",
        "BandwidthLimitExceeded",
    }
)
SERVICE_FAILURE = "failure of the service"
NO_ERROR = "no error"

# Services with one endpoint for all regions. Their records name the region of that endpoint (us-east-1, or its counterpart in
# other partitions), wherever the caller works. So a first call of IAM is unusual, but its region is not. STS and the sign-in page
# are not listed: they have endpoints in every region, too, so the region says something about the caller.
GLOBAL_SERVICES = frozenset(
    {
        "iam",
        "organizations",
        "account",
        "artifact",
        "support",
        "supportplans",
        "trustedadvisor",
        "health",
        "cloudfront",
        "route53",
        "route53domains",
        "route53-recovery-control-config",
        "route53-recovery-readiness",
        "globalaccelerator",
        "networkmanager",
        "waf",
        "shield",
        "ce",
        "cur",
        "budgets",
        "pricing",
        "savingsplans",
        "billing",
        "billingconsole",
        "aws-portal",
        "tax",
        "freetier",
        "invoicing",
        "payments",
        "consolidatedbilling",
        "bcm-data-exports",
        "cost-optimization-hub",
        "aws-marketplace",
        "notifications",
        "notifications-contacts",
    }
)
GLOBAL_REGION = "global service"

# The global endpoint of the console's sign-in page records one of these regions: us-east-1 or, if the browser remembers the alias
# of the account, the nearest of the others (CloudTrail's user guide, "AWS Management Console sign-in events").
GLOBAL_SIGN_IN = ("signin", "ConsoleLogin")
GLOBAL_SIGN_IN_REGIONS = frozenset({"us-east-1", "us-east-2", "eu-north-1", "ap-southeast-2"})

BIN_WEIGHT = 0.4  # weight of a bin: times and numbers of events say less than caller, action and origin


def is_write(events: Frame) -> Array:
    """Return a mask (N,) of events that changed something: by the record's flag if it has one, else by the action's verb."""
    code, distinct = DictionaryEncoded(events).combined_column(("action", "read_only"))
    return arrays.to_device_of(np.array([*(_writes(*values) for values in distinct), False]), code)[code]


def _writes(action: str | None, read_only: bool | None) -> bool:
    return changes_something(action or "") if read_only is None else not read_only


def _mode(action: str | None, read_only: bool | None) -> str:
    return "write" if _writes(action, read_only) else "read"


def _action(service: str | None, action: str | None) -> str | None:
    return None if service is None or action is None else f"{service}:{action}"


def _parameters(service: str | None, action: str | None, names: str | None) -> str | None:
    called = _action(service, action)
    return None if called is None or names is None else f"{called}({names})"


def _resource(service: str | None, action: str | None, resource: str | None) -> str | None:
    called = _action(service, action)
    return None if called is None or resource is None else f"{called} on {fold(resource)}"


def _error(code: str | None) -> str:
    return NO_ERROR if code is None else SERVICE_FAILURE if code in SERVICE_FAILURES else code


def _network(
    name: str | None, address: str | None, endpoint_account: str | None, account: str | None
) -> str | None:
    """Return the network, with the account of the VPC endpoint if that is another account than the record's.

    All private addresses are one network, and a thief's own VPC can have the same addresses as the victim's. The account of the
    endpoint tells them apart.
    """
    network = network_text(name, address)
    if network is None or not endpoint_account or not account or endpoint_account == account:
        return network
    return f"{network} {endpoint_account[:ACCOUNT_DIGITS]}"


def _region(service: str | None, action: str | None, region: str | None) -> str | None:
    global_sign_in = (service, action) == GLOBAL_SIGN_IN and region in GLOBAL_SIGN_IN_REGIONS
    return GLOBAL_REGION if service in GLOBAL_SERVICES or global_sign_in else region


def _credential(identity: str | None, key: str, mfa: bool | None, console: bool | None) -> str:
    kind = f"{'no type' if identity is None else identity} {KEY_KINDS.get(key, 'other key')}"
    return kind + (" with MFA" if mfa else "") + (" from the console" if console else "")


def _key_kind(key: str | None) -> str:
    """Return the prefix of an access key, which gives its kind: there are many keys and few kinds."""
    return (key or "")[:4]


_FEATURES: tuple[Feature, ...] = (
    Feature("action", "action", "value", "what", ("service", "action"), _action),
    Feature(
        "parameters",
        "parameters",
        "value",
        "what",
        ("service", "action", "parameter_names"),
        _parameters,
        given="action",
        weight=0.5,
    ),
    Feature(
        "resource",
        "resource",
        "open",
        "what",
        ("service", "action", "resource"),
        _resource,
        given="action",
    ),
    Feature("error", "error", "value", "outcome", ("error_code",), _error),
    Feature(
        "program",
        "program",
        "value",
        "tool",
        ("user_agent",),
        of_text(lambda agent: program_and_version(agent)[0]),
    ),
    Feature(
        "version",
        "program version",
        "value",
        "tool",
        ("user_agent",),
        of_text(lambda agent: program_and_version(agent)[1]),
        given="program",
        weight=0.5,
    ),
    Feature(
        "network",
        "network",
        "value",
        "place",
        ("network", "source_address", "vpc_endpoint_account", "recipient_account"),
        _network,
    ),
    Feature(
        "address",
        "address range",
        "open",
        "place",
        ("source_address",),
        of_text(lambda address: network_range(address, (24, 48))),
        given="network",
    ),
    Feature("mode", "read or write", "bin", "what", ("action", "read_only"), _mode),
    Feature("region", "region", "value", "place", ("service", "action", "region"), _region),
    Feature(
        "credentials",
        "credentials",
        "value",
        "tool",
        ("identity_type", "key_kind", "mfa", "from_console"),
        _credential,
    ),
    Feature("target", "target account", "value", "place", ("target_account",), or_default("own account")),
    Feature("hour", "time of day", "bin", "time", ("hour",), time_of_day_text, weight=BIN_WEIGHT),
    Feature("age", "age of the session", "bin", "time", ("age",), session_age_text, weight=BIN_WEIGHT),
    Feature("idle", "last active", "bin", "time", ("idle",), idle_text, is_stateful=True, weight=BIN_WEIGHT),
    Feature(
        "today",
        "events so far today",
        "bin",
        "time",
        ("today",),
        under_text,
        is_stateful=True,
        shown=count_text,
    ),
    Feature(
        "sources",
        "new sources today",
        "bin",
        "time",
        ("sources",),
        str,
        is_stateful=True,
        weight=BIN_WEIGHT,
        counts="place",
    ),
    Feature(
        "actions",
        "new actions today",
        "bin",
        "time",
        ("actions",),
        under_text,
        is_stateful=True,
        shown=count_text,
        counts="what",
    ),
)

FEATURE_SET = FeatureSet(
    _FEATURES,
    is_write,
    {"key_kind": MappedColumn("access_key", _key_kind), "hour": time_of_day, "age": session_age},
    texts_without_evidence={"error": SERVICE_FAILURE, "region": GLOBAL_REGION},
    outcome="error",
    success=NO_ERROR,
    throttled=THROTTLING,
    dry_runs=DRY_RUNS,
    ranges=("network", "address"),
    of_account=frozenset({"region"}),
    other_account="target",
    to_members=TO_MEMBERS,
    entries=ENTRIES,
    openings=Openings(OPENING_ACTIONS, WORKLOAD_SIGN_INS, OPENING_COLUMNS, opening),
)
