"""Bounds of the Kafka clients that no deployment needs to turn, under Kafka's names; both clients read them when they open."""

from __future__ import annotations

FETCH_MAX_BYTES = 64 << 20
"""Largest size of one poll (fetch.max.bytes; queued.max.messages.kbytes of librdkafka)."""
MAX_PARTITION_FETCH_BYTES = 8 << 20
"""Bytes fetched of one partition at a time (max.partition.fetch.bytes)."""
BUFFER_MEMORY = 64 << 20
"""Bytes sent and not yet acknowledged, at most (buffer.memory)."""
MAX_BLOCK_MS = 1_000
"""Milliseconds that a send waits for room in the buffer (max.block.ms)."""
