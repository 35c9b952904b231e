"""/account/second: the caller's second factors: authenticator apps, passkeys, recovery codes."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Form, HTTPException, Request, Response

from fingerprint.core.errors import FingerprintError
from fingerprint.web.auth import Caller, ReauthenticatedCaller, session_secret
from fingerprint.web.dependencies import Dependencies, Deps
from fingerprint.web.language import gettext
from fingerprint.web.layout import redirect, render_page
from fingerprint.web.login import qr_code, relying_party

router = APIRouter()
SECOND_FACTORS_PATH = "/account/second"
FactorText = Annotated[str, Form(max_length=100)]


@router.get("/account/second")
def show_second_factors(request: Request, caller: ReauthenticatedCaller, deps: Deps) -> Response:
    """Show the caller's second factors."""
    return _page(request, caller, deps)


@router.post("/account/second/app")
def submit_app(
    request: Request,
    caller: ReauthenticatedCaller,
    deps: Deps,
    label: FactorText = "",
    app_secret: FactorText = "",
    code: FactorText = "",
) -> Response:
    """Add an authenticator app. The first factor comes with recovery codes, which are only in this answer."""
    session = session_secret(request, deps.settings)
    try:
        codes = deps.account_store.second_factors.add_authenticator_app(
            session, label or "authenticator app", app_secret, code
        )
    except FingerprintError as error:
        return _page(request, caller, deps, 400, error=str(error), app_secret=app_secret)
    return _show_codes(request, codes) if codes else redirect(SECOND_FACTORS_PATH)


@router.post("/account/second/passkey")
def submit_passkey(
    request: Request,
    caller: ReauthenticatedCaller,
    deps: Deps,
    label: FactorText = "",
    passkey: Annotated[str, Form(max_length=20_000)] = "",
) -> Response:
    """Add a passkey."""
    party = relying_party(request)
    if party is None:
        raise HTTPException(400, "passkeys need a name and TLS: set web.public_url")
    session = session_secret(request, deps.settings)
    try:
        codes = deps.account_store.second_factors.add_passkey(session, label or "passkey", passkey, party)
    except FingerprintError as error:
        return _page(request, caller, deps, 400, error=str(error))
    return _show_codes(request, codes) if codes else redirect(SECOND_FACTORS_PATH)


@router.post("/account/second/recovery-codes")
def submit_recovery_codes(request: Request, caller: ReauthenticatedCaller, deps: Deps) -> Response:
    """Create new recovery codes; the earlier ones become invalid."""
    return _show_codes(
        request, deps.account_store.second_factors.new_recovery_codes(session_secret(request, deps.settings))
    )


@router.post("/account/second/{factor_id}/remove")
def submit_factor_removal(
    request: Request, factor_id: str, caller: ReauthenticatedCaller, deps: Deps
) -> Response:
    """Remove a second factor."""
    deps.account_store.second_factors.remove(session_secret(request, deps.settings), factor_id)
    return redirect(SECOND_FACTORS_PATH)


def _show_codes(request: Request, codes: list[str]) -> Response:
    return render_page(
        request,
        "account/recovery_codes.html",
        title=gettext("Recovery codes"),
        codes=codes,
        next=SECOND_FACTORS_PATH,
    )


def _page(
    request: Request,
    caller: Caller,
    deps: Dependencies,
    status: int = 200,
    error: str = "",
    app_secret: str = "",
) -> Response:
    person, party = deps.account_store.accounts.get(caller.name), relying_party(request)
    values: dict[str, Any] = {"person": person, "error": error, "options": ""}
    values["factors"] = deps.account_store.second_factors.of_account(caller.name)
    values["codes_left"] = deps.account_store.second_factors.recovery_codes_left(caller.name)
    if not person.subject:
        values["app_secret"], address = deps.account_store.second_factors.new_authenticator_app(
            caller.name, app_secret
        )
        values["qr"] = qr_code(address)
        if party:
            values["options"] = deps.account_store.second_factors.begin_passkey_registration(
                session_secret(request, deps.settings), party
            )
    return render_page(
        request, "account/second_factors.html", status, title=gettext("Second factor"), **values
    )
