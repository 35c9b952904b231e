"""The pages under /: one module a page, each with its `router`."""

from __future__ import annotations

from fastapi import APIRouter

from fingerprint.web.pages import (
    account,
    alert,
    audit,
    banks,
    changes,
    confirm,
    entity,
    factors,
    login,
    people,
    provider,
    queue,
    second,
    setup,
    suppressions,
    tuning,
)

ROUTERS: tuple[APIRouter, ...] = (
    queue.router,
    changes.router,
    alert.router,
    entity.router,
    suppressions.router,
    banks.router,
    audit.router,
    login.router,
    provider.router,
    second.router,
    confirm.router,
    setup.router,
    account.router,
    factors.router,
    people.router,
    tuning.router,
)
