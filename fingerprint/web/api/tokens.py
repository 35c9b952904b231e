"""Tokens: one's own, everybody's for an admin; made and revoked by a person who is logged in, never by a token.

Example:
    $ curl -H "Authorization: Bearer $TOKEN" "$DESK/api/v1/tokens"
    [{"token_id": "fca06079fd02406b83ad4c206cebf8be", "label": "our SIEM", ...}]
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, HTTPException
from pydantic import Field

from fingerprint.core.account import AccessToken, Scope
from fingerprint.web.api.queue_params import RequestModel, StorableText, UtcDatetime
from fingerprint.web.api.responses import ResponseModel
from fingerprint.web.auth import ReauthenticatedCaller, SessionCaller, Viewer
from fingerprint.web.dependencies import Deps

router = APIRouter(tags=["tokens"])


class TokenRequest(RequestModel):
    """A token may what its scopes say, and never more than its owner."""

    label: Annotated[str, Field(min_length=1, max_length=100, description="what it is for")]
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=4)]
    expires_at: Annotated[UtcDatetime, Field(description="within a year")]


class CreatedToken(ResponseModel):
    """`secret` is shown here and never again."""

    token: AccessToken
    secret: str


@router.get("/tokens")
def list_tokens(caller: Viewer, deps: Deps, everybody: bool = False) -> list[AccessToken]:
    """My own, also those that are over, the newest first; with `everybody` all, for an admin."""
    if everybody and not caller.has_role("admin"):
        raise HTTPException(
            403, f"everybody's tokens need the role admin; {caller.name} has {caller.role} here"
        )
    return deps.accounts.tokens(None if everybody else caller.name)


@router.post("/tokens", status_code=201)
def create_token(body: TokenRequest, caller: ReauthenticatedCaller, deps: Deps) -> CreatedToken:
    """A new one. A session is needed, and a proof of the last ten minutes: a token cannot make another."""
    token, secret = deps.accounts.create_token(
        caller.name, body.label, body.scopes, body.expires_at, by=caller.name
    )
    return CreatedToken(token=token, secret=secret)


@router.delete("/tokens/{token_id}", status_code=204)
def revoke_token(token_id: StorableText, caller: SessionCaller, deps: Deps) -> None:
    """It is good for nothing from now on; a second time changes nothing. An admin revokes anybody's. A session is needed."""
    owner = None if caller.has_role("admin") else caller.name
    deps.accounts.revoke_token(token_id, by=caller.name, owner=owner)
