"""Who asks, and whether they may: what every route but the open ones depends on.

Example:
    >>> @router.post("/alerts/{alert_id}/notes")
    ... def note(alert_id: str, said: NewNote, caller: Analyst, doors: TheDoors) -> Note:
    ...     return doors.desk.note(alert_id, said.text, by=caller.name)

Programs show a token (`Authorization: Bearer fpt_...`), people a session's cookie. A change that rests on a cookie must come from
our own pages: it carries the session's CSRF token (form field `csrf`, or header `X-CSRF-Token`), and the browser says where it
comes from (`Sec-Fetch-Site`, `Origin`). Routes for the roles: `Viewer`, `Analyst`, `Engineer`, `Admin`. What only a person may
do asks for `InPerson` (or `AdminInPerson`), which no token is; what would make a stolen session a permanent one asks for `Proven`
(or `ProvenAdmin`): a password, a second factor or a fresh login at the provider within the last ten minutes.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import Annotated, Any
from urllib.parse import SplitResult, quote, urlsplit

from fastapi import Depends, HTTPException, Request, Response
from starlette.concurrency import run_in_threadpool

from fingerprint.core.account import ClientInfo, Role, Scope, role_includes, token_role
from fingerprint.core.settings import Settings
from fingerprint.web.dependencies import Dependencies, Deps

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})  # methods that change nothing
BACKGROUND_PATHS = frozenset(
    {"/api/v1/live"}
)  # what a page asks with nobody before it: no sign that a session is used
CSRF_FIELD, CSRF_HEADER = "csrf", "x-csrf-token"


class LoginRequired(Exception):
    """A page was asked for by nobody we know: the login page is the answer."""


class CrossSiteRequest(HTTPException):
    """403: a change that another site's page may have sent."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. `csrf` goes into every form of a page; a token's caller has none and needs none."""

    name: str
    role: Role
    scopes: tuple[Scope, ...] = ()
    csrf: str = ""

    def has_role(self, needed: Role) -> bool:
        return role_includes(self.role, needed)


def session_cookie_name(settings: Settings) -> str:
    """`__Host-` binds a cookie to this very host, and browsers take it over https alone."""
    return "__Host-session" if settings.web.https else "session"


def session_secret(request: Request, settings: Settings) -> str:
    """The secret that the browser shows, good or not; empty without one."""
    return request.cookies.get(session_cookie_name(settings), "")


def set_session_cookie(response: Response, secret: str, settings: Settings) -> Response:
    """Give the browser its session, which no script can read and no other site can send along with a form."""
    name, secure = session_cookie_name(settings), settings.web.https
    response.set_cookie(name, secret, path="/", httponly=True, samesite="lax", secure=secure)
    return response


def clear_session_cookie(response: Response, settings: Settings) -> Response:
    name, secure = session_cookie_name(settings), settings.web.https
    response.delete_cookie(name, path="/", httponly=True, samesite="lax", secure=secure)
    return response


def client_address(request: Request, settings: Settings) -> str:
    """Whose request it is: as many proxies are believed as `web.trusted_proxies` says, from the nearest on."""
    proxies = settings.web.trusted_proxies
    hops = [hop.strip() for hop in ",".join(request.headers.getlist("x-forwarded-for")).split(",")]
    if proxies and len(hops) >= proxies and hops[-proxies]:
        return hops[-proxies]
    return request.client.host if request.client else ""


def client_context(request: Request, settings: Settings) -> ClientInfo:
    """From where a request comes: address, the browser's own words, and the device that it says it is."""
    device = request.cookies.get(device_cookie_name(settings), "")
    return ClientInfo(client_address(request, settings), request.headers.get("user-agent", ""), device)


def device_cookie_name(settings: Settings) -> str:
    """The cookie of a browser in which somebody logged in before."""
    return "__Host-device" if settings.web.https else "device"


def csrf_token(secret: str) -> str:
    """A session's CSRF token: only who knows the session's secret can name it, and it says nothing of the secret."""
    return blake2b(b"csrf", key=secret.encode()[:64], digest_size=32).hexdigest()


async def authenticate(request: Request, deps: Deps) -> Caller | None:
    """Who asks, by token or by session; None for nobody. 401 for a token that is not good, 403 for a change that does not
    come from our own pages."""
    authorization = request.headers.get("authorization")
    find = (
        partial(_authenticate_token, authorization)
        if authorization
        else partial(_authenticate_session, request)
    )
    caller = await run_in_threadpool(find, deps)
    request.state.caller = caller  # for the pages, also those that say no
    if caller and caller.csrf and request.method not in SAFE_METHODS:
        check_origin(request, deps.settings)
        await _check_csrf(request, caller.csrf)
    return caller


OptionalCaller = Annotated[Caller | None, Depends(authenticate)]


