"""Verbs of actions: whether an action changes something, for callers without the flag of a record.

Example:
    >>> changes_something("DescribeInstances"), changes_something("StopLogging")
    (False, True)
    >>> changes_something("BatchGetImage"), changes_something("BatchDeleteImage")
    (False, True)

It is a module of its own because pages and commands use it, and start without NumPy and pandas, which features need.
"""

from __future__ import annotations

READ_PREFIXES = (
    "Get",
    "List",
    "Describe",
    "Head",
    "Lookup",
    "Search",
    "Query",
    "Scan",
    "View",
    "Check",
    "Test",
    "Filter",
    "Select",
    "Validate",
    "Simulate",
    "Estimate",
    "Calculate",
    "Count",
)
_AS_ADMINISTRATOR = "Admin"  # prefix of the verbs of Cognito's calls by an administrator
# Reads whose verb also writes, whichever service has them.
_READS = frozenset(
    (
        "StartQuery",
        "PartiQLSelect",
        "Verify",
        "VerifyMac",
        "DecodeAuthorizationMessage",
        "GenerateCredentialReport",
        "GenerateOrganizationsAccessReport",
        "GenerateServiceLastAccessedDetails",
        "IsAuthorized",
        "IsAuthorizedWithToken",
        "IsMemberInGroups",
    )
)
# Writes that begin like a read: they interrupt, run or send something, or use it up (botocore 1.43).
_WRITES = frozenset(
    (
        "TestAlarm",
        "TestFailover",
        "TestInvokeMethod",
        "TestRepositoryTriggers",
        "TestState",
        "CheckInLicense",
        "CheckoutBorrowLicense",
        "CheckoutLicense",
        "CheckpointDurableExecution",
        "ValidateAwsAssociations",
        "ValidateNotifyCodeVerification",
    )
)


def changes_something(action: str) -> bool:
    """Return whether an action writes, by its name; an unknown verb counts as a write, and a batch as its single action.

    >>> changes_something("AdminGetUser"), changes_something("AdminDisableUser")
    (False, True)
    """
    each = without_batch(action).removeprefix(_AS_ADMINISTRATOR)
    return each not in _READS and (each in _WRITES or not each.startswith(READ_PREFIXES))


def without_batch(action: str) -> str:
    """Return an action without the word `Batch`: `BatchDeleteTable` -> `DeleteTable`."""
    return action.removeprefix("Batch") if len(action) > len("Batch") else action
