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

from fingerprint.core.account import Role, Scope, Where, may, role_of
from fingerprint.core.settings import Settings
from fingerprint.web.dependencies import Doors, TheDoors

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})  # methods that change nothing
BY_ITSELF = frozenset(
    {"/api/v1/live"}
)  # what a page asks with nobody before it: no sign that a session is used
FIELD, HEADER = "csrf", "x-csrf-token"


class LoginNeeded(Exception):
    """A page was asked for by nobody we know: the login page is the answer."""


class CrossSite(HTTPException):
    """403: a change that another site's page may have sent."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. `csrf` goes into every form of a page; a token's caller has none and needs none."""

    name: str
    role: Role
    scopes: tuple[Scope, ...] = ()
    csrf: str = ""

    def may(self, needed: Role) -> bool:
        return may(self.role, needed)


def cookie_name(settings: Settings) -> str:
    """`__Host-` binds a cookie to this very host, and browsers take it over https alone."""
    return "__Host-session" if settings.web.https else "session"


def session_of(request: Request, settings: Settings) -> str:
    """The secret that the browser shows, good or not; empty without one."""
    return request.cookies.get(cookie_name(settings), "")


def keep_session(response: Response, secret: str, settings: Settings) -> Response:
    """Give the browser its session, which no script can read and no other site can send along with a form."""
    name, secure = cookie_name(settings), settings.web.https
    response.set_cookie(name, secret, path="/", httponly=True, samesite="lax", secure=secure)
    return response


def forget_session(response: Response, settings: Settings) -> Response:
    name, secure = cookie_name(settings), settings.web.https
    response.delete_cookie(name, path="/", httponly=True, samesite="lax", secure=secure)
    return response


def address_of(request: Request, settings: Settings) -> str:
    """Whose request it is: as many proxies are believed as `web.proxies` says, from the nearest on."""
    proxies = settings.web.proxies
    hops = [hop.strip() for hop in ",".join(request.headers.getlist("x-forwarded-for")).split(",")]
    if proxies and len(hops) >= proxies and hops[-proxies]:
        return hops[-proxies]
    return request.client.host if request.client else ""


def where_of(request: Request, settings: Settings) -> Where:
    """From where a request comes: address, the browser's own words, and the device that it says it is."""
    device = request.cookies.get(device_cookie(settings), "")
    return Where(address_of(request, settings), request.headers.get("user-agent", ""), device)


def device_cookie(settings: Settings) -> str:
    """The cookie of a browser in which somebody logged in before."""
    return "__Host-device" if settings.web.https else "device"


def csrf_of(secret: str) -> str:
    """A session's CSRF token: only who knows the session's secret can name it, and it says nothing of the secret."""
    return blake2b(b"csrf", key=secret.encode()[:64], digest_size=32).hexdigest()


async def caller_of(request: Request, doors: TheDoors) -> Caller | None:
    """Who asks, by token or by session; None for nobody. 401 for a token that is not good, 403 for a change that does not
    come from our own pages."""
    authorization = request.headers.get("authorization")
    find = partial(_by_token, authorization) if authorization else partial(_by_session, request)
    caller = await run_in_threadpool(find, doors)
    request.state.caller = caller  # for the pages, also those that say no
    if caller and caller.csrf and request.method not in SAFE:
        check_origin(request, doors.settings)
        await _check_csrf(request, caller.csrf)
    return caller


TheCaller = Annotated[Caller | None, Depends(caller_of)]


@dataclass(frozen=True, slots=True)
class Needs:
    """The dependency behind `needs`; tests find it in every route."""

    role: Role

    def __call__(self, request: Request, caller: TheCaller) -> Caller:
        if caller is None:
            if is_api(request):
                raise HTTPException(
                    401,
                    "log in, or send a token: `Authorization: Bearer fpt_...`",
                    {"WWW-Authenticate": "Bearer"},
                )
            raise LoginNeeded
        if not caller.may(self.role):
            raise HTTPException(403, f"this needs the role {self.role}; {caller.name} has {caller.role} here")
        return caller


