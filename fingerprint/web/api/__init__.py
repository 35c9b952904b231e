"""The API under /api/v1: a module for each resource; `routers` lists them."""
