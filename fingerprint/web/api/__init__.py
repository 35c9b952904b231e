"""The API under /api/v1: one module a noun, each with its `router`."""

from __future__ import annotations

from fastapi import APIRouter

ROUTERS: tuple[APIRouter, ...] = ()
