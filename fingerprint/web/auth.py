"""Authentication and authorisation: the caller of a request, and the role, session or proof that a route requires.

Example:
    >>> @router.post("/alerts/{alert_id}/notes")
    ... def add_note(alert_id: str, body: NoteRequest, caller: Analyst, deps: Deps) -> CaseNote:
    ...     return deps.store.cases.add_note(alert_id, body.text, by=caller.name)

- Programs send a token (`Authorization: Bearer fpt_...`), browsers a session's cookie.
- A change with a cookie must come from the app's pages: it has the session's CSRF token (form field `csrf`, or header
  `X-CSRF-Token`), and the browser reports its origin (`Sec-Fetch-Site`, `Origin`).
- Routes require a role: `Viewer`, `Analyst`, `Engineer`, `Admin`. `SessionCaller` and `SessionAdmin` refuse tokens.
- `ReauthenticatedCaller` and `ReauthenticatedAdmin` are for changes that would make a stolen session permanent. They require a
  password, a second factor or a new login at the provider within the last ten minutes.
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
from fingerprint.web.cookies import delete_cookie, read_cookie, set_cookie
from fingerprint.web.dependencies import Dependencies, Deps

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})  # methods that change nothing
# Open pages request these by themselves, so a request does not show that a person uses the session.
BACKGROUND_PATHS = frozenset({"/api/v1/live"})
CSRF_FIELD, CSRF_HEADER = "csrf", "x-csrf-token"


class LoginRequired(Exception):
    """A page that needs a login was requested without one: the login page is the answer."""


class CrossSiteRequest(HTTPException):
    """Status 403: another site's page may have sent the change."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The authenticated caller. `csrf` goes into every form of a page; a token's caller has none and needs none."""

    name: str
    role: Role
    scopes: tuple[Scope, ...] = ()
    csrf: str = ""

    def has_role(self, needed: Role) -> bool:
        """Return whether the caller has a role or a higher one."""
        return role_includes(self.role, needed)


def session_secret(request: Request, settings: Settings) -> str:
    """Return the secret of the session cookie, valid or not; empty without one."""
    return read_cookie(request, "session", settings)


def set_session_cookie(response: Response, secret: str, settings: Settings) -> Response:
    """Set the session's cookie, and return the response."""
    set_cookie(response, "session", secret, settings)
    return response


def clear_session_cookie(response: Response, settings: Settings) -> Response:
    """Delete the session's cookie, and return the response."""
    delete_cookie(response, "session", settings)
    return response


def client_address(request: Request, settings: Settings) -> str:
    """Return the client's address: `web.trusted_proxies` proxies are trusted, counted from the nearest."""
    proxies = settings.web.trusted_proxies
    hops = [hop.strip() for hop in ",".join(request.headers.getlist("x-forwarded-for")).split(",")]
    if proxies and len(hops) >= proxies and hops[-proxies]:
        return hops[-proxies]
    return request.client.host if request.client else ""


def client_context(request: Request, settings: Settings) -> ClientInfo:
    """Return the origin of a request: address, User-Agent, and the device cookie."""
    device = read_cookie(request, "device", settings)
    return ClientInfo(client_address(request, settings), request.headers.get("user-agent", ""), device)


def csrf_token(secret: str) -> str:
    """Return a session's CSRF token, which cannot be computed without the session's secret and does not reveal it."""
    return blake2b(b"csrf", key=secret.encode()[:64], digest_size=32).hexdigest()


async def authenticate(request: Request, deps: Deps) -> Caller | None:
    """Return the caller by token or session; None without either.

    Answer 401 for an invalid token, 403 for a change that does not come from the app's own pages.
    """
    authorization = request.headers.get("authorization")
    find = (
        partial(_authenticate_token, authorization)
        if authorization
        else partial(_authenticate_session, request)
    )
    caller = await run_in_threadpool(find, deps)
    request.state.caller = caller  # for the pages, including error pages
    if caller and caller.csrf and request.method not in SAFE_METHODS:
        check_origin(request, deps.settings)
        await _check_csrf(request, caller.csrf)
    return caller


OptionalCaller = Annotated[Caller | None, Depends(authenticate)]


@dataclass(frozen=True, slots=True)
class RequireRole:
    """The dependency behind `require_role`; tests check that every route has it."""

    role: Role

    def __call__(self, request: Request, caller: OptionalCaller) -> Caller:
        """Return the caller, or answer 401 or 403, or redirect to the login page."""
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
    """Return the dependency of a route that needs a role.

    Example:
        >>> def show(caller: Annotated[Caller, require_role("analyst")]) -> Response: ...
    """
    return Depends(RequireRole(role))


Viewer = Annotated[Caller, require_role("viewer")]
Analyst = Annotated[Caller, require_role("analyst")]
Engineer = Annotated[Caller, require_role("engineer")]
Admin = Annotated[Caller, require_role("admin")]


def require_session(caller: Viewer) -> Caller:
    """Return the caller of a session; 403 for tokens, so that a stolen one cannot create tokens or accounts."""
    if not caller.csrf:
        raise HTTPException(403, "a token cannot do this: log in")
    return caller


SessionCaller = Annotated[Caller, Depends(require_session)]


def require_recent_authentication(request: Request, caller: SessionCaller, deps: Deps) -> Caller:
    """Return the caller if they confirmed their identity within ten minutes; else answer 403 or redirect to confirmation."""
    session = deps.account_store.sessions.get(session_secret(request, deps.settings))
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
    """Return an admin who is logged in; a token is refused."""
    return caller


SessionAdmin = Annotated[Caller, Depends(require_session_admin)]


def require_reauthenticated_admin(caller: SessionAdmin, _: ReauthenticatedCaller) -> Caller:
    """Return an admin who confirmed their identity within ten minutes."""
    return caller


ReauthenticatedAdmin = Annotated[Caller, Depends(require_reauthenticated_admin)]


def is_api_request(request: Request) -> bool:
    """Return whether the caller is a program, not a person."""
    return request.url.path.startswith("/api/") or request.url.path == "/metrics"


def check_origin(request: Request, settings: Settings) -> None:
    """Answer 403 if the browser reports that the request comes from another site.

    Clients other than browsers report nothing.
    """
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    own = {request.headers.get("host", ""), urlsplit(settings.web.public_url or "").netloc} - {""}
    if site not in (None, "same-origin", "none") or (origin and _split_url(origin).netloc not in own):
        raise CrossSiteRequest(
            403, "this came from another site, so nothing was changed: use the web app's own pages"
        )


def _split_url(url: str) -> SplitResult:
    """Return the parts of a URL from a header; all empty for an invalid one."""
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
    in_use = request.url.path not in BACKGROUND_PATHS
    person = deps.account_store.sessions.authenticate(secret, in_use) if secret else None
    return Caller(person.name, person.role, csrf=csrf_token(secret)) if person else None


def _authenticate_token(authorization: str, deps: Dependencies) -> Caller:
    kind, _, secret = authorization.partition(" ")
    found = deps.account_store.tokens.authenticate(secret.strip()) if kind.lower() == "bearer" else None
    if found is None:
        raise HTTPException(
            401,
            "this token is unknown, expired or revoked: make another under Account",
            {"WWW-Authenticate": 'Bearer error="invalid_token"'},
        )
    person, token = found
    return Caller(person.name, token_role(person.role, token.scopes), token.scopes)
