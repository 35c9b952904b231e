"""AWS CloudTrail as a log source: the members of `fingerprint.sources.protocol.LogSource`, gathered from this package.

Example:
    >>> split_lines([b'{"eventName": "GetUser"}']).lines
    [b'{"eventName": "GetUser"}']
    >>> impact_of("cloudtrail", "StopLogging", "").effect
    'stops or weakens the audit log'

`schema.COLUMNS` gives the path and the type of each column. `duckdb_reader` reads records on the host, `cudf_reader` on a device;
both give the same events and the same rejects (docs/explanation/reading.md).

Functions on tables import their modules at the first call. Pages and commands that list alerts need only impacts and accounts of
this module, so they start without pandas, Arrow and DuckDB, which take longer to import than a list takes to print.
"""

# The imports are the members of the protocol, which mypy checks (`sources.active`): none is unused.
# ruff: noqa: F401
# mypy: implicit-reexport

from __future__ import annotations

from typing import TYPE_CHECKING

from fingerprint.sources.base import FlattenedRecords, RecordBatch
from fingerprint.sources.cloudtrail.action_verbs import changes_something
from fingerprint.sources.cloudtrail.attack_mappings import technique_name
from fingerprint.sources.cloudtrail.attack_mappings import without_api_version as plain_action
from fingerprint.sources.cloudtrail.attack_tactics import (
    serves_attackers,
    tactics_among,
    tactics_of,
    techniques_of,
)
from fingerprint.sources.cloudtrail.check_records import check_batches
from fingerprint.sources.cloudtrail.console_links import event_links, principal_links
from fingerprint.sources.cloudtrail.credential_facts import (
    credential_facts,
    issued_key,
    shared_call,
    signed_in_as,
    signed_in_with_device_code,
    signed_in_without_mfa,
)
from fingerprint.sources.cloudtrail.effect_words import ELSEWHERE_WORDS, access_words, request_words
from fingerprint.sources.cloudtrail.envelopes import (
    RECORD_PREFIX,
    may_be_envelope,
    split_lines,
    split_lines_in_parts,
    split_message_in_parts,
)
from fingerprint.sources.cloudtrail.event_queries import principal_queries
from fingerprint.sources.cloudtrail.identity import (
    IDENTITY_COLUMNS,
    person_and_access,
    plain_principal,
    principal_of,
    record_account,
    signed_in_by,
)
from fingerprint.sources.cloudtrail.impact import bulk_read, impact_of, used_elsewhere
from fingerprint.sources.cloudtrail.lenient import NO_EVENT_FIELDS
from fingerprint.sources.cloudtrail.opened_access import opened_access
from fingerprint.sources.cloudtrail.playbook import next_steps
from fingerprint.sources.cloudtrail.playbook_contain_role import name_opener
from fingerprint.sources.cloudtrail.record_search import record_searches
from fingerprint.sources.cloudtrail.resources import may_lie_in, typed_resource
from fingerprint.sources.cloudtrail.s3_layout import (
    holds_events,
    is_log_folder,
    list_months,
    notified_objects,
    object_day,
    ordered_prefix,
)
from fingerprint.sources.cloudtrail.samples import known_attacks

if TYPE_CHECKING:
    from fingerprint.compute.frames import Frame
    from fingerprint.core.alert import CredentialIssue

NAME = "CloudTrail"
CLOUD_PROVIDER = "AWS"


def flatten(records: RecordBatch, dataframe_library: str) -> FlattenedRecords:
    """Return one row for each readable record, in order: the columns of `schema.COLUMNS`, then `row`.

    Columns that others group by are cut to `schema.MAX_COLUMN_LENGTH` characters. A missing event id becomes `digest:` and a hash
    of the record's bytes.
    """
    if dataframe_library == "pandas":
        from fingerprint.sources.cloudtrail import duckdb_reader

        return duckdb_reader.read_on_host(records)
    from fingerprint.sources.cloudtrail import cudf_reader

    return cudf_reader.read_on_device(records, dataframe_library)


def find_issued_credentials(events: Frame) -> list[CredentialIssue]:
    """Return the calls among events (with entities) that issued credentials, the oldest first and one for each key."""
    from fingerprint.sources.cloudtrail import credential_chain

    return credential_chain.find_issued_credentials(events)