def needs(role: Role) -> Any:
    """What a route depends on: `caller: Annotated[Caller, needs("analyst")]`, or `dependencies=[needs("admin")]`."""
    return Depends(Needs(role))


Viewer = Annotated[Caller, needs("viewer")]
Analyst = Annotated[Caller, needs("analyst")]
Engineer = Annotated[Caller, needs("engineer")]
Admin = Annotated[Caller, needs("admin")]


def in_person(caller: Viewer) -> Caller:
    """403 for tokens: who finds one must not make others of it, nor accounts."""
    if not caller.csrf:
        raise HTTPException(403, "a token cannot do this: log in")
    return caller


InPerson = Annotated[Caller, Depends(in_person)]


def proven(request: Request, caller: InPerson, doors: TheDoors) -> Caller:
    """403, or on to the page that asks for it, unless the session's owner proved within ten minutes who they are."""
    session = doors.people.session(session_of(request, doors.settings))
    if session and session.is_proven(doors.clock.now()):
        return caller
    if is_api(request):
        raise HTTPException(403, "prove first who you are: open /confirm in this browser, then repeat it")
    back = request.url.path if request.method in SAFE else _parts(request.headers.get("referer", "")).path
    raise HTTPException(
        303, "prove first who you are", {"Location": f"/confirm?next={quote(back or '/', safe='')}"}
    )


Proven = Annotated[Caller, Depends(proven)]


def admin_in_person(caller: Admin, _: InPerson) -> Caller:
    """An admin who is logged in, not a token of theirs."""
    return caller


AdminInPerson = Annotated[Caller, Depends(admin_in_person)]


def proven_admin(caller: AdminInPerson, _: Proven) -> Caller:
    """An admin who proved within ten minutes who they are."""
    return caller


ProvenAdmin = Annotated[Caller, Depends(proven_admin)]


def is_api(request: Request) -> bool:
    """Whether a program is answered, not a person."""
    return request.url.path.startswith("/api/") or request.url.path == "/metrics"


def check_origin(request: Request, settings: Settings) -> None:
    """403 where the browser says that the request comes from another site. What is no browser says nothing."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    own = {request.headers.get("host", ""), urlsplit(settings.web.public_url or "").netloc} - {""}
    if site not in (None, "same-origin", "none") or (origin and _parts(origin).netloc not in own):
        raise CrossSite(403, "this came from another site, so nothing was changed: use the desk's own pages")


def _parts(url: str) -> SplitResult:
    """The parts of what a browser says is a URL; all empty where it is none."""
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")


async def _check_csrf(request: Request, csrf: str) -> None:
    given = request.headers.get(HEADER)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given is None and kind in ("application/x-www-form-urlencoded", "multipart/form-data"):
        field = (await request.form()).get(FIELD)
        given = field if isinstance(field, str) else None
    if given is None or not hmac.compare_digest(given.encode(errors="replace"), csrf.encode()):
        raise CrossSite(
            403, "the page was too old or not ours, so nothing was changed: load it again, then repeat it"
        )


def _by_session(request: Request, doors: Doors) -> Caller | None:
    secret = session_of(request, doors.settings)
    awake = request.url.path not in BY_ITSELF
    person = doors.people.who(secret, awake) if secret else None
    return Caller(person.name, person.role, csrf=csrf_of(secret)) if person else None


def _by_token(authorization: str, doors: Doors) -> Caller:
    kind, _, secret = authorization.partition(" ")
    found = doors.people.bearer(secret.strip()) if kind.lower() == "bearer" else None
    if found is None:
        raise HTTPException(
            401,
            "this token is unknown, expired or revoked: make another under Account",
            {"WWW-Authenticate": 'Bearer error="invalid_token"'},
        )
    person, token = found
    return Caller(person.name, role_of(person.role, token.scopes), token.scopes)
