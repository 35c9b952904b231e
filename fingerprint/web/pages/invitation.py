"""/setup/<secret>: a link that sets a first or a new password, once. Opening it uses nothing up: mail programs open links."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, HTTPException, Request, Response

from fingerprint.core.account import AuthenticationFailed, Invitation, SecondFactorNeeded
from fingerprint.core.alert import FingerprintError
from fingerprint.web.auth import check_origin, client_context
from fingerprint.web.connection_limits import limit_concurrency
from fingerprint.web.dependencies import Dependencies, Deps
from fingerprint.web.layout import render_page
from fingerprint.web.login import complete_login, redirect_to_second_factor
from fingerprint.web.security_events import annotate_request

router = APIRouter()
LINK_EXPIRED = "this link was used, or is older than a day: ask for another"


@router.get("/setup/{secret}")
def show_invitation_form(request: Request, secret: str, deps: Deps) -> Response:
    return _form(request, _valid_invitation(deps, secret))


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
    """A session, the question for a second factor, or the form again with a sentence."""
    check_origin(request, deps.settings)
    invited = _valid_invitation(deps, secret)
    if password != again:
        return _form(request, invited, "the two passwords differ", name)
    try:
        session = deps.accounts.accept_invitation(
            secret, name, password, client_context(request, deps.settings)
        )
        return complete_login(request, deps, session)
    except SecondFactorNeeded as needed:
        annotate_request(request.scope, event="second_factor")
        return redirect_to_second_factor(needed, deps.settings)
    except AuthenticationFailed:
        raise
    except FingerprintError as error:
        return _form(request, invited, str(error), name)


def _valid_invitation(deps: Dependencies, secret: str) -> Invitation:
    invited = deps.accounts.invitation(secret)
    if invited is None:
        raise HTTPException(404, LINK_EXPIRED)
    return invited


def _form(request: Request, invited: Invitation, error: str = "", name: str = "") -> Response:
    title = "Set a password" if invited.name else "The first account"
    values = {"invited": invited, "error": error, "name": name}
    return render_page(request, "account/invitation.html", 400 if error else 200, title=title, **values)
