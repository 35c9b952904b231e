"""uvicorn, which waits for requests that are under way when it is asked to end, but not for pages that only listen.

Example:
    >>> Server(uvicorn.Config(create_app(doors))).run(sockets=[listening])
"""

from __future__ import annotations

import socket
from typing import Any

import uvicorn


class Server(uvicorn.Server):
    """Live streams end first: browsers come back to whoever serves next."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        app: Any = self.config.app
        await app.state.following.close()
        await super().shutdown(sockets)
