"""The pages under /: one module a page, each with its `router`."""

from __future__ import annotations

from fastapi import APIRouter

ROUTERS: tuple[APIRouter, ...] = ()
