"""All tables of a desk, whatever a program needs of them: what goes with an alert must go from each of them.

Example:
    >>> [table.name for table in metadata.sorted_tables if "alert_id" in table.c]
    ['alert_events', 'alert_surprises', 'alert_values', 'alerts', 'cases', ... 'deliveries', 'delivery_told', ...]
"""

from __future__ import annotations

from fingerprint.edges import (
    desk_changes_tables,
    desk_deliveries_tables,
    desk_guard_tables,
    desk_people_tables,
    desk_queue_tables,
    desk_tables,
)

EACH = (
    desk_tables,
    desk_queue_tables,
    desk_changes_tables,
    desk_guard_tables,
    desk_people_tables,
    desk_deliveries_tables,
)
metadata = desk_tables.metadata
