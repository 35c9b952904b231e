"""/login, /logout, /setup/<secret> and /login/provider: log in by password, invitation link or OpenID provider."""

from __future__ import annotations

import secrets
from typing import Annotated, Any
from urllib.parse import quote, unquote

from fastapi import APIRouter, Form, HTTPException, Request, Response

from fingerprint.core.account import (
    LINK_EXPIRED,
    NAME_RULE,
    RECENT_PROOF,
    AuthenticationFailed,
    ExternalIdentity,
    Invitation,
    SecondFactorNeeded,
    TooManyAttempts,
)
from fingerprint.core.errors import FingerprintError
from fingerprint.core.ports.accounts import IdentityProvider
from fingerprint.web.auth import (
    OptionalCaller,
    check_origin,
    clear_session_cookie,
    client_context,
    session_secret,
    set_session_cookie,
)
from fingerprint.web.connection_limits import MAX_WAITING, limit_concurrency
from fingerprint.web.cookies import delete_cookie, read_cookie, set_cookie
from fingerprint.web.dependencies import Dependencies, Deps
from fingerprint.web.language import gettext
from fingerprint.web.layout import absolute_url, redirect, render_page, safe_local_path
from fingerprint.web.login import complete_login, redirect_to_second_factor
from fingerprint.web.security_events import annotate_request

router = APIRouter()


@router.get("/login")
def show_login_form(request: Request, caller: OptionalCaller, deps: Deps, next: str = "/") -> Response:
    """Show the form; redirect a caller who is logged in already."""
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
    """Begin a session, ask for a second factor, or show the form with an error."""
    annotate_request(request.scope, event="login", name=name)
    check_origin(request, deps.settings)
    try:
        secret = deps.account_store.logins.log_in(name, password, client_context(request, deps.settings))
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
    """End the session, here and in every copy of its cookie."""
    if caller:
        deps.account_store.sessions.log_out(session_secret(request, deps.settings))
    return clear_session_cookie(redirect("/login"), deps.settings)


def _form(request: Request, deps: Dependencies, next: str, status: int = 200, error: str = "") -> Response:
    web = deps.settings.web
    provider = web.oidc.provider_name if deps.provider else ""
    values: dict[str, Any] = {"next": safe_local_path(next), "error": error, "provider": provider}
    values["first_account"] = deps.account_store.accounts.awaits_first_account()
    values |= {"passwords": not web.single_sign_on_only, "emergency": bool(web.emergency_account)}
    return render_page(request, "account/login.html", status, title=gettext("Log in"), **values)


FIRST_LINK_EXPIRED = "this link is older than a day: start `fingerprint serve` again, it prints another"


@router.get("/setup/{secret}")
def show_invitation_form(request: Request, secret: str, deps: Deps) -> Response:
    """Show the form that an invitation leads to."""
    return _invitation_form(request, _valid_invitation(deps, secret))


@router.post("/setup/{secret}")
@limit_concurrency("passwords")
def submit_invitation_acceptance(
    request: Request,
    secret: str,
    deps: Deps,
    name: Annotated[str, Form(max_length=1000)] = "",
    password: Annotated[str, Form(max_length=10_000)] = "",
    again: Annotated[str, Form(max_length=10_000)] = "",
) -> Response:
    """Accept an invitation: begin a session, ask for a second factor, or show the form with an error."""
    check_origin(request, deps.settings)
    invited = _valid_invitation(deps, secret)
    if password != again:
        return _invitation_form(request, invited, "the two passwords differ: type both again", name)
    try:
        session = deps.account_store.logins.accept_invitation(
            secret, name, password, client_context(request, deps.settings)
        )
        return complete_login(request, deps, session)
    except SecondFactorNeeded as needed:
        annotate_request(request.scope, event="second_factor")
        return redirect_to_second_factor(needed, deps.settings)
    except AuthenticationFailed:
        raise
    except FingerprintError as error:
        return _invitation_form(request, invited, str(error), name)


def _valid_invitation(deps: Dependencies, secret: str) -> Invitation:
    invited = deps.account_store.accounts.invitation(secret)
    if invited is None:
        first = deps.account_store.accounts.awaits_first_account()
        raise HTTPException(404, FIRST_LINK_EXPIRED if first else LINK_EXPIRED)
    return invited


def _invitation_form(request: Request, invited: Invitation, error: str = "", name: str = "") -> Response:
    title = gettext("Set a password") if invited.name else gettext("The first account")
    values = {"invited": invited, "error": error, "name": name[:64], "name_rule": NAME_RULE}
    return render_page(request, "account/invitation.html", 400 if error else 200, title=title, **values)


CALLBACK_PATH = "/login/provider/back"
PROVIDER_LOGIN_MINUTES = 10  # that a login at the provider may take


@router.get("/login/provider")
@limit_concurrency("provider", per_network=MAX_WAITING)
def start_provider_login(request: Request, deps: Deps, next: str = "/", again: bool = False) -> Response:
    """Redirect to the provider; a cookie keeps the login's secret and its target.

    `again` has the provider ask for a new login.
    """
    secret = secrets.token_urlsafe(32)
    answer = redirect(_provider(deps).authorization_url(secret, absolute_url(request, CALLBACK_PATH), again))
    kept = f"{secret}.{'again' if again else ''}.{quote(safe_local_path(next), safe='')}"
    set_cookie(answer, "provider", kept, deps.settings, 60 * PROVIDER_LOGIN_MINUTES)
    return answer


@router.get(CALLBACK_PATH)
@limit_concurrency("provider", per_network=MAX_WAITING)
def finish_provider_login(request: Request, deps: Deps, state: str = "", code: str = "") -> Response:
    """Begin a session for the identity that the provider confirms, if this browser started the login."""
    annotate_request(request.scope, event="login")
    kept = read_cookie(request, "provider", deps.settings).split(".", 2)
    secret, again, path = kept if len(kept) == 3 else ("", "", "")
    if not (secret and state and code):
        raise AuthenticationFailed(
            "the login was not finished at the provider, or took too long: begin again"
        )
    identity = _provider(deps).authenticate(secret, state, code, absolute_url(request, CALLBACK_PATH))
    annotate_request(request.scope, name=identity.name)
    where = client_context(request, deps.settings)
    if again:
        _check_reauthenticated(identity, deps)
        deps.account_store.sessions.log_out(session_secret(request, deps.settings))
    session = deps.account_store.logins.log_in_as(identity, deps.settings.web.oidc.default_role, where)
    answer = set_session_cookie(redirect(safe_local_path(unquote(path))), session, deps.settings)
    delete_cookie(answer, "provider", deps.settings)
    return answer


def _check_reauthenticated(identity: ExternalIdentity, deps: Dependencies) -> None:
    """Raise AuthenticationFailed unless the provider confirms a login within the last minutes."""
    at = identity.authenticated_at
    if at is None or deps.clock.now() - at >= RECENT_PROOF:
        raise AuthenticationFailed(
            "the provider did not ask again who you are (auth_time in its ID token): log out there, then repeat it"
        )


def _provider(deps: Dependencies) -> IdentityProvider:
    if deps.provider is None:
        raise HTTPException(404, "single sign-on is not configured: set web.oidc, or log in with a password")
    return deps.provider
