"""Tokens: one's own, everybody's for an admin; made and revoked by a person who is logged in, never by a token.

Example:
    $ curl -H "Authorization: Bearer $TOKEN" "$DESK/api/v1/tokens"
    [{"token_id": "fca06079fd02406b83ad4c206cebf8be", "label": "our SIEM", ...}]
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, HTTPException
from pydantic import Field

from fingerprint.core.account import Scope, Token
from fingerprint.web.api.queue_params import Asked, Moment, Wanted
from fingerprint.web.api.responses import Said
from fingerprint.web.auth import InPerson, Proven, Viewer
from fingerprint.web.dependencies import TheDoors

router = APIRouter(tags=["tokens"])


class Making(Asked):
    """A token may what its scopes say, and never more than its owner."""

    label: Annotated[str, Field(min_length=1, max_length=100, description="what it is for")]
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=4)]
    expires_at: Annotated[Moment, Field(description="within a year")]


class Made(Said):
    """`secret` is shown here and never again."""

    token: Token
    secret: str


@router.get("/tokens")
def tokens(caller: Viewer, doors: TheDoors, everybody: bool = False) -> list[Token]:
    """My own, also those that are over, the newest first; with `everybody` all, for an admin."""
    if everybody and not caller.may("admin"):
        raise HTTPException(
            403, f"everybody's tokens need the role admin; {caller.name} has {caller.role} here"
        )
    return doors.people.tokens(None if everybody else caller.name)


@router.post("/tokens", status_code=201)
def make(asked: Making, caller: Proven, doors: TheDoors) -> Made:
    """A new one. A session is needed, and a proof of the last ten minutes: a token cannot make another."""
    token, secret = doors.people.make_token(
        caller.name, asked.label, asked.scopes, asked.expires_at, by=caller.name
    )
    return Made(token=token, secret=secret)


@router.delete("/tokens/{token_id}", status_code=204)
def revoke(token_id: Wanted, caller: InPerson, doors: TheDoors) -> None:
    """It is good for nothing from now on; a second time changes nothing. An admin revokes anybody's. A session is needed."""
    owner = None if caller.may("admin") else caller.name
    doors.people.revoke(token_id, by=caller.name, owner=owner)
