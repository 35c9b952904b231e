"""/login/second: the second factor of a login whose password was right, or its setup where one is required."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Form, Request, Response

from fingerprint.core.account import AuthenticationFailed, PendingLogin, SecondFactorResponse, TooManyAttempts
from fingerprint.core.errors import FingerprintError
from fingerprint.web.auth import check_origin, client_context
from fingerprint.web.cookies import read_cookie
from fingerprint.web.dependencies import Dependencies, Deps
from fingerprint.web.language import gettext
from fingerprint.web.layout import redirect, render_page, safe_local_path
from fingerprint.web.login import complete_login, qr_code, relying_party
from fingerprint.web.security_events import annotate_request

router = APIRouter()
LoginFactorText = Annotated[str, Form(max_length=100)]
NextPath = Annotated[str, Form(max_length=4000)]


@router.get("/login/second")
def show_second_factor_form(request: Request, deps: Deps, next: str = "/") -> Response:
    """Show the form of a pending login."""
    login = deps.account_store.logins.pending(_login_secret(request, deps))
    return _form(request, deps, login, next) if login else redirect("/login")


@router.post("/login/second")
def submit_second_factor(
    request: Request,
    deps: Deps,
    code: LoginFactorText = "",
    passkey: Annotated[str, Form(max_length=20_000)] = "",
    next: NextPath = "/",
) -> Response:
    """Begin a session, or show the form with an error."""
    secret = _annotated_secret(request, deps)
    check_origin(request, deps.settings)
    shown = SecondFactorResponse(code, passkey, relying_party(request))
    try:
        session = deps.account_store.logins.finish(secret, shown, client_context(request, deps.settings))
    except AuthenticationFailed as error:
        return _retry_form(request, deps, next, error)
    return complete_login(request, deps, session, safe_local_path(next))


@router.post("/login/second/app")
def submit_second_factor_setup(
    request: Request,
    deps: Deps,
    app_secret: LoginFactorText = "",
    code: LoginFactorText = "",
    next: NextPath = "/",
) -> Response:
    """Add the first authenticator app; its recovery codes are only in this answer."""
    secret, where = _annotated_secret(request, deps), client_context(request, deps.settings)
    check_origin(request, deps.settings)
    try:
        session, codes = deps.account_store.logins.enroll_app(secret, app_secret, code, where)
    except FingerprintError as error:
        return _retry_form(request, deps, next, error, app_secret)
    page = render_page(
        request,
        "account/recovery_codes.html",
        title=gettext("Recovery codes"),
        codes=codes,
        next=safe_local_path(next),
    )
    return complete_login(request, deps, session, response=page)


def _login_secret(request: Request, deps: Dependencies) -> str:
    return read_cookie(request, "login", deps.settings)


def _annotated_secret(request: Request, deps: Dependencies) -> str:
    """Return the secret of the pending login and annotate the request for its security event."""
    secret = _login_secret(request, deps)
    login = deps.account_store.logins.pending(secret)
    annotate_request(request.scope, event="login", name=login.name if login else "")
    return secret


def _retry_form(
    request: Request, deps: Dependencies, next: str, error: FingerprintError, app_secret: str = ""
) -> Response:
    """Show the form with the error; redirect to the login page once the pending login is over."""
    login = deps.account_store.logins.pending(_login_secret(request, deps))
    if login is None:
        annotate_request(request.scope, reason="login")
        return redirect("/login")
    status = (
        429 if isinstance(error, TooManyAttempts) else 401 if isinstance(error, AuthenticationFailed) else 400
    )
    page = _form(request, deps, login, next, status, error=str(error), app_secret=app_secret)
    if isinstance(error, TooManyAttempts):
        page.headers["Retry-After"] = str(error.seconds)
    return page


def _form(
    request: Request,
    deps: Dependencies,
    login: PendingLogin,
    next: str,
    status: int = 200,
    error: str = "",
    app_secret: str = "",
) -> Response:
    party = relying_party(request)
    values: dict[str, Any] = {"login": login, "next": safe_local_path(next), "error": error, "options": ""}
    if "passkey" in login.kinds and party:
        values["options"] = deps.account_store.logins.begin_passkey(_login_secret(request, deps), party)
    if not login.kinds:
        values["app_secret"], address = deps.account_store.second_factors.new_authenticator_app(
            login.name, app_secret
        )
        values["qr"] = qr_code(address)
    return render_page(
        request, "account/second_factor.html", status, title=gettext("Second factor"), **values
    )
