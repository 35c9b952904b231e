"""A real server on a free port of this machine that keeps what it is sent, and answers what it is told to.

Example:
    >>> with listening() as listen:
    ...     server = listen(status=503)
    ...     post(server.url())
    ...     server.got[0].body
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from types import SimpleNamespace


class Receiver(BaseHTTPRequestHandler):
    """Keeps what it is sent, and answers what it is told to."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.got.append(SimpleNamespace(path=self.path, headers=headers, body=body))
        self.server.answers.wait(60)
        self.send_response(self.server.status)
        for name, value in self.server.extra.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(self.server.answer)))
        self.end_headers()
        with suppress(OSError):
            self.wfile.write(self.server.answer)

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing."""


class Listening(ThreadingHTTPServer):
    """A real server on a free port of this machine."""

    daemon_threads = True

    def __init__(self, status: int = 200, answer: bytes = b"ok", extra: dict[str, str] | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Receiver)
        self.status, self.answer, self.extra = status, answer, extra or {}
        self.got: list[SimpleNamespace] = []
        self.answers = Event()
        self.release()

    def hold(self) -> None:
        """Take what comes, and answer nothing yet."""
        self.answers.clear()

    def release(self) -> None:
        self.answers.set()

    def url(self, host: str = "127.0.0.1", path: str = "/alerts", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.server_address[1]}{path}"


@contextmanager
def listening() -> Iterator[Callable[..., Listening]]:
    """Gives what starts servers; they run until the block ends."""
    servers: list[Listening] = []

    def start(**fields: object) -> Listening:
        server = Listening(**fields)
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()
