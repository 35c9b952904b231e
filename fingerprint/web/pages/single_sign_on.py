"""/login/provider: to the OpenID provider and back. A link and no form: the Content-Security-Policy lets no form leave."""

from __future__ import annotations

import secrets
from urllib.parse import quote, unquote

from fastapi import APIRouter, HTTPException, Request, Response

from fingerprint.core.account import RECENT, Identity, Refused
from fingerprint.core.ports.accounts import Provider
from fingerprint.core.settings import Settings
from fingerprint.web.auth import keep_session, session_of, where_of
from fingerprint.web.connection_limits import WAITING, limited
from fingerprint.web.dependencies import Doors, TheDoors
from fingerprint.web.layout import go, link, local
from fingerprint.web.security_events import note

router = APIRouter()
BACK = "/login/provider/back"
MINUTES = 10  # that a login at the provider may take


@router.get("/login/provider")
@limited("provider", each=WAITING)
def start(request: Request, doors: TheDoors, next: str = "/", again: bool = False) -> Response:
    """The browser keeps one secret and where it wanted to go. `again`: the provider is to ask who it is, whoever it knows."""
    secret = secrets.token_urlsafe(32)
    answer = go(_provider(doors).start(secret, link(request, BACK), again))
    name, secure = _cookie(doors.settings), doors.settings.web.https
    kept = f"{secret}.{'again' if again else ''}.{quote(local(next), safe='')}"
    answer.set_cookie(name, kept, 60 * MINUTES, path="/", httponly=True, samesite="lax", secure=secure)
    return answer


@router.get(BACK)
@limited("provider", each=WAITING)
def finish(request: Request, doors: TheDoors, state: str = "", code: str = "") -> Response:
    """A session for whom the provider vouches, if this browser began."""
    note(request.scope, event="login")
    kept = request.cookies.get(_cookie(doors.settings), "").split(".", 2)
    secret, again, wanted = kept if len(kept) == 3 else ("", "", "")
    if not (secret and state and code):
        raise Refused("the login was not finished at the provider, or took too long: begin again")
    identity = _provider(doors).finish(secret, state, code, link(request, BACK))
    note(request.scope, name=identity.name)
    where = where_of(request, doors.settings)
    if again:
        _check_asked(identity, doors)
        doors.people.leave(session_of(request, doors.settings))
    session = doors.people.enter_as(identity, doors.settings.web.oidc.default_role, where)
    answer = keep_session(go(local(unquote(wanted))), session, doors.settings)
    answer.delete_cookie(_cookie(doors.settings), path="/", secure=doors.settings.web.https, httponly=True)
    return answer


def _check_asked(identity: Identity, doors: Doors) -> None:
    """Refused where the provider does not say that it asked just now."""
    at = identity.authenticated_at
    if at is None or doors.clock.now() - at >= RECENT:
        raise Refused(
            "the provider did not ask again who you are (auth_time in its ID token): log out there, then repeat it"
        )


def _provider(doors: Doors) -> Provider:
    if doors.provider is None:
        raise HTTPException(404, "nobody is vouched for here: set web.oidc, or log in with a password")
    return doors.provider


def _cookie(settings: Settings) -> str:
    return "__Host-provider" if settings.web.https else "provider"
