"""Accounts and API tokens: list, invite, change roles, disable; create and revoke tokens.

Example:
    $ curl -H "Authorization: Bearer $TOKEN" "$FINGERPRINT_URL/api/v1/accounts"
    [{"name": "maria", "role": "analyst", ...}]

A token reads. Changes need an admin with a session, so that a stolen token cannot create accounts.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, HTTPException, Request
from pydantic import Field

from fingerprint.core.account import AccessToken, LoginSession, Role, Scope
from fingerprint.web.api.queue_params import RequestModel, StorableText, UtcDatetime
from fingerprint.web.api.responses import ResponseModel
from fingerprint.web.auth import (
    Admin,
    ReauthenticatedAdmin,
    ReauthenticatedCaller,
    SessionAdmin,
    SessionCaller,
    Viewer,
)
from fingerprint.web.dependencies import Deps, active_people
from fingerprint.web.layout import absolute_url

router = APIRouter(tags=["accounts"])


class AccountResponse(ResponseModel):
    """An account. `invited`: it has a link and no password yet. `issuer`: the identity provider, empty for a local password."""

    name: str
    role: Role
    created_at: datetime
    disabled_at: datetime | None
    last_login: datetime | None
    issuer: str
    invited: Annotated[bool, Field(validation_alias="is_invited")]


class InvitationRequest(RequestModel):
    """A new account and its role."""

    name: Annotated[
        str, Field(min_length=1, max_length=64, description="small letters, digits and . _ @ + -")
    ]
    role: Role = "analyst"


class RoleRequest(RequestModel):
    """The new role of an account."""

    role: Role


class InvitationLink(ResponseModel):
    """A link that sets a password once, within 24 hours; returned here and never again."""

    name: str
    link: str


class Person(ResponseModel):
    """An active account that may work on alerts."""

    name: str
    role: Role


people_router = APIRouter(tags=["people"])


@people_router.get("/people")
def list_people(caller: Viewer, deps: Deps) -> list[Person]:
    """List active accounts of analysts and above by name, to assign alerts to."""
    return [Person.model_validate(each) for each in active_people(deps)]


@router.get("/accounts")
def list_accounts(caller: Admin, deps: Deps) -> list[AccountResponse]:
    """List every account, by name."""
    return [AccountResponse.model_validate(each) for each in deps.account_store.accounts.list_all()]


@router.post("/accounts", status_code=201)
def create_invitation(
    body: InvitationRequest, request: Request, caller: ReauthenticatedAdmin, deps: Deps
) -> InvitationLink:
    """Create an account and return its invitation link."""
    secret = deps.account_store.accounts.invite(body.name, body.role, by=caller.name)
    return InvitationLink(name=body.name.strip().lower(), link=absolute_url(request, f"/setup/{secret}"))


@router.post("/accounts/{name}/link", status_code=201)
def create_account_link(
    name: StorableText, request: Request, caller: ReauthenticatedAdmin, deps: Deps
) -> InvitationLink:
    """Create a link for a new password; the previous link becomes invalid."""
    secret = deps.account_store.accounts.invite(name, None, by=caller.name)
    return InvitationLink(name=name.strip().lower(), link=absolute_url(request, f"/setup/{secret}"))


@router.post("/accounts/{name}/role")
def set_account_role(
    name: StorableText, body: RoleRequest, caller: ReauthenticatedAdmin, deps: Deps
) -> AccountResponse:
    """Set the role of an account and end its sessions. The last admin keeps the role."""
    deps.account_store.accounts.set_role(name, body.role, by=caller.name)
    return AccountResponse.model_validate(deps.account_store.accounts.get(name))


@router.post("/accounts/{name}/disable")
def disable_account(name: StorableText, caller: SessionAdmin, deps: Deps) -> AccountResponse:
    """Disable an account: its sessions, tokens and links end at once. The last admin cannot be disabled."""
    deps.account_store.accounts.disable(name, by=caller.name)
    return AccountResponse.model_validate(deps.account_store.accounts.get(name))


@router.post("/accounts/{name}/enable")
def enable_account(name: StorableText, caller: ReauthenticatedAdmin, deps: Deps) -> AccountResponse:
    """Enable an account again; its tokens stay revoked."""
    deps.account_store.accounts.enable(name, by=caller.name)
    return AccountResponse.model_validate(deps.account_store.accounts.get(name))


@router.get("/accounts/{name}/sessions")
def list_account_sessions(name: StorableText, caller: SessionAdmin, deps: Deps) -> list[LoginSession]:
    """List the sessions of an account, the most recently seen first."""
    return deps.account_store.sessions.of_account(name)


@router.post("/accounts/{name}/end")
def end_account_sessions(name: StorableText, caller: SessionAdmin, deps: Deps) -> AccountResponse:
    """End the sessions and tokens of an account; the account stays."""
    deps.account_store.sessions.end_all(name, by=caller.name)
    return AccountResponse.model_validate(deps.account_store.accounts.get(name))


@router.post("/accounts/{name}/reset-second-factor")
def reset_account_second_factor(
    name: StorableText, caller: ReauthenticatedAdmin, deps: Deps
) -> AccountResponse:
    """Remove the second factors of an account and end its sessions."""
    deps.account_store.second_factors.reset(name, by=caller.name)
    return AccountResponse.model_validate(deps.account_store.accounts.get(name))


token_router = APIRouter(tags=["tokens"])


class TokenRequest(RequestModel):
    """A new token: its rights are its scopes, at most those of its owner."""

    label: Annotated[str, Field(min_length=1, max_length=100, description="what it is for")]
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=4)]
    expires_at: Annotated[UtcDatetime, Field(description="within a year")]


class CreatedToken(ResponseModel):
    """A token with its `secret`, which is returned here and never again."""

    token: AccessToken
    secret: str


@token_router.get("/tokens")
def list_tokens(caller: Viewer, deps: Deps, everybody: bool = False) -> list[AccessToken]:
    """List the caller's tokens, including expired ones, the newest first; with `everybody` all tokens, for an admin."""
    if everybody and not caller.has_role("admin"):
        raise HTTPException(403, f"all tokens need the role admin; {caller.name} has {caller.role} here")
    return deps.account_store.tokens.list_all(None if everybody else caller.name)


@token_router.post("/tokens", status_code=201)
def create_token(body: TokenRequest, caller: ReauthenticatedCaller, deps: Deps) -> CreatedToken:
    """Create a token. Needs a session and a confirmed identity within the last ten minutes: a token cannot create another."""
    token, secret = deps.account_store.tokens.create(
        caller.name, body.label, body.scopes, body.expires_at, by=caller.name
    )
    return CreatedToken(token=token, secret=secret)


@token_router.delete("/tokens/{token_id}", status_code=204)
def revoke_token(token_id: StorableText, caller: SessionCaller, deps: Deps) -> None:
    """Revoke a token; a second time changes nothing. An admin may revoke the tokens of others. Needs a session."""
    owner = None if caller.has_role("admin") else caller.name
    deps.account_store.tokens.revoke(token_id, by=caller.name, owner=owner)
