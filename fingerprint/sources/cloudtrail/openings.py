"""Openings: the calls by which a caller gets the credentials of a role, and who opened which role.

Example:
    >>> opening(None, "account", "905511842217:account/AROAEXAMPLE", "role:cost-audit", None, "111122223333")
    ('role:cost-audit in 111122223333', '905511842217:account')

The same role is opened for weeks by the same pipeline, vendor or few people. A lax trust policy lets others in as well, and their
first call is all that tells: the role's own session does what it always does.
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
_ENVIRONMENT = "%3Aenvironment%3A"  # in the key of a repository's run, before the name of its environment


def opening(
    error: str | None,
    kind: str | None,
    principal: str | None,
    resource: str | None,
    target: str | None,
    account: str | None,
) -> tuple[str, str] | None:
    """Return the role that a call of OPENING_ACTIONS opened, with its account, and who opened it; None where it opened none.

    Services open the roles that they are given. Callers of another account are one: that account says whether they may, and the
    ids of its roles change when it makes them again. So are the environments of one repository; its other branches are another.
    """
    if error or kind == "service" or not principal or not (resource or "").startswith("role:"):
        return None
    opener = principal.partition("/" if kind == "account" else _ENVIRONMENT)[0]
    return f"{resource} in {target or account}", opener
