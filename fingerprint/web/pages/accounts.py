"""/accounts: accounts, roles, invitation links and all tokens. For admins."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Form, Request, Response

from fingerprint.core.account import NAME_RULE, ROLES, Role
from fingerprint.core.errors import FingerprintError
from fingerprint.web.auth import Caller, ReauthenticatedAdmin, SessionAdmin
from fingerprint.web.dependencies import Dependencies, Deps
from fingerprint.web.language import gettext
from fingerprint.web.layout import absolute_url, redirect, render_page

router = APIRouter()
NEW_PERSON = {"name": "", "wanted_role": "analyst"}  # what the form of an invitation begins with
AccountNameField = Annotated[str, Form(max_length=1000)]


@router.get("/accounts")
def show_accounts(request: Request, caller: SessionAdmin, deps: Deps) -> Response:
    """Show all accounts and tokens."""
    return _page(request, deps)


@router.post("/accounts")
def submit_invitation(
    request: Request,
    caller: ReauthenticatedAdmin,
    deps: Deps,
    name: AccountNameField = "",
    role: Annotated[Role, Form()] = "analyst",
) -> Response:
    """Create an account; its link is only in this answer."""
    return _invite(request, caller, deps, name, role)


@router.post("/accounts/{name}/link")
def submit_new_link(request: Request, name: str, caller: ReauthenticatedAdmin, deps: Deps) -> Response:
    """Create a link for a forgotten password or an expired link."""
    return _invite(request, caller, deps, name, None)


@router.post("/accounts/{name}/role")
def submit_role(
    request: Request, name: str, caller: ReauthenticatedAdmin, deps: Deps, role: Annotated[Role, Form()]
) -> Response:
    """Change the role of an account."""
    try:
        deps.account_store.accounts.set_role(name, role, by=caller.name)
    except FingerprintError as error:
        return _page(request, deps, 409, error=str(error))
    return redirect("/accounts")


@router.post("/accounts/{name}/disable")
def submit_disable(request: Request, name: str, caller: SessionAdmin, deps: Deps) -> Response:
    """Disable an account."""
    try:
        deps.account_store.accounts.disable(name, by=caller.name)
    except FingerprintError as error:
        return _page(request, deps, 409, error=str(error))
    return redirect("/accounts")


@router.post("/accounts/{name}/enable")
def submit_enable(name: str, caller: ReauthenticatedAdmin, deps: Deps) -> Response:
    """Enable an account."""
    deps.account_store.accounts.enable(name, by=caller.name)
    return redirect("/accounts")


@router.post("/accounts/{name}/end")
def submit_sessions_end(name: str, caller: SessionAdmin, deps: Deps) -> Response:
    """End the sessions and tokens of an account."""
    deps.account_store.sessions.end_all(name, by=caller.name)
    return redirect("/accounts")


@router.post("/accounts/{name}/reset-second-factor")
def submit_second_factor_reset(name: str, caller: ReauthenticatedAdmin, deps: Deps) -> Response:
    """Remove the lost second factors of an account."""
    deps.account_store.second_factors.reset(name, by=caller.name)
    return redirect("/accounts")


@router.post("/accounts/tokens/{token_id}/revoke")
def submit_any_token_revocation(token_id: str, caller: SessionAdmin, deps: Deps) -> Response:
    """Revoke a token of any account."""
    deps.account_store.tokens.revoke(token_id, by=caller.name)
    return redirect("/accounts")


def _invite(request: Request, caller: Caller, deps: Dependencies, name: str, role: Role | None) -> Response:
    try:
        secret = deps.account_store.accounts.invite(name, role, by=caller.name)
    except FingerprintError as error:
        return _page(
            request, deps, 409, error=str(error), **({"name": name[:64], "wanted_role": role} if role else {})
        )
    return _page(request, deps, invited=name.strip().lower(), link=absolute_url(request, f"/setup/{secret}"))


def _page(request: Request, deps: Dependencies, status: int = 200, **values: Any) -> Response:
    values = NEW_PERSON | {"error": "", "invited": "", "link": "", "name_rule": NAME_RULE} | values
    now = deps.clock.now()
    tokens = [
        token
        for token in deps.account_store.tokens.list_all()
        if not token.revoked_at and token.expires_at > now
    ]
    values |= {"persons": deps.account_store.accounts.list_all(), "tokens": tokens, "roles": ROLES}
    values["with_second_factor"] = deps.account_store.second_factors.account_names()
    return render_page(request, "account/accounts.html", status, title=gettext("Accounts"), **values)
