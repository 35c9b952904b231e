"""The accounts that a request names: in ARNs, and as bare numbers where a member or a policy says that they are accounts.

Example:
    >>> named_bare('{"aWSAccountIds": ["210987654321"], "orderId": "432109876543"}')
    ['210987654321']

Of several the last one is read: who lets an account in appends it. The expressions are of the syntax that Python and
RE2 share, and take time in proportion to the text: DuckDB runs them over every record.
"""

from __future__ import annotations

import re

from fingerprint.sources.cloudtrail.impact_grants import DELIVERED, HANDED_OVER, LENT

# In small letters: of policies, of what is shared, of networks that are joined, of buckets by their owner, and of the calls that
# name to whom they give something. Other things than those to whom it is given have the member `accountId`, too: of a portfolio
# it is read alone.
ACCOUNT_MEMBERS = sorted(
    {"aws", "valuestoadd", "accountidstoadd", "peerownerid", "peeraccountid"}
    | {"bucketaccountid", "s3bucketowneraccountid", "targetaccountid", "destinationaccount"}
    | {*HANDED_OVER.values(), *LENT.values(), *DELIVERED.values()} - {"accountid", "sharetarget"}
)

# Identity Center gives access to accounts of its organisation alone. So one that is new in these calls has joined it.
TO_MEMBERS = frozenset(
    f"sso:{action}"
    for action in (
        "Federate",
        "GetRoleCredentials",
        "ListAccountRoles",
        "CreateAccountAssignment",
        "DeleteAccountAssignment",
        "ListAccountAssignments",
        "ListPermissionSetsProvisionedToAccount",
        "ProvisionPermissionSet",
    )
)

_ARN = 'arn:aws[a-z-]*:[^:"]*:[^:"]*:'
_BLANKS = r"[\s\\nrt]*"  # also as they are written in a text of JSON, and the backslash of a quote in one
_LIST = rf'(?:\[{_BLANKS}(?:"[^"]*"{_BLANKS},{_BLANKS})*)?'
_MEMBER = rf'(?i:{"|".join(ACCOUNT_MEMBERS)})\\*"{_BLANKS}:{_BLANKS}{_LIST}'
# A snapshot, an image: with whom it is shared no more lies in `remove`.
_ADDED = r'add" *: *{ *"items" *: *\[ *(?:{[^{}]*} *, *)*{ *"userId" *: *'
# With whom a directory is shared, who is invited to an organisation; with whom a portfolio is.
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
    """Return the accounts that a request's JSON text names by bare numbers, in their order; of a list the last."""
    return _BARE_ACCOUNT.findall(text)
