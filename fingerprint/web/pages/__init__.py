"""The pages under /: one module a page, each with its `router`."""

from __future__ import annotations

from fastapi import APIRouter

from fingerprint.web.pages import account, login, people, setup

ROUTERS: tuple[APIRouter, ...] = (
    login.router,
    setup.router,
    account.router,
    people.router,
)
