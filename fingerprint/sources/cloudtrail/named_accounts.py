"""The accounts that a request names: in ARNs, and as bare numbers in members or policies that name accounts.

Example:
    >>> named_bare('{"aWSAccountIds": ["210987654321"], "orderId": "432109876543"}')
    ['210987654321']

Of a list the last account is read, because a newly admitted account is appended. The expressions use the syntax that Python and
RE2 share, and take time in proportion to the text: DuckDB runs them over every record.
"""

from __future__ import annotations

import re

from fingerprint.sources.cloudtrail.impact_grants import DELIVERED, HANDED_OVER, LENT

# Members, in small letters, of policies, of shared things, of joined networks, of buckets by their owner, and of calls that name
# the receiver of something. `accountId` also names other accounts than receivers, so it is read of a portfolio alone.
ACCOUNT_MEMBERS = sorted(
    {"aws", "valuestoadd", "accountidstoadd", "peerownerid", "peeraccountid"}
    | {"bucketaccountid", "s3bucketowneraccountid", "targetaccountid", "destinationaccount"}
    | {*HANDED_OVER.values(), *LENT.values(), *DELIVERED.values()} - {"accountid", "sharetarget"}
)

# Identity Center gives access only to accounts of its organisation, so an account that is new in these calls has joined it.
# People enter accounts by permission sets that an administrator assigned to them ...
ENTRIES = frozenset({"sso:Federate", "sso:GetRoleCredentials"})
# ... and administrators assign them.
TO_MEMBERS = ENTRIES | {
    "sso:ListAccountRoles",
    "sso:CreateAccountAssignment",
    "sso:DeleteAccountAssignment",
    "sso:ListAccountAssignments",
    "sso:ListPermissionSetsProvisionedToAccount",
    "sso:ProvisionPermissionSet",
}

_ARN = 'arn:aws[a-z-]*:[^:"]*:[^:"]*:'
_BLANKS = r"[\s\\nrt]*"  # blanks, also escaped as in JSON text, and the backslash of an escaped quote
_LIST = rf'(?:\[{_BLANKS}(?:"[^"]*"{_BLANKS},{_BLANKS})*)?'
_MEMBER = rf'(?i:{"|".join(ACCOUNT_MEMBERS)})\\*"{_BLANKS}:{_BLANKS}{_LIST}'
# The accounts with which a snapshot or an image is shared; `remove` has those with which it is no longer shared.
_ADDED = r'add" *: *{ *"items" *: *\[ *(?:{[^{}]*} *, *)*{ *"userId" *: *'
# The accounts with which a directory is shared, that are invited to an organisation, or with which a portfolio is shared.
_TARGET = r'(?:shareT|t)arget" *: *{ *(?:"type" *: *"[^"]*" *, *)?"id" *: *'
_PORTFOLIO = r'portfolioId" *: *"[^"]*" *, *(?:"acceptLanguage" *: *"[^"]*" *, *)?"accountId" *: *'
_END = r'\\*[:"]'
_BARE = f'"(?:{_MEMBER}|{_ADDED}|{_TARGET}|{_PORTFOLIO})"'
ARN_ACCOUNT = f'{_ARN}([0-9]{{12}})[:"]'
NUMBER_IN_QUOTES = f'"[0-9]{{12}}{_END}'
NAMED_ACCOUNT = f"(?:{_ARN}|{_BARE})([0-9]{{12}}){_END}"
NAMED_IN_ARN = (
    f"{_ARN}([0-9]{{12}}){_END}"  # as NAMED_ACCOUNT, in a text without NUMBER_IN_QUOTES: half the time
)

_BARE_ACCOUNT = re.compile(f"{_BARE}([0-9]{{12}}){_END}")


def named_bare(text: str) -> list[str]:
    """Return the accounts that a request's JSON text names by bare numbers, in their order; the last one of each list."""
    return _BARE_ACCOUNT.findall(text)
