"""/confirm: confirm the identity of the caller before changes that would make a stolen session permanent."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request, Response

from fingerprint.core.account import AuthenticationFailed, SecondFactorResponse, TooManyAttempts
from fingerprint.web.auth import Caller, SessionCaller, session_secret
from fingerprint.web.connection_limits import limit_concurrency
from fingerprint.web.dependencies import Dependencies, Deps
from fingerprint.web.language import gettext
from fingerprint.web.layout import redirect, render_page, safe_local_path
from fingerprint.web.login import relying_party
from fingerprint.web.security_events import annotate_request

router = APIRouter()


@router.get("/confirm")
def show_confirm_form(request: Request, caller: SessionCaller, deps: Deps, next: str = "/") -> Response:
    """Show the form that asks for a password or second factor again."""
    return _form(request, caller, deps, next)


@router.post("/confirm")
@limit_concurrency("proofs")
def submit_confirmation(
    request: Request,
    caller: SessionCaller,
    deps: Deps,
    password: Annotated[str, Form(max_length=10_000)] = "",
    code: Annotated[str, Form(max_length=100)] = "",
    passkey: Annotated[str, Form(max_length=20_000)] = "",
    next: Annotated[str, Form(max_length=4000)] = "/",
) -> Response:
    """Redirect back to the page, or show the form with an error."""
    annotate_request(request.scope, event="password")
    shown = SecondFactorResponse(code, passkey, relying_party(request))
    try:
        deps.account_store.logins.reauthenticate(session_secret(request, deps.settings), password, shown)
    except AuthenticationFailed as error:
        page = _form(
            request, caller, deps, next, 429 if isinstance(error, TooManyAttempts) else 403, error=str(error)
        )
        if isinstance(error, TooManyAttempts):
            page.headers["Retry-After"] = str(error.seconds)
        return page
    return redirect(safe_local_path(next))


def _form(
    request: Request, caller: Caller, deps: Dependencies, next: str, status: int = 200, error: str = ""
) -> Response:
    kinds, party = deps.account_store.second_factors.kinds(caller.name), relying_party(request)
    options = ""
    if "passkey" in kinds and party:
        options = deps.account_store.logins.begin_passkey(session_secret(request, deps.settings), party)
    values = {"person": deps.account_store.accounts.get(caller.name), "kinds": kinds, "options": options}
    values |= {
        "next": safe_local_path(next),
        "error": error,
        "provider": deps.settings.web.oidc.provider_name,
    }
    return render_page(
        request, "account/confirm_identity.html", status, title=gettext("Is it you?"), **values
    )
