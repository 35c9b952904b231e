"""The pages under /: one module a page, each with its `router`."""

from __future__ import annotations

from fastapi import APIRouter

from fingerprint.web.pages import (
    account,
    accounts,
    alert,
    audit,
    banks,
    cases,
    confirm_identity,
    invitation,
    login,
    principal,
    queue,
    second_factor,
    second_factors,
    single_sign_on,
    suppressions,
    thresholds,
)

ROUTERS: tuple[APIRouter, ...] = (
    queue.router,
    cases.router,
    alert.router,
    principal.router,
    suppressions.router,
    banks.router,
    audit.router,
    login.router,
    single_sign_on.router,
    second_factor.router,
    confirm_identity.router,
    invitation.router,
    account.router,
    second_factors.router,
    accounts.router,
    thresholds.router,
)