@dataclass(frozen=True, slots=True)
class RequireRole:
    """The dependency behind `needs`; tests find it in every route."""

    role: Role

    def __call__(self, request: Request, caller: OptionalCaller) -> Caller:
        if caller is None:
            if is_api_request(request):
                raise HTTPException(
                    401,
                    "log in, or send a token: `Authorization: Bearer fpt_...`",
                    {"WWW-Authenticate": "Bearer"},
                )
            raise LoginRequired
        if not caller.has_role(self.role):
            raise HTTPException(403, f"this needs the role {self.role}; {caller.name} has {caller.role} here")
        return caller


def require_role(role: Role) -> Any:
    """What a route depends on: `caller: Annotated[Caller, needs("analyst")]`, or `dependencies=[needs("admin")]`."""
    return Depends(RequireRole(role))


Viewer = Annotated[Caller, require_role("viewer")]
Analyst = Annotated[Caller, require_role("analyst")]
Engineer = Annotated[Caller, require_role("engineer")]
Admin = Annotated[Caller, require_role("admin")]


def require_session(caller: Viewer) -> Caller:
    """403 for tokens: who finds one must not make others of it, nor accounts."""
    if not caller.csrf:
        raise HTTPException(403, "a token cannot do this: log in")
    return caller


SessionCaller = Annotated[Caller, Depends(require_session)]


def require_recent_authentication(request: Request, caller: SessionCaller, deps: Deps) -> Caller:
    """403, or on to the page that asks for it, unless the session's owner proved within ten minutes who they are."""
    session = deps.accounts.session(session_secret(request, deps.settings))
    if session and session.is_proven(deps.clock.now()):
        return caller
    if is_api_request(request):
        raise HTTPException(403, "confirm your identity first: open /confirm in this browser, then repeat it")
    back = (
        request.url.path
        if request.method in SAFE_METHODS
        else _split_url(request.headers.get("referer", "")).path
    )
    raise HTTPException(
        303, "confirm your identity first", {"Location": f"/confirm?next={quote(back or '/', safe='')}"}
    )


ReauthenticatedCaller = Annotated[Caller, Depends(require_recent_authentication)]


def require_session_admin(caller: Admin, _: SessionCaller) -> Caller:
    """An admin who is logged in, not a token of theirs."""
    return caller


SessionAdmin = Annotated[Caller, Depends(require_session_admin)]


def require_reauthenticated_admin(caller: SessionAdmin, _: ReauthenticatedCaller) -> Caller:
    """An admin who proved within ten minutes who they are."""
    return caller


ReauthenticatedAdmin = Annotated[Caller, Depends(require_reauthenticated_admin)]


def is_api_request(request: Request) -> bool:
    """Whether a program is answered, not a person."""
    return request.url.path.startswith("/api/") or request.url.path == "/metrics"


def check_origin(request: Request, settings: Settings) -> None:
    """403 where the browser says that the request comes from another site. What is no browser says nothing."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    own = {request.headers.get("host", ""), urlsplit(settings.web.public_url or "").netloc} - {""}
    if site not in (None, "same-origin", "none") or (origin and _split_url(origin).netloc not in own):
        raise CrossSiteRequest(
            403, "this came from another site, so nothing was changed: use the web app's own pages"
        )


def _split_url(url: str) -> SplitResult:
    """The parts of what a browser says is a URL; all empty where it is none."""
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")


async def _check_csrf(request: Request, csrf: str) -> None:
    given = request.headers.get(CSRF_HEADER)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given is None and kind in ("application/x-www-form-urlencoded", "multipart/form-data"):
        field = (await request.form()).get(CSRF_FIELD)
        given = field if isinstance(field, str) else None
    if given is None or not hmac.compare_digest(given.encode(errors="replace"), csrf.encode()):
        raise CrossSiteRequest(
            403, "the page was too old or not ours, so nothing was changed: load it again, then repeat it"
        )


def _authenticate_session(request: Request, deps: Dependencies) -> Caller | None:
    secret = session_secret(request, deps.settings)
    awake = request.url.path not in BACKGROUND_PATHS
    person = deps.accounts.authenticate_session(secret, awake) if secret else None
    return Caller(person.name, person.role, csrf=csrf_token(secret)) if person else None


def _authenticate_token(authorization: str, deps: Dependencies) -> Caller:
    kind, _, secret = authorization.partition(" ")
    found = deps.accounts.authenticate_token(secret.strip()) if kind.lower() == "bearer" else None
    if found is None:
        raise HTTPException(
            401,
            "this token is unknown, expired or revoked: make another under Account",
            {"WWW-Authenticate": 'Bearer error="invalid_token"'},
        )
    person, token = found
    return Caller(person.name, token_role(person.role, token.scopes), token.scopes)
