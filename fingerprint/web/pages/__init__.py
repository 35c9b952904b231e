"""The pages under /: a module for each page, with its `router`."""

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
    graph,
    help,
    incidents,
    language,
    leads,
    login,
    overview,
    preview,
    principal,
    queue,
    second_factor,
    second_factors,
    suppressions,
    thresholds,
)

ROUTERS: tuple[APIRouter, ...] = (
    queue.router,
    cases.router,
    incidents.router,
    leads.router,
    overview.router,
    alert.router,
    preview.router,
    principal.router,
    graph.router,
    suppressions.router,
    banks.router,
    audit.router,
    login.router,
    second_factor.router,
    confirm_identity.router,
    account.router,
    second_factors.router,
    accounts.router,
    thresholds.router,
    help.router,
    language.router,
)
