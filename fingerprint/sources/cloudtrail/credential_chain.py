"""Calls that hand out credentials: the links of a credential chain.

Example:
    >>> issues = find_issued_credentials(events)            # of events with entities: AssumeRole and its like
    >>> store.alerts.save(credential_issues=issues)
    >>> [issue.principal for issue in store.alerts.credential_chain("ASIA…")]      # the nearest first
    ['123456789012:role/deploy', '123456789012:user/alice']

A session's credentials have an access key of their own, and the record of the call that issued them names it
(`responseElements.credentials.accessKeyId`) beside the caller's key (`userIdentity.accessKeyId`). Joined by these keys
(`core.related_events`), the calls lead from a role back to the person or the first key. Calls of AWS services for themselves are
left out: they are the majority, and lead to no caller. Those of services that run code of the account (RUNS_CODE) are kept: if
such a key is stolen, its opener says from where. A call from another account is recorded in both accounts, and only the caller's
own record has the caller's key.
"""

from __future__ import annotations

from operator import itemgetter

from fingerprint.compute import frames
from fingerprint.compute.frames import Frame
from fingerprint.core.alert import CredentialIssue

WHO_COLUMNS = ("principal", "human", "access_key")
RUNS_CODE = ("lambda.amazonaws.com", "ec2.amazonaws.com", "ecs-tasks.amazonaws.com", "pods.eks.amazonaws.com")
CALL_COLUMNS = ("event_id", "issued_key", "action", "source_address", "region", *WHO_COLUMNS)


def find_issued_credentials(events: Frame) -> list[CredentialIssue]:
    """Return the calls among events (with entities) that issued credentials, the oldest first and one for each key.

    If several records issued a key, one with the caller's key is preferred, then the oldest.
    """
    issued = frames.present_mask(frames.column_of(events, "issued_key"))
    if not issued.any():
        return []
    columns = frames.select_columns(events, ["event_time", "kind", *CALL_COLUMNS])
    calls = frames.to_pandas(frames.select_rows(columns, issued))
    service = calls["principal"].str.partition(":service/")[2]
    kept = (calls["kind"] != "service") | service.isin(RUNS_CODE)
    calls = calls[(calls["issued_key"] != "") & kept & calls["event_id"].notna()]
    times = calls["event_time"].array.to_pydatetime()
    texts = [map(frames.text_or_empty, calls[name].tolist()) for name in CALL_COLUMNS]
    found: dict[str, CredentialIssue] = {}
    for at, *row in sorted(zip(times, *texts, strict=True), key=itemgetter(0, 1)):
        call = dict(zip(CALL_COLUMNS, row, strict=True))
        known = found.get(call["issued_key"])
        if known is None or (call["access_key"] and not known.access_key):
            found[call["issued_key"]] = CredentialIssue(at=at, **call)
    return list(found.values())
