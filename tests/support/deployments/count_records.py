"""Counts the records in a topic, in a container of the product: single ones, and the rows of columnar messages.

    python -c "$(cat count_records.py)" fingerprint.events

It reads as the only member of a group of its own, and commits nothing.
"""

import sys
import uuid

from fingerprint.core.settings import load_settings
from fingerprint.sources.columnar import is_columnar, read_tables
from fingerprint.streaming.bounded_read import poll_until_end
from pipelines.runtime import wiring

settings, topic, records = load_settings(), sys.argv[1], 0
alone = settings.kafka.model_copy(update={"group_instance_id": None, "auto_offset_reset": "earliest"})
with wiring.open_consumer(alone, f"count-{uuid.uuid4().hex[:12]}") as consumer:
    consumer.subscribe([topic], lambda assigned: consumer.beginning_offsets(assigned))
    for messages in poll_until_end(consumer):
        tables = read_tables([each.value for each in messages if is_columnar(each.value)], settings.entities)
        records += len(messages) - len(tables) + sum(len(table.records) for table in tables if table)
print(records)
