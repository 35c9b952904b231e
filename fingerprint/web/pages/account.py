"""/account: the password, sessions and tokens of the caller; second factors are in `second_factors.py`."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Form, HTTPException, Request, Response

from fingerprint.core.account import SCOPES, AuthenticationFailed, Scope, TooManyAttempts, role_includes
from fingerprint.core.errors import FingerprintError
from fingerprint.web.auth import Caller, ReauthenticatedCaller, SessionCaller, client_context, session_secret
from fingerprint.web.connection_limits import limit_concurrency
from fingerprint.web.dependencies import Dependencies, Deps
from fingerprint.web.language import N_, gettext
from fingerprint.web.layout import redirect, render_page
from fingerprint.web.login import complete_login
from fingerprint.web.security_events import annotate_request

router = APIRouter()
SCOPE_DESCRIPTIONS: dict[Scope, str] = {
    "read": N_("looks at everything but the audit"),
    "triage": N_("decides, assigns and notes"),
    "engineer": N_("suppresses, sets thresholds and reads the audit"),
    "admin": N_("manages accounts, all tokens and retention"),
}
TOKEN_DAYS = (7, 30, 90, 180, 365)  # that a token may be good for


@router.get("/account")
def show_account(request: Request, caller: SessionCaller, deps: Deps) -> Response:
    """Show the caller's own account."""
    return _page(request, caller, deps)


@router.post("/account/password")
@limit_concurrency("proofs")
def submit_password(
    request: Request,
    caller: SessionCaller,
    deps: Deps,
    old: Annotated[str, Form(max_length=10_000)] = "",
    new: Annotated[str, Form(max_length=10_000)] = "",
    again: Annotated[str, Form(max_length=10_000)] = "",
    end_tokens: Annotated[bool, Form()] = False,
) -> Response:
    """Change the password; end all sessions but the new one, and all tokens if the box is ticked."""
    annotate_request(request.scope, event="password")
    if new != again:
        return _page(request, caller, deps, 400, error="the two new passwords differ: type both again")
    session, where = session_secret(request, deps.settings), client_context(request, deps.settings)
    try:
        secret = deps.account_store.logins.change_password(session, old, new, where, end_tokens)
    except TooManyAttempts as error:
        return _page(request, caller, deps, 429, error=str(error))
    except AuthenticationFailed:
        return _page(request, caller, deps, 403, error="the old password is wrong")
    except FingerprintError as error:
        return _page(request, caller, deps, 400, error=str(error))
    return complete_login(request, deps, secret, "/account")


@router.post("/account/sessions/{session_id}/end")
def submit_session_end(session_id: str, caller: SessionCaller, deps: Deps) -> Response:
    """End a session of the caller."""
    deps.account_store.sessions.end(session_id, by=caller.name, owner=caller.name)
    return redirect("/account")


@router.post("/account/leave-others")
def submit_other_sessions_end(request: Request, caller: SessionCaller, deps: Deps) -> Response:
    """End the caller's other sessions."""
    deps.account_store.sessions.end_others(caller.name, session_secret(request, deps.settings))
    return redirect("/account")


@router.post("/account/tokens")
def submit_token(
    request: Request,
    caller: ReauthenticatedCaller,
    deps: Deps,
    label: Annotated[str, Form(max_length=1000)] = "",
    scope: Annotated[list[Scope] | None, Form()] = None,
    days: Annotated[int, Form()] = 90,
) -> Response:
    """Create a token. Its secret is only in this answer, so there is no redirect."""
    if days not in TOKEN_DAYS:
        raise HTTPException(422, f"a token is good for one of {', '.join(map(str, TOKEN_DAYS))} days")
    ends = deps.clock.now() + timedelta(days=days)
    try:
        token, secret = deps.account_store.tokens.create(
            caller.name, label, scope or (), ends, by=caller.name
        )
    except FingerprintError as error:
        return _page(request, caller, deps, 400, error=str(error))
    return _page(request, caller, deps, created_token=token, secret=secret)


@router.post("/account/tokens/{token_id}/revoke")
def submit_token_revocation(token_id: str, caller: SessionCaller, deps: Deps) -> Response:
    """Revoke a token of the caller."""
    deps.account_store.tokens.revoke(token_id, by=caller.name, owner=caller.name)
    return redirect("/account")


def _page(request: Request, caller: Caller, deps: Dependencies, status: int = 200, **values: Any) -> Response:
    values = {"error": "", "created_token": None, "secret": ""} | values
    now = deps.clock.now()
    tokens = [
        each
        for each in deps.account_store.tokens.list_all(caller.name)
        if not each.revoked_at and each.expires_at > now
    ]
    scopes = {
        scope: SCOPE_DESCRIPTIONS[scope] for scope, role in SCOPES.items() if role_includes(caller.role, role)
    }
    values |= {
        "tokens": tokens,
        "scopes": scopes,
        "days": TOKEN_DAYS,
        "person": deps.account_store.accounts.get(caller.name),
    }
    values |= {
        "sessions": deps.account_store.sessions.of_account(caller.name),
        "factors": deps.account_store.second_factors.of_account(caller.name),
    }
    values["current"] = deps.account_store.sessions.get(session_secret(request, deps.settings))
    return render_page(request, "account/account.html", status, title=gettext("Account"), **values)
