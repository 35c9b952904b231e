"""Live updates as server-sent events: ids of new and changed alerts.

Example:
    $ curl -N -H "Authorization: Bearer $TOKEN" "$FINGERPRINT_URL/api/v1/live"
    retry: 2000

    id: 41
    event: alerts
    data: {"alert_ids":[]}

    id: 42
    event: alerts
    data: {"alert_ids":["3fa94c1be0d27a58"]}

The first event names the number where the stream begins; a client that reconnects with the last id it saw (`Last-Event-ID`, which
browsers send by themselves, or `since`) misses nothing. A stream ends after a minute and the client reconnects, so that a caller
without permission does not keep listening. A sixth stream of one caller ends their oldest, which may reconnect later.
Source of the format: https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated

from fastapi import APIRouter, Depends, Header, HTTPException, Query, Request
from fastapi.responses import StreamingResponse

from fingerprint.core.errors import FingerprintError
from fingerprint.web.api.queue_params import MAX_DATABASE_INTEGER
from fingerprint.web.auth import Viewer
from fingerprint.web.change_feed import ChangeBatch, ChangeBroadcaster, StreamDisplaced
from fingerprint.web.security_events import annotate_request

router = APIRouter(tags=["live"])
MAX_STREAM_SECONDS = 60.0  # seconds of one stream
RETRY_MILLISECONDS = 2_000  # milliseconds after which a browser reconnects
# ... if its person has too many streams: pages that end the streams of each other do so once a minute.
DISPLACED_RETRY_MILLISECONDS = 60_000
LastNumber = Annotated[
    int | None, Query(ge=0, le=MAX_DATABASE_INTEGER, description="the id of the last event seen")
]
LastEventId = Annotated[int | None, Header(ge=0, le=MAX_DATABASE_INTEGER)]
StreamSeconds = Annotated[float, Query(ge=0, le=MAX_STREAM_SECONDS, description="after which it ends")]


class EventStream(StreamingResponse):
    """A response of server-sent events."""

    media_type = "text/event-stream"


def _broadcaster(request: Request) -> ChangeBroadcaster:
    found: ChangeBroadcaster = request.app.state.broadcaster
    return found


@router.get("/live", response_class=EventStream)
async def stream_changes(
    request: Request,
    caller: Viewer,
    broadcaster: Annotated[ChangeBroadcaster, Depends(_broadcaster)],
    since: LastNumber = None,
    last_event_id: LastEventId = None,
    seconds: StreamSeconds = MAX_STREAM_SECONDS,
) -> EventStream:
    """Stream the ids of new and changed alerts, one event for those that changed together."""
    batches = broadcaster.subscribe(last_event_id if last_event_id is not None else since, caller.name)
    # while an error can still be answered
    first = None if broadcaster.is_full else await anext(batches, None)
    if first is None:
        annotate_request(request.scope, reason="streams")
        raise HTTPException(503, "too many live streams: try again in a minute", {"Retry-After": "60"})
    return EventStream(_stream(first, batches, seconds), headers={"X-Accel-Buffering": "no"})


async def _stream(
    first: ChangeBatch, batches: AsyncGenerator[ChangeBatch, None], seconds: float
) -> AsyncGenerator[str, None]:
    end = asyncio.get_running_loop().time() + seconds
    async with aclosing(batches):
        yield f"retry: {RETRY_MILLISECONDS}\n\n{_format_event(first)}"
        try:
            while (batch := await _next_batch(batches, end)) is not None:
                yield _format_event(batch) if batch.alert_ids else ": keep-alive\n\n"
        except StreamDisplaced:
            yield f"retry: {DISPLACED_RETRY_MILLISECONDS}\n\n"


async def _next_batch(batches: AsyncGenerator[ChangeBatch, None], end: float) -> ChangeBatch | None:
    """Return the next batch, if it comes before the end.

    An alert store that is unavailable ends the stream as well, like a server that stops: clients reconnect.
    """
    try:
        return await asyncio.wait_for(anext(batches), end - asyncio.get_running_loop().time())
    except (TimeoutError, StopAsyncIteration, FingerprintError):
        return None


def _format_event(batch: ChangeBatch) -> str:
    return f"id: {batch.number}\nevent: alerts\ndata: {json.dumps({'alert_ids': batch.alert_ids})}\n\n"
