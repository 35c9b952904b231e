"""Redelivery: distinguish a notification that kills its readers from one that only waited, across workers and restarts.

Example:
    >>> [wait_seconds(receives, visibility_timeout=120) for receives in (1, 2, 3, 4, 5, 6)]
    [120, 240, 480, 960, 1800, 1800]
    >>> day = 86_400_000
    >>> received = ReceivedMessage("a", "", message, receive_count=52, first_received=1)
    >>> lost_receives(received, 1 + day, visibility_timeout=120)          # 52 in a day: it waited
    0
    >>> lost_receives(received, 1 + day // 10, visibility_timeout=120)
    44

A queue counts receives, and its workers share nothing else. A worker that defers a notification makes it wait longer each time.
After a worker that died, it comes again when its visibility timeout ends, which is much sooner. So receives that are too many for
the time since the first one are those of workers that died (lost receives).
"""

from __future__ import annotations

from fingerprint.core.ports.object_store import ReceivedMessage

MAX_LOST_RECEIVES = 10  # a notification with more is dead-lettered unread
SUSPECT_RECEIVES = 3  # from so many receives on, a notification may have killed its readers
LONGEST_WAIT_SECONDS = 1800  # or four visibility timeouts: several workers can die during one wait
MAX_HIDDEN_SECONDS = 39_600  # SQS hides a received message for twelve hours at most


def wait_seconds(receives: int, visibility_timeout: int) -> int:
    """Return the seconds that a notification waits after `receives` receives: twice as long each time, up to a bound."""
    longest = max(LONGEST_WAIT_SECONDS, 4 * visibility_timeout)
    return min(visibility_timeout * 2 ** min(receives - 1, 16), longest, MAX_HIDDEN_SECONDS)


def lost_receives(received: ReceivedMessage, now_ms: int, visibility_timeout: int) -> int:
    """Return the number of earlier receives that waiting does not explain: those of workers that died."""
    left = (now_ms - received.first_received) / 1000
    waits, earlier = 0, received.receive_count - 1
    while waits < earlier and (left := left - wait_seconds(waits + 1, visibility_timeout)) >= 0:
        waits += 1
    return earlier - waits


def isolate_redelivered(taken: list[ReceivedMessage]) -> list[list[ReceivedMessage]]:
    """Return received notifications in batches: those received often come last, each in a batch of its own.

    So a notification that kills its reader costs no other one.
    """
    fresh = [each for each in taken if each.receive_count < SUSPECT_RECEIVES]
    suspects = [each for each in taken if each.receive_count >= SUSPECT_RECEIVES]
    return [fresh, *([each] for each in sorted(suspects, key=lambda each: each.receive_count))]
