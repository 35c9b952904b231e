"""All tables of a desk, whatever a program needs of them: what goes with an alert must go from each of them.

Example:
    >>> [table.name for table in metadata.sorted_tables if "alert_id" in table.c]
    ['alert_events', 'alert_surprises', 'alert_values', 'alerts', 'cases', ... 'deliveries', 'delivery_told', ...]
"""

from __future__ import annotations

from fingerprint.store import (
    account_tables,
    change_feed_tables,
    outbox_tables,
    queue_tables,
    schema,
    suppression_tables,
)

TABLE_MODULES = (
    schema,
    queue_tables,
    change_feed_tables,
    suppression_tables,
    account_tables,
    outbox_tables,
)
metadata = schema.metadata
