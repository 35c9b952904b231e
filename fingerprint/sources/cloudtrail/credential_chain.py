"""Calls that hand out credentials: the links of a credential chain.

Example:
    >>> issues = find_issued_credentials(events)            # of events with entities: AssumeRole and its like
    >>> store.alerts.save(credential_issues=issues)
    >>> [issue.principal for issue in store.alerts.credential_chain("ASIA…")]      # the nearest first
    ['123456789012:role/deploy', '123456789012:user/alice']

A session's credentials have an access key of their own, and the record of the call that issued them names it
(`responseElements.credentials.accessKeyId`) beside the caller's key (`userIdentity.accessKeyId`). Joined by these keys
(`core.alert.trace_credentials`), the calls lead from a role back to the person or the first key. Calls of AWS services for
themselves are left out: they are most of them, and lead to no caller.
"""

from __future__ import annotations

from fingerprint.compute import frames
from fingerprint.compute.frames import Frame
from fingerprint.core.alert import CredentialIssue

EVENT_COLUMNS = ("action", "principal", "human", "access_key", "source_address", "region")


def find_issued_credentials(events: Frame) -> list[CredentialIssue]:
    """Return the calls among events (with entities) that handed out credentials, the oldest first and one a key."""
    handed = (
        (events["issued_key"].fillna("") != "") & (events["kind"] != "service") & events["event_id"].notna()
    )
    mask = frames.to_mask(handed)
    if not mask.any():
        return []
    calls = events[["event_time", "event_id", "issued_key", *EVENT_COLUMNS]]
    found = frames.to_pandas(frames.select_rows(calls, mask)).sort_values(["event_time", "event_id"])
    found = found.drop_duplicates("issued_key")
    texts = found[["event_id", "issued_key", *EVENT_COLUMNS]].astype(object)
    rows = texts.where(texts.notna(), "").to_dict("records")
    return [
        CredentialIssue(at=at.to_pydatetime(), **{str(name): str(value) for name, value in row.items()})
        for at, row in zip(found["event_time"], rows, strict=True)
    ]
