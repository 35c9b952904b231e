"""/login/provider: to the OpenID provider and back. A link and no form: the Content-Security-Policy lets no form leave."""

from __future__ import annotations

import secrets
from urllib.parse import quote, unquote

from fastapi import APIRouter, HTTPException, Request, Response

from fingerprint.core.account import RECENT_PROOF, AuthenticationFailed, ExternalIdentity
from fingerprint.core.ports.accounts import IdentityProvider
from fingerprint.core.settings import Settings
from fingerprint.web.auth import client_context, session_secret, set_session_cookie
from fingerprint.web.connection_limits import MAX_WAITING, limit_concurrency
from fingerprint.web.dependencies import Dependencies, Deps
from fingerprint.web.layout import absolute_url, redirect, safe_local_path
from fingerprint.web.security_events import annotate_request

router = APIRouter()
CALLBACK_PATH = "/login/provider/back"
PROVIDER_LOGIN_MINUTES = 10  # that a login at the provider may take


@router.get("/login/provider")
@limit_concurrency("provider", per_network=MAX_WAITING)
def start_provider_login(request: Request, deps: Deps, next: str = "/", again: bool = False) -> Response:
    """The browser keeps one secret and where it wanted to go. `again`: the provider is to ask who it is, whoever it knows."""
    secret = secrets.token_urlsafe(32)
    answer = redirect(_provider(deps).authorization_url(secret, absolute_url(request, CALLBACK_PATH), again))
    name, secure = _cookie(deps.settings), deps.settings.web.https
    kept = f"{secret}.{'again' if again else ''}.{quote(safe_local_path(next), safe='')}"
    answer.set_cookie(
        name, kept, 60 * PROVIDER_LOGIN_MINUTES, path="/", httponly=True, samesite="lax", secure=secure
    )
    return answer


@router.get(CALLBACK_PATH)
@limit_concurrency("provider", per_network=MAX_WAITING)
def finish_provider_login(request: Request, deps: Deps, state: str = "", code: str = "") -> Response:
    """A session for whom the provider vouches, if this browser began."""
    annotate_request(request.scope, event="login")
    kept = request.cookies.get(_cookie(deps.settings), "").split(".", 2)
    secret, again, wanted = kept if len(kept) == 3 else ("", "", "")
    if not (secret and state and code):
        raise AuthenticationFailed(
            "the login was not finished at the provider, or took too long: begin again"
        )
    identity = _provider(deps).authenticate(secret, state, code, absolute_url(request, CALLBACK_PATH))
    annotate_request(request.scope, name=identity.name)
    where = client_context(request, deps.settings)
    if again:
        _check_reauthenticated(identity, deps)
        deps.accounts.log_out(session_secret(request, deps.settings))
    session = deps.accounts.log_in_as(identity, deps.settings.web.oidc.default_role, where)
    answer = set_session_cookie(redirect(safe_local_path(unquote(wanted))), session, deps.settings)
    answer.delete_cookie(_cookie(deps.settings), path="/", secure=deps.settings.web.https, httponly=True)
    return answer


def _check_reauthenticated(identity: ExternalIdentity, deps: Dependencies) -> None:
    """Refused where the provider does not say that it asked just now."""
    at = identity.authenticated_at
    if at is None or deps.clock.now() - at >= RECENT_PROOF:
        raise AuthenticationFailed(
            "the provider did not ask again who you are (auth_time in its ID token): log out there, then repeat it"
        )


def _provider(deps: Dependencies) -> IdentityProvider:
    if deps.provider is None:
        raise HTTPException(404, "single sign-on is not configured: set web.oidc, or log in with a password")
    return deps.provider


def _cookie(settings: Settings) -> str:
    return "__Host-provider" if settings.web.https else "provider"
