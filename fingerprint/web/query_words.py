"""A translatable description of each query field, for pages and suggestions.

Example:
    >>> QUERY_FIELD_WORDS["person"]
    'person behind the session'
"""

from __future__ import annotations

from collections.abc import Mapping

from fingerprint.web.language import N_

QUERY_FIELD_WORDS: Mapping[str, str] = {  # of each of `core.alert_query.FIELDS`, in its order
    "action": N_("call, with or without its service: StopLogging, iam:CreateUser"),
    "service": N_("service: iam, s3"),
    "principal": N_("principal, whole or its last part: ci-*"),
    "person": N_("person behind the session"),
    "address": N_("source address, or a range: 203.0.113.7, 203.0.113.0/24"),
    "country": N_("country of an address, by a table of the settings: NL"),
    "network_owner": N_("owner of an address's network, by a table: AS64500*, *hosting*"),
    "network": N_("range of addresses, or the owner of one by a table: 203.0.113.0/24, AS64500*"),
    "known_range": N_("known range of an address, by a table: *VPN*"),
    "key": N_("access key"),
    "resource": N_("resource that a call touched"),
    "error": N_("error code: AccessDenied"),
    "agent": N_("user agent: aws-cli*"),
    "region": N_("region: eu-west-1"),
    "account": N_("account that recorded a call"),
    "tactic": N_("ATT&CK tactic"),
    "technique": N_("ATT&CK technique; T1562 is also its sub-techniques"),
    "severity": N_("low, medium, high, critical; also severity>=high"),
    "urgency": N_("0 to 100: urgency>=50"),
    "events": N_("events of the alert: events>=10"),
    "status": N_("new, in-progress, closed"),
    "decision": N_("true_positive, benign, false_positive, duplicate, or none"),
    "assignee": N_("name, me, or none"),
    "judged": N_("fingerprint that judged it: entity, principal, peer, generic"),
}
