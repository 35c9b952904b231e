"""Openings: calls by which a caller gets the credentials of a role, each as a role and its opener.

Example:
    >>> opening(None, "account", "905511842217:account/AROAEXAMPLE", "role:cost-audit", None, "111122223333")
    ('role:cost-audit in 111122223333', '905511842217:account')

A role is opened for weeks by the same pipeline, vendor or few people. A lax trust policy lets others in, too. Then the opening is
the only sign: the session of the role does what it always does.
"""

from __future__ import annotations

OPENING_COLUMNS = (
    "error_code",
    "kind",
    "principal",
    "resource",
    "target_account",
    "recipient_account",
)
WORKLOAD_SIGN_INS = frozenset({"sts:AssumeRoleWithWebIdentity"})
OPENING_ACTIONS = frozenset({"sts:AssumeRole", "sts:AssumeRoleWithSAML"}) | WORKLOAD_SIGN_INS
_ENVIRONMENT = "%3Aenvironment%3A"  # separates repository and environment in the key of a pipeline's run


def opening(
    error: str | None,
    kind: str | None,
    principal: str | None,
    resource: str | None,
    target: str | None,
    account: str | None,
) -> tuple[str, str] | None:
    """Return the role that a call of OPENING_ACTIONS opened, with its account, and the opener; None if it opened no role.

    - Services are left out: they open the roles that they are given.
    - All callers of another account are one opener: that account decides which of its callers may open the role, and the ids of
      its roles change when it makes them again.
    - All environments of a repository are one opener; each of its branches is another one.
    """
    if error or kind == "service" or not principal or not (resource or "").startswith("role:"):
        return None
    opener = principal.partition("/" if kind == "account" else _ENVIRONMENT)[0]
    return f"{resource} in {target or account}", opener
