"""uvicorn with deadlines: requests must arrive in time, answers must be read in time, and connections are limited.

Example:
    >>> with listening_socket(settings.web) as listening:
    ...     DeadlineServer(uvicorn_config(create_app(dependencies, security))).run(sockets=[listening])

uvicorn itself waits for ever for the rest of a request, so a few hundred incomplete requests can hold all sockets. Here

- a connection is closed if it does not send a complete head within HEAD_SECONDS, or a complete body within BODY_SECONDS after it,
  even if bytes trickle in;
- it is closed if its client takes nothing of an answer for WRITE_SECONDS;
- if MAX_CONNECTIONS are open, a new one replaces the one whose request has been incomplete for longest. So incomplete requests
  displace each other, and not the clients that are served.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from fingerprint.core.errors import FingerprintError
from fingerprint.core.settings import Web
from fingerprint.web.security_events import SecurityEvent

HEAD_SECONDS = 10.0  # from the connection, or the answer before, to the end of a request's head
BODY_SECONDS = 30.0  # from there to the end of its body: 1 MiB at 35 kB/s
WRITE_SECONDS = 60.0  # in which a client must take something of an answer
MAX_CONNECTIONS = 800  # of one server; below the 1,024 descriptors that a process often may have
MAX_HEAD_BYTES = 32 << 10  # bytes
GRACE_SECONDS = 5  # seconds that a request may go on after SIGTERM
TIMEOUT_BODY = b"the request did not arrive in time\n"


def listening_socket(web: Web) -> socket.socket:
    """Return a socket that listens at the address of the settings. Raise FingerprintError if that is impossible."""
    family = socket.AF_INET6 if ":" in web.host else socket.AF_INET
    try:
        return socket.create_server((web.host, web.port), family=family, backlog=128)
    except OSError as error:
        raise FingerprintError(
            f"the web app cannot listen on {web.host}:{web.port} ({error.strerror or error}); set --host and --port"
        ) from None


def uvicorn_config(app: Any) -> uvicorn.Config:
    """Return uvicorn's configuration. uvicorn ignores X-Forwarded-For: client addresses follow `web.trusted_proxies`.

    Its warnings are off, because each bad request would write a line. Here bad requests are security events, which are limited.
    """
    return uvicorn.Config(
        app,
        http=DeadlineProtocol,
        ws="none",
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MAX_CONNECTIONS + 1,  # status 503 if all connections are being answered
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )


class DeadlineServer(uvicorn.Server):
    """End live streams first, so that browsers reconnect to the next server."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close the change feed's streams, then stop the server."""
        app: Any = self.config.app
        await app.state.broadcaster.close()
        await super().shutdown(sockets)
        app.state.security.rotate_window(final=True)


class DeadlineProtocol(H11Protocol):
    """One connection, with a deadline for the part of the request that it waits for."""

    # H11's state of the client: IDLE while its head is awaited, SEND_BODY while its body is.
    awaited_state: Any = None
    waiting_since = 0.0  # beginning of the state, by the loop's clock
    request_started = False  # whether a part of the request has come
    _read_timer: asyncio.TimerHandle | None = None
    _write_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection; beyond the limit drop the slowest one."""
        if len(self.connections) >= MAX_CONNECTIONS:
            self._evict_slowest()
        super().connection_made(transport)
        # all bytes that the client has not taken have a deadline, including the last ones
        transport.set_write_buffer_limits(high=0)
        self._update_read_deadline()

    def data_received(self, data: bytes) -> None:
        """Read bytes of a request, whose deadline starts with the first of them."""
        self.request_started = True
        super().data_received(data)
        self._update_read_deadline()

    def on_response_complete(self) -> None:
        """Wait for the next request of the connection."""
        self.request_started = False
        super().on_response_complete()
        self._update_read_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timers of a closed connection."""
        _cancel(self._read_timer)
        _cancel(self._write_timer)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Start the deadline of a client that does not read."""
        super().pause_writing()
        self._write_timer = self._write_timer or self.loop.call_later(WRITE_SECONDS, self._abort_slow)

    def resume_writing(self) -> None:
        """Stop the deadline of a client that reads again."""
        super().resume_writing()
        _cancel(self._write_timer)
        self._write_timer = None

    def send_400_response(self, msg: str) -> None:
        """Answer a malformed request with status 400, and record it."""
        self._record_refusal("malformed")
        super().send_400_response(msg)

    def close_incomplete(self) -> None:
        """Close a connection with an incomplete request: its deadline passed, or another needs the slot."""
        if self.transport.is_closing() or self._write_timer:
            self._abort_slow()
            return
        if self.request_started:  # a spare connection of a browser has sent nothing and is no problem
            self._record_refusal("slow")
            self._send_timeout()
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self._release_slot()
        self.transport.close()

    def _update_read_deadline(self) -> None:
        """Set a deadline for the part that is awaited now. It is for the whole part: pieces do not extend it."""
        state = self.conn.their_state
        if state is self.awaited_state and self._read_timer:
            return
        _cancel(self._read_timer)
        self._read_timer, self.awaited_state, self.waiting_since = None, state, self.loop.time()
        seconds = {h11.IDLE: HEAD_SECONDS, h11.SEND_BODY: BODY_SECONDS}.get(state)
        if seconds is not None and not self.transport.is_closing():
            self._read_timer = self.loop.call_later(seconds, self.close_incomplete)

    def _evict_slowest(self) -> None:
        """Close the connection whose request has been incomplete for longest."""
        ours = (each for each in self.connections if isinstance(each, DeadlineProtocol))
        waiting = [each for each in ours if each._read_timer or each._write_timer]
        if waiting:
            min(waiting, key=lambda each: each.waiting_since).close_incomplete()
        else:
            self._record_refusal("busy")  # uvicorn answers 503

    def _send_timeout(self) -> None:
        """Answer 408 if no answer has begun."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        headers = [("content-type", "text/plain; charset=utf-8"), ("connection", "close")]
        answer = (
            h11.Response(status_code=408, headers=headers),
            h11.Data(data=TIMEOUT_BODY),
            h11.EndOfMessage(),
        )
        for event in answer:
            self.transport.write(self.conn.send(event) or b"")

    def _abort_slow(self) -> None:
        self._record_refusal("slow")
        self._release_slot()
        self.transport.abort()

    def _release_slot(self) -> None:
        """Free the slot at once, before the loop has closed the connection."""
        self.connections.discard(self)
        _cancel(self._read_timer)
        self._read_timer = None

    def _record_refusal(self, reason: str) -> None:
        app: Any = self.config.app
        address = self.client[0] if self.client else ""
        app.state.security.record_refusal(reason, SecurityEvent("connection", address=address))


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    """Stop a timer, if there is one."""
    if timer is not None:
        timer.cancel()
