"""Impact of AWS actions, such as to stop the audit log or to create credentials: by a table, then by the verb.

Example:
    >>> impact_of("cloudtrail", "StopLogging", "")[:4]
    ('severe', 'stops or weakens the audit log', 'Defense Evasion', 'T1562.008')
    >>> impact_of("s3", "GetBucketPolicy", "").gravity, impact_of("newservice", "PutResourcePolicy", "").gravity
    ('none', 'notable')

There are four degrees, by how hard a call is to undo:

- severe: blinds the defenders, or gives credentials, data or the account to an outsider
- grave: makes it easy to persist, to gain privileges, to lose data or to spend money
- notable: one step of these that everyday work has as well: reading a secret, running a command, changing a policy
- minor: any other write

Reads that only look around have no impact.

Techniques are from MITRE ATT&CK (v15), selected by hand from its descriptions of Cloud techniques and from data/attack_tactics.
An action that is not in the table is judged by the words of its name (`_by_name`), so new services of AWS are judged as well. A
request can lower or raise the impact of its action (`impact_requests`): a bucket policy for everybody is severe, one without
outsiders is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

from fingerprint.core.alert import GRAVE_OR_SEVERE, GRAVITIES, Gravity
from fingerprint.sources.base import NO_IMPACT, CallImpact
from fingerprint.sources.cloudtrail.action_verbs import changes_something, without_batch
from fingerprint.sources.cloudtrail.attack_mappings import mapped_tactics, without_api_version
from fingerprint.sources.cloudtrail.credential_facts import is_of_instance
from fingerprint.sources.cloudtrail.impact_effects import (
    BULK_READS,
    EFFECTS,
    GRAVER_EFFECTS,
    LETS_OTHERS,
    MILDER_EFFECTS,
    OUTSIDE_INSTANCE,
    Effect,
)
from fingerprint.sources.cloudtrail.impact_grants import outsiders_let_in, policy_gravity
from fingerprint.sources.cloudtrail.impact_requests import (
    adjust_gravity,
    detail_of_request,
    effect_by_request,
)
from fingerprint.sources.cloudtrail.record_members import CallRecord

_GUARDED_SERVICES = frozenset((
    "iam", "organizations", "cloudtrail", "guardduty", "config", "securityhub", "kms", "backup", "sso",
    "sso-directory", "identitystore", "account", "access-analyzer", "macie2", "detective", "inspector2",
    "secretsmanager", "rolesanywhere", "ram", "sts",
))  # fmt: skip
_WATCHING = ("Logging", "LogConfig", "FlowLog", "Detector", "Alarm", "Trail", "Recorder", "Monitoring")
_RECOVERY = ("Backup", "Snapshot", "Recovery", "Replication")
_CREDENTIAL = (
    "AccessKey", "AccessToken", "AccountToken", "ApiKey", "AuthToken", "BearerToken", "CliToken",
    "Credential", "KeysAndCertificate", "LoginProfile", "LoginToken", "Password", "SSHPublicKey",
    "SshPublicKey",
)  # fmt: skip
_SIGNED_ADDRESS = ("Presigned", "StreamingURL")  # opening it needs no credential
_NEW_USERS = ("CreateUser", "RegisterUser")
_SHARING = ("Policy", "Permission", "PublicAccess", "Acl", "Grant", "Share", "Access")
# Policies of other things
_NO_RIGHTS = ("ScalingPolicy", "LifecyclePolicy", "CachePolicy", "RequestPolicy", "HeadersPolicy")
# What holds data or serves others: the last words of the names of things that are missed where they are deleted.
_SERVES = (
    "Api", "App", "Application", "Broker", "Bucket", "Channel", "Cluster", "Collection", "Database",
    "DBInstance", "Distribution", "Domain", "Endpoint", "Environment", "FileSystem", "Fleet", "Function",
    "Gateway", "Graph", "Index", "Instance", "Instances", "Keyspace", "LoadBalancer", "Queue", "Repository",
    "Server", "Service", "StateMachine", "Stream", "Table", "Volume",
)  # fmt: skip
_TAKES_AWAY = (
    "Delete", "Disable", "Stop", "Remove", "Terminate", "Deregister", "Disassociate", "Purge", "Cancel",
)  # fmt: skip
_GIVES = (
    "Put", "Set", "Add", "Attach", "Modify", "Update", "Create", "Authorize", "Grant", "Share", "Import",
    "Reset",
)  # fmt: skip


def impact_of(service: str, action: str, record: str) -> CallImpact:
    """Return the impact of a call; `record` is its JSON text, or empty.

    An unlisted action writes if its verb says so, unless the record's flag says that it does not.
    """
    plain, read = without_api_version(action), CallRecord(record)
    found = _impact_by_request(service, plain, read)
    if found == NO_IMPACT:
        return found
    if read.is_dry_run or found.gravity in GRAVE_OR_SEVERE:
        found = found._replace(detail=detail_of_request(service, plain, read), dry_run=read.is_dry_run)
    outsiders = outsiders_let_in(service, plain, read) if record else ()
    if not outsiders:
        return found
    return found._replace(outsiders=outsiders, milder_effect=MILDER_EFFECTS.get(found.effect, found.effect))


def _impact_by_request(service: str, action: str, record: CallRecord) -> CallImpact:
    found = listed_actions().get((service, action))
    if found is None:
        found = (
            _by_name(service, without_batch(action)) if action and changes_something(action) else NO_IMPACT
        )
        if found == NO_IMPACT or record.reads_only:
            return NO_IMPACT
        gravity = policy_gravity(service, record)
        return CallImpact(gravity, *LETS_OTHERS) if gravity else found
    if own := effect_by_request(service, action, record):
        return CallImpact(found.gravity, *own)
    gravity = adjust_gravity(service, action, found.gravity, record)
    found = _if_graver().get((service, action, gravity), found)
    if GRAVITIES.index(gravity) < GRAVITIES.index(found.gravity):
        found = found._replace(effect=MILDER_EFFECTS.get(found.effect, found.effect))
    return found if gravity == found.gravity else found._replace(gravity=gravity)


def bulk_read(service: str, action: str) -> CallImpact:
    """Return the impact of an action that was called more often than ever, if it reads data or secrets; else no impact.

    >>> bulk_read("s3", "GetObject").effect, bulk_read("s3", "GetBucketPolicy").gravity
    ('takes stored data, more than ever in the history', 'none')
    """
    return _bulk_reads().get((service, without_api_version(action)), NO_IMPACT)


def used_elsewhere(record: str, found: CallImpact) -> CallImpact:
    """Return `found`, the impact of a call from a network new to its credential, with `elsewhere` set for an instance's.

    Such a credential is read from the metadata service of a machine, which stays in its network.

    >>> record = '{"userIdentity": {"sessionContext": {"ec2RoleDelivery": "2.0"}}}'
    >>> used_elsewhere(record, NO_IMPACT).effect_in_full, used_elsewhere("", NO_IMPACT).elsewhere
    ("is called: with an instance's credentials, outside of its networks", '')
    """
    if not is_of_instance(record):
        return found
    if found.gravity == "none":
        found = CallImpact("none", "is called", "Credential Access", "T1552.005")
    return found._replace(elsewhere=OUTSIDE_INSTANCE)


@cache
def _bulk_reads() -> dict[tuple[str, str], CallImpact]:
    return dict(_listed(BULK_READS))


@cache
def listed_actions() -> dict[tuple[str, str], CallImpact]:
    """Return the impact of each (service, action) of the table."""
    return dict(_listed(EFFECTS))


@cache
def _if_graver() -> dict[tuple[str, str, Gravity], CallImpact]:
    return {(*call, impact.gravity): impact for call, impact in _listed(GRAVER_EFFECTS)}


def _listed(effects: Iterable[Effect]) -> Iterator[tuple[tuple[str, str], CallImpact]]:
    """Yield each (service, action) of a table and its impact."""
    for effect in effects:
        for call in effect.calls():
            yield call, CallImpact(*effect[:4])


def _by_name(service: str, action: str) -> CallImpact:
    """Return the impact of a write that is not in the table, by the words of its name and by its service."""
    tactics = mapped_tactics(service, action)
    listed = tactics[0] if tactics else ""
    if action.startswith(_TAKES_AWAY):
        if any(word in action for word in _WATCHING):
            return CallImpact(
                "notable", "removes or disables something that watches", listed or "Defense Evasion", "T1562"
            )
        if any(word in action for word in _RECOVERY):
            return CallImpact("notable", "removes a way back", listed or "Impact", "T1490")
        if action.startswith(("Delete", "Terminate")) and action.endswith(_SERVES):
            return CallImpact("notable", "deletes data or machines", listed or "Impact", "T1485")
    elif any(word in action for word in _CREDENTIAL):
        return CallImpact("notable", "creates or changes a credential", listed or "Persistence", "T1098")
    elif any(word in action for word in _SIGNED_ADDRESS):
        return CallImpact(
            "notable", "makes an address that needs no credential", listed or "Credential Access", "T1550"
        )
    elif action.endswith(_NEW_USERS):
        return CallImpact("notable", "creates a user of a service", listed or "Persistence", "T1136")
    elif (
        action.startswith(_GIVES)
        and any(word in action for word in _SHARING)
        and not action.endswith(_NO_RIGHTS)
    ):
        return CallImpact("notable", "changes who has access", listed or "Privilege Escalation", "T1098")
    if service in _GUARDED_SERVICES:
        return CallImpact("notable", "changes identities, keys or guards", listed, "")
    return CallImpact("minor", "changes something", listed, "")
