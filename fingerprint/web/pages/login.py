"""/login and /logout: with a name and a password, or through the provider (`provider.py`)."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Form, Request, Response

from fingerprint.core.account import AuthenticationFailed, SecondFactorNeeded, TooManyAttempts
from fingerprint.web.auth import (
    OptionalCaller,
    check_origin,
    clear_session_cookie,
    client_context,
    session_secret,
)
from fingerprint.web.connection_limits import limit_concurrency
from fingerprint.web.dependencies import Dependencies, Deps
from fingerprint.web.layout import redirect, render_page, safe_local_path
from fingerprint.web.login import complete_login, redirect_to_second_factor
from fingerprint.web.security_events import annotate_request

router = APIRouter()


@router.get("/login")
def show_login_form(request: Request, caller: OptionalCaller, deps: Deps, next: str = "/") -> Response:
    """Whoever is in already goes on."""
    return redirect(safe_local_path(next)) if caller else _form(request, deps, next)


@router.post("/login")
@limit_concurrency("passwords")
def submit_login(
    request: Request,
    deps: Deps,
    name: Annotated[str, Form(max_length=1000)] = "",
    password: Annotated[str, Form(max_length=10_000)] = "",
    next: Annotated[str, Form(max_length=4000)] = "/",
) -> Response:
    """A session, the question for a second factor, or the form again with a sentence."""
    annotate_request(request.scope, event="login", name=name)
    check_origin(request, deps.settings)
    try:
        secret = deps.accounts.log_in(name, password, client_context(request, deps.settings))
    except SecondFactorNeeded as needed:
        annotate_request(request.scope, event="second_factor")
        return redirect_to_second_factor(needed, deps.settings, safe_local_path(next))
    except AuthenticationFailed as error:
        page = _form(request, deps, next, 429 if isinstance(error, TooManyAttempts) else 401, str(error))
        if isinstance(error, TooManyAttempts):
            page.headers["Retry-After"] = str(error.seconds)
        return page
    return complete_login(request, deps, secret, safe_local_path(next))


@router.post("/logout")
def submit_logout(request: Request, caller: OptionalCaller, deps: Deps) -> Response:
    """The session is over, here and in every copy of its cookie."""
    if caller:
        deps.accounts.log_out(session_secret(request, deps.settings))
    return clear_session_cookie(redirect("/login"), deps.settings)


def _form(request: Request, deps: Dependencies, next: str, status: int = 200, error: str = "") -> Response:
    web = deps.settings.web
    provider = web.oidc.provider_name if deps.provider else ""
    values: dict[str, Any] = {"next": safe_local_path(next), "error": error, "provider": provider}
    values |= {"passwords": not web.single_sign_on_only, "emergency": bool(web.emergency_account)}
    return render_page(request, "account/login.html", status, title="Log in", **values)
