"""The inverse of a call that the table of `playbook_undo` does not have, by the names of AWS's operations.

Example:
    >>> inverse_undo("sagemaker:CreateTrainingJob").command
    'aws sagemaker stop-training-job --region <region> --training-job-name <trainingJobName|TrainingJobName|...>'

The inverse stops or deletes what a call made, takes back what it gave, gives back what it took, and restores what it changed. It
uses only operations that the service has. In a command
- `<a|b>` is the first of several members that a record has
- `<*.a>` is a member of any structure in the response
- `EARLIER_` with a name is a value that only the organisation knows
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

from fingerprint.core.alert import GRAVE_OR_SEVERE
from fingerprint.sources.cloudtrail.action_verbs import without_batch
from fingerprint.sources.cloudtrail.attack_mappings import without_api_version
from fingerprint.sources.cloudtrail.impact import listed_actions
from fingerprint.sources.cloudtrail.operations import Operation, cli_word, find_operation

MAX_REMEMBERED = 2_000  # actions in a cache: an attacker can write any number of names into records
# Verbs, and the verbs that set them back, the best first. These start or run something.
_RUNS = {
    "Start": ("Stop", "Cancel", "Terminate"),
    "Run": ("Stop", "Terminate"),
    "Resume": ("Stop", "Terminate", "Suspend", "Pause"),
    "Submit": ("Terminate", "Cancel"),
    "Request": ("Cancel",),
    "Create": ("Stop", "Cancel", "Terminate"),
}
_GIVES = {
    "Create": ("Delete", "Remove", "Deregister"),
    "Attach": ("Detach",),
    "Associate": ("Disassociate",),
    "Enable": ("Disable",),
    "Activate": ("Deactivate",),
    "Register": ("Deregister",),
    "Add": ("Remove", "Delete"),
    "Authorize": ("Revoke", "Deauthorize"),
    "Grant": ("Revoke",),
    "Subscribe": ("Unsubscribe",),
    "Import": ("Delete",),
    "Upload": ("Delete",),
    "Copy": ("Delete", "Deregister"),
    "Allocate": ("Release",),
    "Accept": ("Reject", "Delete"),
    "Assign": ("Unassign",),
    "Publish": ("Delete",),
    "Share": ("Unshare",),
    "Restore": ("Delete",),  # from a copy
}
_TAKES = {
    "Detach": ("Attach",),
    "Disassociate": ("Associate",),
    "Disable": ("Enable",),
    "Deactivate": ("Activate", "Enable"),
    "Deregister": ("Register",),
    "Remove": ("Add",),
    "Revoke": ("Authorize", "Grant"),
    "Unsubscribe": ("Subscribe",),
    "Stop": ("Start",),
    "Suspend": ("Resume",),
    "Pause": ("Resume",),
    "Delete": ("Put", "Create", "Import"),
}
# Advice by the verb of the inverse; for all other verbs it is to give again.
_AGAIN = {
    "Start": "Start it again.",
    "Resume": "Resume it.",
    "Enable": "Switch it on again.",
    "Activate": "Switch it on again.",
}
_PUTS = {"Put": ("Delete",)}
_MAKES = ("Create", "Put", "Import", "Register")
_CHANGES = ("Update", "Modify", "Set", "Change", "Replace", "Put", "Reset", "Configure")
_LOOKS = ("Get", "Describe", "List")
# Operations that return a secret: no step uses them to look at a change.
_SHOWS_SECRETS = frozenset(
    {
        "amplify:GetApp",
        "amplify:GetBranch",
        "cognito-idp:DescribeUserPoolClient",
        "ec2:DescribeVerifiedAccessTrustProviders",
        "route53globalresolver:GetAccessToken",
        "secretsmanager:GetSecretValue",
        "ssm:GetParameter",
        "storagegateway:DescribeChapCredentials",
    }
)
_ELSEWHERE = {
    "bucket": ("bucketName",),
    "instanceIds": ("instancesSet.items.instanceId",),
}  # member of an operation -> other names of it in records
_PASSWORDS = ("password", "passwords")  # ends of members
# Members that are not the content of a Put
_BESIDE = ("tags", "description", "checksum", "contentMD5", "checksumAlgorithm")
_IS_DOCUMENT = ("policy", "policydocument")  # ends of members that hold a policy as JSON
_NO_DOCUMENT = ("PropagationPolicy", "EntityPolicy")  # exceptions, which hold a word or an ARN
_SAYS_WHICH = ("Name", "Id", "Arn", "Identifier")  # ends of members that identify a thing
_SAYS_WHICH_TOO = (
    *(each.lower() for each in _SAYS_WHICH),
    *("ids", "names", "identity", "domain", "rule", "bucket", "cluster", "instances", "ip", "code"),
)
_LOST = ("T1485", "T1490")  # techniques: data destroyed, or the means to recover them
_AWAY = "T1537"  # technique: data taken to another account
# Ends of the names of things that hold no data
_SETTINGS = ("Plan", "Configuration", "Policy", "Replication", "Rule", "Selection")
# Guards, which watch or protect, stay on: to switch one off is itself an attack on defences (T1562).
_LEAVE_WATCHING = "Leave it on: it only watches; look whether it sends its findings elsewhere."
_MAY_WATCH_LESS = " Compare it with what it was before: it may watch less."
_LEAVE_PROTECTING = "Leave it on: it only protects."
_WATCH_TECHNIQUES = ("T1562.001", "T1562.008")  # techniques: detection, logs or alarms switched off
# Guards without an inverse, or with one that no table lists as an attack
_WATCHES = frozenset(
    {
        "access-analyzer:CreateServiceLinkedAnalyzer",
        "auditmanager:RegisterAccount",
        "config:PutOrganizationConformancePack",
        "monitoring:EnableInsightRules",
        "monitoring:PutAnomalyDetector",
        "monitoring:PutCompositeAlarm",
        "monitoring:PutInsightRule",
        "monitoring:PutMetricAlarm",
        "securityhub:EnableSecurityHubFeatureV2",
    }
)
_PROTECTS = frozenset(
    {
        "ec2:EnableEbsEncryptionByDefault",
        "ec2:EnableImageBlockPublicAccess",
        "ec2:EnableImageDeregistrationProtection",
        "ec2:EnableSnapshotBlockPublicAccess",
        "kms:EnableKeyRotation",
        "rolesanywhere:EnableCrl",
        "route53:EnableHostedZoneDNSSEC",
        "route53domains:EnableDomainTransferLock",
        "shield:CreateProtection",
    }
)
# These are undone although they watch: they hand logs, findings or the rule over guards to another account, or react to events,
# so a thief may have made them.
_ALSO_GIVES = frozenset(
    {
        "cloudtrail:CreateChannel",
        "config:PutAggregationAuthorization",
        "events:ActivateEventSource",
        "events:EnableRule",
        "events:PutRule",
        "fms:AssociateAdminAccount",
        "guardduty:CreatePublishingDestination",
        "logs:CreateDelivery",
        "logs:CreateLogGroup",
        "logs:CreateLogStream",
        "logs:PutAccountPolicy",
        "logs:PutDeliveryDestination",
        "logs:PutDeliverySource",
        "logs:PutDestination",
        "logs:PutSubscriptionFilter",
        "securitylake:CreateSubscriber",
        "shield:AssociateDRTRole",
        "shield:CreateSubscription",  # costs much
    }
)
# Ends of actions that hand over the rule over guards
_GIVES_RULE = ("AdminAccount", "DelegatedAdmin", "DelegatedAdministrator")
# Deleted credentials: no operation makes the same one again, and a new one would outlast the incident.
_CREDENTIALS = {
    "apigateway:DeleteApiKey": "key",
    "appsync:DeleteApiKey": "key",
    "codecatalyst:DeleteAccessToken": "token",
    "ec2:DeleteKeyPair": "key pair",
    "grafana:DeleteWorkspaceApiKey": "key",
    "grafana:DeleteWorkspaceServiceAccountToken": "token",
    "iam:DeleteAccessKey": "key",
    "iam:DeleteLoginProfile": "password",
    "iam:DeleteSSHPublicKey": "key",
    "iam:DeleteServerCertificate": "certificate",
    "iam:DeleteServiceSpecificCredential": "credential",
    "iam:DeleteSigningCertificate": "certificate",
    "iam:DeleteVirtualMFADevice": "second factor",
    "iot:DeleteCertificate": "certificate",
    "lightsail:DeleteBucketAccessKey": "key",
    "lightsail:DeleteKeyPair": "key pair",
    "route53globalresolver:DeleteAccessToken": "token",
    "transfer:DeleteSshPublicKey": "key",
    "wafv2:DeleteAPIKey": "key",
}
# Actions that make or register a device's certificate, which can only be deleted once it is inactive
_CERTIFICATES = frozenset(
    {
        "iot:CreateCertificateFromCsr",
        "iot:CreateKeysAndCertificate",
        "iot:RegisterCertificate",
        "iot:RegisterCertificateWithoutCA",
    }
)
# Verbs of actions that run, send or use something once, so there is nothing to set back
_ONCE = (
    "Invoke",
    "Converse",
    "Send",
    "Publish",
    "Execute",
    "Purge",
    "Assume",
    "Reboot",
    "Failover",
    "Run",
    "Start",
)


class Undo(NamedTuple):
    """A sentence, commands, and options of the last command. An option is used if the record has all of its members.

    `one_needed`: if the record has the members of no option, the first option is used, to be filled in.
    """

    text: str
    command: str
    options: tuple[str, ...] = ()
    one_needed: bool = True


_DEACTIVATED = Undo(
    "Deactivate the certificate: who has its key connects as a device, however the credential is cut off.",
    "aws iot update-certificate --region <region> --certificate-id <certificateId> --new-status INACTIVE",
)


def leaves_nothing(action: str) -> bool:
    """Return whether an action does something once, so there is nothing to set back.

    >>> leaves_nothing("bedrock:InvokeModel"), leaves_nothing("iam:CreateUser")
    (True, False)
    """
    return without_batch(without_api_version(action).partition(":")[2]).startswith(_ONCE)


@lru_cache(maxsize=MAX_REMEMBERED)
def stays_on(action: str, technique: str = "") -> bool:
    """Return whether an action makes or starts a guard, which only watches or protects, so it is not undone.

    An action that takes data to another account (`technique`) is always undone.

    >>> stays_on("guardduty:CreateDetector"), stays_on("iam:CreateUser")
    (True, False)
    """
    service, _, name = without_api_version(action).partition(":")
    return technique != _AWAY and _left_on(service, name) is not None


@lru_cache(maxsize=MAX_REMEMBERED)
def inverse_undo(action: str, technique: str = "") -> Undo | None:
    """Return how to undo an action, by the operations of its service; None if none of them sets it back."""
    service, _, name = without_api_version(action).partition(":")
    done = find_operation(service, name)
    if done is None:
        return None
    if stays_on(action, technique) and (guard := _left_on(service, name)):
        return guard
    if f"{service}:{name}" in _CERTIFICATES:
        return _DEACTIVATED
    if credential := _CREDENTIALS.get(f"{service}:{name}"):
        return Undo(
            f"A deleted {credential} does not come back: give its owner a new one when the incident is over.",
            "",
        )
    thing = name.removeprefix("Delete")
    if thing != name and technique in _LOST and not thing.endswith(_SETTINGS):
        return _restored(service, thing)
    undo = _reset(done) or _inverse(service, name, done) or _earlier(service, name, done)
    if undo is None or technique != _AWAY:
        return undo
    return undo._replace(
        text=f"{undo.text} What was taken to another account stays there: treat its data as lost."
    )


def _left_on(service: str, name: str) -> Undo | None:
    """Return the advice to leave a guard on; None if the action makes no guard.

    An action makes a guard if its inverse is listed as an attack that switches off detection, logs or alarms.

    >>> _left_on("guardduty", "CreateDetector").text
    'Leave it on: it only watches; look whether it sends its findings elsewhere.'
    """
    action = f"{service}:{name}"
    if action in _PROTECTS:
        return Undo(_LEAVE_PROTECTING, "")
    if action not in _WATCHES and not _watches(service, name):
        return None
    return Undo(_LEAVE_WATCHING + (_MAY_WATCH_LESS if name.startswith("Put") else ""), "")


def _watches(service: str, name: str) -> bool:
    if f"{service}:{name}" in _ALSO_GIVES or name.endswith(_GIVES_RULE):
        return False
    inverses = (_counterpart(service, name, verbs) for verbs in (_RUNS, _PUTS, _GIVES))
    inverse = next((each for each in inverses if each), None)
    harm = listed_actions().get((service, without_api_version(inverse.name))) if inverse else None
    return harm is not None and harm.gravity in GRAVE_OR_SEVERE and harm.technique in _WATCH_TECHNIQUES


def _inverse(service: str, name: str, done: Operation) -> Undo | None:
    if (stop := _counterpart(service, name, _RUNS)) is not None:
        return _with("Stop it: it goes on without the credential that started it.", stop, done)
    if (delete := _counterpart(service, name, _PUTS)) is not None:
        look = _look(service, name.removeprefix("Put"), delete)
        text = "Keep it as evidence. If it is new, delete it, else put the earlier one back."
        return _with(text, delete, done, look)
    if (take := _counterpart(service, name, _GIVES)) is not None:
        return _with("Take it back, when its evidence is kept.", take, done)
    if (give := _counterpart(service, name, _TAKES)) is None:
        return None
    gives = without_batch(give.name)
    if _verb(gives) not in _MAKES:
        return _with(_AGAIN.get(_beginning(gives, _AGAIN), "Give it again."), give, done)
    return _made_again(give, done)


def _made_again(make: Operation, deleted: Operation) -> Undo:
    """Return how to make again what was deleted.

    A Put that has only the members which identify the thing would clear it, so its content is added.
    """
    known = {member for member, _, _ in deleted.parameters}
    text = "Make it again, with the settings that your infrastructure code or AWS Config has."
    members = _needed(make)
    if make.name.startswith("Put") and all(member in known for member, _ in members):
        put = _put_by(make, known)
        members += put
        text += " Leave out what it did not have." if len(put) > 1 else ""
    return _with(text, make, deleted)._replace(command=_written(make, members, known))


def _put_by(put: Operation, known: Collection[str]) -> list[tuple[str, str]]:
    """Return the optional members with the content of a Put: those that the Put is named after, else all of them.

    >>> _put_by(find_operation("backup", "PutBackupVaultAccessPolicy"), {"backupVaultName"})
    [('policy', 's')]
    """
    others = [
        (name, kind)
        for name, kind, must in put.parameters
        if not must and name not in known and name not in _BESIDE
    ]
    named = [each for each in others if put.name.lower().endswith(each[0].lower())]
    return named or others


def _restored(service: str, thing: str) -> Undo:
    """Return how to get deleted data back: by the operation that restores them, else from a backup."""
    restore = find_operation(service, f"Restore{thing}")
    if restore:
        return Undo("Restore it, before the time for that is over.", _written(restore, _needed(restore)))
    lost = (
        "It is gone: restore it from a backup or from a copy elsewhere, and let no one delete what is left."
    )
    return Undo(lost, _look(service, f"{thing}s", None))


def _reset(changed: Operation) -> Undo | None:
    """Return how to replace a password that the caller set, by the same call with a new one; None if the call sets none.

    The earlier password cannot be put back, because only its owner knew it. A call that needs a user's own token has no command:
    only that user can make it.
    """
    needed = _needed(changed)
    own = any(name.lower().endswith("token") for name, _ in needed)
    secrets = [name for name, kind in needed if kind == "s" and name.lower().endswith(_PASSWORDS)]
    if len(secrets) != 1 or not changed.name.removeprefix("Admin").startswith(_CHANGES):
        return None
    text = "The caller knows these passwords: reset each to a new random one, and give it to its owner alone."
    named = _written(changed, [each for each in needed if each[0] not in secrets])
    return Undo(text, "" if own else f"{named} --{cli_word(secrets[0])} NEW_PASSWORD")


def _earlier(service: str, name: str, changed: Operation) -> Undo | None:
    """Return how to restore the earlier values of a changed thing: look at it, then make the same call with those values.

    Members identify the thing if the operation that shows or deletes it has them, too. Without such an operation the first name
    or id does.
    """
    verb = _verb(name)
    if verb not in _CHANGES:
        return None
    thing = name.removeprefix(verb)
    shows = [_showing(service, thing), find_operation(service, f"Delete{thing}")]
    needed = _needed(changed)
    known = {member for each in shows if each for member, _, _ in each.parameters}
    if not any(shows):
        which = [name for name, _ in needed if name.lower().endswith(_SAYS_WHICH_TOO) or len(needed) == 1]
        known = set(which[:1])
    look = _look(service, thing, changed)
    set_back = _written(changed, needed, known) if any(member not in known for member, _ in needed) else ""
    text = "Look at it as it is now, and set it back to what your infrastructure code or AWS Config has."
    if _sets_password(service, changed):
        text += " Where the call set a password, the caller knows it: set a new random one."
    command = "\n".join(each for each in (look, set_back) if each)
    return Undo(text, command) if command else None


def _sets_password(service: str, changed: Operation) -> bool:
    """Return whether a change may set a password. The catalogue lacks the later members of rds:ModifyDBInstance."""
    named = any(kind in "sl" and name.lower().endswith(_PASSWORDS) for name, kind, _ in changed.parameters)
    return named or f"{service}:{changed.name}" == "rds:ModifyDBInstance"


def _verb(name: str) -> str:
    return _beginning(name, (*_MAKES, *_CHANGES))


def _beginning(name: str, verbs: Iterable[str]) -> str:
    return next((verb for verb in verbs if name.startswith(verb)), "")


def _counterpart(service: str, name: str, verbs: Mapping[str, tuple[str, ...]]) -> Operation | None:
    """Return the first operation of a service that does the opposite to the same thing, as a batch if the action is one."""
    single = without_batch(name)
    batch = name.removesuffix(single)
    verb = next((verb for verb in verbs if single.startswith(verb)), "")
    if not verb:
        return None
    names = (
        f"{begins}{opposite}{thing}"
        for begins in dict.fromkeys((batch, ""))
        for opposite in verbs[verb]
        for thing in _things(verb, single.removeprefix(verb))
    )
    return next((found for found in (find_operation(service, each) for each in names) if found), None)


def _things(verb: str, thing: str) -> Iterator[str]:
    """Yield names that a thing may have in the inverse operation.

    >>> list(_things("Add", "RoleToInstanceProfile")), list(_things("Restore", "TableFromBackup"))
    (['RoleToInstanceProfile', 'RoleFromInstanceProfile'], ['Table'])
    """
    if verb != "Restore":
        yield thing
    for to, opposite in (("To", "From"), ("From", "To")):
        before, _, after = thing.rpartition(to)
        if before and after[:1].isupper():
            yield before if verb == "Restore" else f"{before}{opposite}{after}"


def _showing(service: str, thing: str) -> Operation | None:
    """Return the operation that shows a thing, alone or among others."""
    names = (f"{verb}{each}" for each in (thing, f"{thing}s") for verb in _LOOKS)
    return next((found for found in (find_operation(service, each) for each in names) if found), None)


def _look(service: str, thing: str, about: Operation | None) -> str:
    """Return the command that shows a thing, with the needed members of `about`; empty if there is none, or it shows secrets."""
    look = _showing(service, thing)
    if look is None or f"{service}:{look.name}" in _SHOWS_SECRETS:
        return ""
    needed = {name for name, _ in _needed(about)} if about else set()
    return _written(look, [(name, kind) for name, kind, must in look.parameters if must or name in needed])


def _needed(operation: Operation) -> list[tuple[str, str]]:
    return [(name, kind) for name, kind, required in operation.parameters if required]


def _with(text: str, inverse: Operation, done: Operation, look: str = "") -> Undo:
    """Return the undo by an inverse operation: its needed members, and as options the other texts that the call has, too."""
    needed = _needed(inverse)
    called = {name for name, _, _ in done.parameters}
    others = [name for name, kind, must in inverse.parameters if kind == "s" and not must]
    options = tuple(
        f"--{cli_word(name)} {_value(name)}"
        for name in others
        if name in called and not _is_of_one_call(name)
    )
    command = _written(inverse, needed)
    return Undo(text, f"{look}\n{command}" if look else command, options, one_needed=not needed)


def _is_of_one_call(name: str) -> bool:
    """Return whether a member belongs to one call, not to the thing: a role that acts, or a token that AWS accepts only once."""
    return name.lower().endswith(("token", "rolearn")) or name == "operationId"


def _written(
    operation: Operation, members: Iterable[tuple[str, str]], known: Collection[str] | None = None
) -> str:
    """Return the command of an operation with some members. A member that is not in `known` gets its earlier value.

    `known` is None if no member has an earlier value.
    """
    parts = [f"aws {operation.cli_command} --region <region>"]
    thing = _thing(without_batch(operation.name))
    for name, kind in members:
        option = f"--{cli_word(name)}"
        if known is not None and name not in known:  # a switch stands for `--switch` or `--no-switch`
            word = f"EARLIER_{cli_word(name).upper().replace('-', '_')}"
            if kind == "s" and name.lower().endswith(_IS_DOCUMENT) and not name.endswith(_NO_DOCUMENT):
                word = f"file://{word}.json"
            parts.append(word if kind == "b" else f"{option} {word}")
        else:
            parts.append(option if kind == "b" else f"{option} {_value(name, thing)}")
    return " ".join(parts)


def _thing(name: str) -> str:
    """Return the thing of an operation: its name without the verb.

    >>> _thing("DeregisterTaskDefinition"), _thing("DeleteCluster")
    ('TaskDefinition', 'Cluster')
    """
    return name[next((at for at, each in enumerate(name) if at and each.isupper()), len(name)) :]


def _value(name: str, thing: str = "") -> str:
    """Return the placeholder of a member's value, with all names that it may have in a record.

    - Records begin a member with a small or a large letter.
    - S3 has another name for buckets, and EC2 has machines in a list (_ELSEWHERE).
    - The call that made a thing may name it otherwise than the call that deletes it: `clusterName` may be `cluster`.
    """
    names = [name, name[:1].upper() + name[1:], *_ELSEWHERE.get(name, ()), f"*.{name}"]
    if thing and name.lower() == thing.lower():
        names += [f"{at}{name}{each}" for each in _SAYS_WHICH for at in ("", "*.")]
    elif thing and name.lower().startswith(thing.lower()) and name[len(thing) :] in _SAYS_WHICH:
        short = name[len(thing) :].lower()
        names += [short, f"*.{short}"]
    return f"<{'|'.join(dict.fromkeys(names))}>"
