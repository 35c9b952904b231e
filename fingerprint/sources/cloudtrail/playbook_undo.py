"""Undoing what a call changed: for each AWS action a sentence and commands with the names of its record.

Example:
    >>> undo_step("iam:AttachUserPolicy", [Call({"userName": "eve", "policyArn": "arn:aws:iam::aws:policy/AdministratorAccess"})])
    NextStep(phase='undo', text='Take the policy from the user.', command='aws iam detach-user-policy --user-name eve ...')

In a command `<member>` is the value of the request's or the response's member, by its path, `<a|b>` of the first of two that a
record has; `<member,>` has all its values with commas between them; `<region>` and `<account>` are the record's. A value is an
attacker's text: it is used only if it consists of characters that neither a shell nor the AWS CLI reads as anything else
(`safe_argument`), and else its name stands there in capitals, to be filled in. What the table does not have is set back by
`playbook_inverse`. Source of the commands: the AWS CLI reference, and AWS's incident response playbooks
(github.com/aws-samples/aws-customer-playbook-framework).
"""

from __future__ import annotations

import json
import re
import string
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple
from urllib.parse import unquote

from fingerprint.core.alert import NextStep
from fingerprint.sources.cloudtrail.attack_mappings import without_api_version
from fingerprint.sources.cloudtrail.playbook_inverse import Undo, inverse_undo
from fingerprint.sources.cloudtrail.record_members import request_values
from fingerprint.sources.cloudtrail.resources import HIDDEN

MAX_ARGUMENT_LENGTH = 256  # characters of a value in a command
MAX_CALLS = 50  # distinct calls of one action with commands each
MAX_VALUES = 1_000  # of one call in a command: RunInstances starts that many machines, and a shell takes them
MAX_NAMED_OUTSIDE = 8  # accounts and buckets to which data were taken
MAX_STEP_LENGTH = 100_000  # characters of a step's commands, of which the first is always there
DENY_ALL = '\'{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Action":"*","Resource":"*"}]}\''
_CHANGE_PARAMETER = "aws ssm put-parameter --region <region> --name <name> --overwrite --value NEW_VALUE"
_LIST_PARAMETERS = "--query 'Parameters[].[Name,Type,LastModifiedDate]' --output text"
_KEEP_BACKUPS = (
    '\'{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Principal":"*","Resource":"*",'
    '"Action":["backup:DeleteRecoveryPoint","backup:UpdateRecoveryPointLifecycle"]}]}\''
)
BLOCK_PUBLIC = "BlockPublicAcls=true,IgnorePublicAcls=true,BlockPublicPolicy=true,RestrictPublicBuckets=true"
# What responders put and attach. A name proves nothing where the document can be read: a thief may use it for one that allows.
_CONTAINING_NAMES = frozenset({"incident-deny-all", "incident-deny-session", "AWSRevokeOlderSessions"})
_CONTAINING_POLICIES = re.compile(
    r"arn:aws[a-z-]*:iam::aws:policy/(?:AWSCompromisedKeyQuarantine(?:V\d+)?|AWSDenyAll)"
)
_AWAY = "T1537"  # the technique of what takes data to another account
_PARTITIONS = {
    "cn-": "aws-cn",
    "us-gov-": "aws-us-gov",
    "eusc-": "aws-eusc",
}  # of ARNs, by what regions begin with
# Members of ModifyInstanceAttribute that are the attribute itself; a record may have `attribute` in their place.
_MACHINE_ATTRIBUTES = (
    "disableApiTermination",
    "disableApiStop",
    "instanceType",
    "instanceInitiatedShutdownBehavior",
    "sourceDestCheck",
    "ebsOptimized",
    "userData",
    "kernel",
    "ramdisk",
)
_EARLIER_FILE = re.compile(r"(file://EARLIER_\w+)\.json")  # no value of a record has `://`
_SAFE_CHARACTERS = frozenset(string.ascii_letters + string.digits + "._/@+=,:-")


class Call(NamedTuple):
    """One call as its record names things: the members of request and response, region and account."""

    request: Mapping[str, Any]
    response: Mapping[str, Any] = {}
    region: str = ""
    account: str = ""


def _undo_put(kind: str, option: str) -> Undo:
    """Return how to undo that an inline policy was put: putting replaces one of the same name, so deleting may be too much."""
    named = f"{option} --policy-name <policyName>"
    return Undo(
        f"Keep the {kind}'s policy as evidence. If it is new, delete it, else put the earlier one back.",
        f"aws iam get-{kind}-policy {named} >> POLICY.json\n"
        f"aws iam delete-{kind}-policy {named}\n"
        f"aws iam put-{kind}-policy {named} --policy-document file://EARLIER_{kind.upper()}_POLICY.json",
    )


_PAUSE_SENDING = Undo(
    "Where it was no one's own mail, pause sending in the region: nothing else is sent then, either. Look at who it was sent as.",
    "aws sesv2 put-account-sending-attributes --region <region> --no-sending-enabled\n"
    "aws ses list-identities --region <region>",
)
# An object that was written over, as by ransom with a key of the caller's own.
_EARLIER_OBJECTS = Undo(
    "List the earlier versions of what was written over, and copy them back: what is encrypted with a key that only the caller "
    "has cannot be read. Where the bucket keeps no versions, restore a backup. Let no lifecycle rule delete them.",
    "aws s3api list-object-versions --bucket <bucketName> --query 'Versions[?!IsLatest].[Key,VersionId,LastModified]'\n"
    "aws s3api get-bucket-lifecycle-configuration --bucket <bucketName>",
)

# A loop of the shell: the CLI stops one task at a time.
_STOP_TASKS = Undo(
    "Stop the tasks: they go on without the credential that started them. Save what you need of them first.",
    "aws ecs list-tasks --region <region> --cluster <cluster>\n"
    "for task in <tasks.taskArn>; do\n"
    '  aws ecs stop-task --region <region> --cluster <cluster> --task "$task" --reason incident\n'
    "done",
)


# The root user's keys are deleted by itself, or in a session of sts:AssumeRoot that may do that alone.
_ROOT_KEY = Undo(
    "Delete root's new access key: run the second command as root, or with the session that the first one gives where the "
    "organisation administers root access in one account.",
    "aws sts assume-root --target-principal <account> "
    "--task-policy-arn arn=arn:aws:iam::aws:policy/root-task/IAMDeleteRootUserCredentials\n"
    "aws iam delete-access-key --access-key-id <accessKey.accessKeyId>",
)


def _of(service: str, actions: str) -> list[str]:
    """Return the `service:Action` of several actions."""
    return [f"{service}:{action}" for action in actions.split()]


_UNDO: dict[str, Undo] = {
    **dict.fromkeys(
        _of("cur", "PutReportDefinition ModifyReportDefinition"),
        Undo(
            "Look whose bucket it is, and delete the report if it is not the organisation's: what was delivered stays there.",
            "aws cur describe-report-definitions --region us-east-1\n"
            "aws cur delete-report-definition --region us-east-1 --report-name <reportDefinition.reportName|reportName>",
        ),
    ),
    "ssm:CreateActivation": Undo(
        "Delete the activation, then list the machines that joined by it and deregister them: they keep the role's credentials.",
        "aws ssm delete-activation --region <region> --activation-id <activationId>\n"
        "aws ssm describe-instance-information --region <region> --filters Key=ActivationIds,Values=<activationId>\n"
        "aws ssm deregister-managed-instance --region <region> --instance-id MANAGED_NODE_ID",
    ),
    "ses:SendEmail": _PAUSE_SENDING,
    "ses:SendRawEmail": _PAUSE_SENDING,
    "ses:SendBulkEmail": _PAUSE_SENDING,
    "ses:SendTemplatedEmail": _PAUSE_SENDING,
    "ses:SendBulkTemplatedEmail": _PAUSE_SENDING,
    "ses:VerifyEmailIdentity": Undo(
        "Delete the identity if no one of the organisation's own asked for it: by it mail is sent in its name.",
        "aws ses delete-identity --region <region> --identity <emailAddress>",
    ),
    "ses:VerifyDomainIdentity": Undo(
        "Delete the identity if no one of the organisation's own asked for it: by it mail is sent in its name.",
        "aws ses delete-identity --region <region> --identity <domain>",
    ),
    "ses:CreateEmailIdentity": Undo(
        "Delete the identity if no one of the organisation's own asked for it: by it mail is sent in its name.",
        "aws sesv2 delete-email-identity --region <region> --email-identity <emailIdentity>",
    ),
    "ses:UpdateAccountSendingEnabled": _PAUSE_SENDING,
    "ses:PutAccountDetails": Undo(
        "Pause sending in the region where it was no one's own mail: such details are how a thief asks AWS for a higher quota. "
        "Look at them as they are now, and set them back.",
        "aws sesv2 get-account --region <region>\n"
        "aws sesv2 put-account-sending-attributes --region <region> --no-sending-enabled\n"
        "aws sesv2 put-account-details --region <region> --mail-type EARLIER_MAIL_TYPE --website-url EARLIER_WEBSITE_URL",
    ),
    "s3:PutObject": _EARLIER_OBJECTS,
    "s3:CopyObject": _EARLIER_OBJECTS,
    "s3:CreateMultipartUpload": _EARLIER_OBJECTS,
    "route53domains:DisableDomainTransferLock": Undo(
        "Lock the domain again, look whether it is being moved, and have the registrar stop a transfer: it takes days.",
        "aws route53domains enable-domain-transfer-lock --region us-east-1 --domain-name <domainName>\n"
        "aws route53domains list-operations --region us-east-1 --type TRANSFER_OUT_DOMAIN INTERNAL_TRANSFER_OUT_DOMAIN",
    ),
    "route53domains:RetrieveDomainAuthCode": Undo(
        "Lock the domain: its code lets anyone move it to another registrar. Have the registrar stop a transfer.",
        "aws route53domains enable-domain-transfer-lock --region us-east-1 --domain-name <domainName>\n"
        "aws route53domains list-operations --region us-east-1 --type TRANSFER_OUT_DOMAIN INTERNAL_TRANSFER_OUT_DOMAIN",
    ),
    "route53domains:TransferDomainToAnotherAwsAccount": Undo(
        "Cancel the move before the other account accepts it; else have AWS support bring the domain back.",
        "aws route53domains cancel-domain-transfer-to-another-aws-account --region us-east-1 --domain-name <domainName>",
    ),
    "servicequotas:RequestServiceQuotaIncrease": Undo(
        "Look at the request, and have AWS support withdraw it: a higher quota lets a thief spend more.",
        "aws service-quotas list-requested-service-quota-change-history --region <region> --service-code <serviceCode>",
    ),
    "ec2:CreateKeyPair": Undo(
        "Delete the key pair. A machine that was started with it keeps its key: stop that.",
        "aws ec2 delete-key-pair --region <region> --key-name <keyName>",
    ),
    "cloudtrail:StopLogging": Undo(
        "Switch the trail on again.", "aws cloudtrail start-logging --region <region> --name <name>"
    ),
    "cloudtrail:DeleteTrail": Undo(
        "Make the trail again, with its bucket and settings as your infrastructure code or AWS Config has them.",
        "aws cloudtrail create-trail --region <region> --name <name> --s3-bucket-name TRAIL_BUCKET --is-multi-region-trail\n"
        "aws cloudtrail start-logging --region <region> --name <name>",
    ),
    "cloudtrail:UpdateTrail": Undo(
        "Compare the trail with what it should be.",
        "aws cloudtrail describe-trails --region <region> --trail-name-list <name>",
    ),
    "cloudtrail:PutEventSelectors": Undo(
        "Record all management events again, then add the data events that were selected before.",
        "aws cloudtrail put-event-selectors --region <region> --trail-name <trailName> "
        '--event-selectors \'[{"ReadWriteType":"All","IncludeManagementEvents":true}]\'',
    ),
    "cloudtrail:DeleteEventDataStore": Undo(
        "Restore the event data store; it can be restored for seven days.",
        "aws cloudtrail restore-event-data-store --region <region> --event-data-store <eventDataStore>",
    ),
    "guardduty:DeleteDetector": Undo(
        "Switch GuardDuty on again.", "aws guardduty create-detector --region <region> --enable"
    ),
    "guardduty:UpdateDetector": Undo(
        "Switch the detector on again.",
        "aws guardduty update-detector --region <region> --detector-id <detectorId> --enable",
    ),
    "securityhub:DisableSecurityHub": Undo(
        "Switch Security Hub on again.", "aws securityhub enable-security-hub --region <region>"
    ),
    "config:StopConfigurationRecorder": Undo(
        "Start the recorder again.",
        "aws configservice start-configuration-recorder --region <region> "
        "--configuration-recorder-name <configurationRecorderName>",
    ),
    "ec2:DeleteFlowLogs": Undo(
        "Make the flow log again, for the network that it covered.",
        "aws ec2 create-flow-logs --region <region> --resource-type VPC --resource-ids VPC_ID --traffic-type ALL "
        "--log-destination-type s3 --log-destination FLOW_LOG_BUCKET_ARN",
    ),
    "organizations:LeaveOrganization": Undo(
        "If the account has left, invite it back from the management account.",
        "aws organizations invite-account-to-organization --target Id=<account>,Type=ACCOUNT",
    ),
    "iam:CreateUser": Undo(
        "Deny the new user everything at once; delete it when its evidence is kept.",
        f"aws iam put-user-policy --user-name <userName> --policy-name incident-deny-all --policy-document {DENY_ALL}",
    ),
    "iam:CreateAccessKey": Undo(
        "Deactivate the new access key; it works however the first one is cut off.",
        "aws iam update-access-key --user-name <accessKey.userName> --access-key-id <accessKey.accessKeyId> --status Inactive",
    ),
    "iam:UpdateAccessKey": Undo(
        "Deactivate the access key.",
        "aws iam update-access-key --user-name <userName> --access-key-id <accessKeyId> --status Inactive",
    ),
    "iam:CreateLoginProfile": Undo(
        "Take the console password away.", "aws iam delete-login-profile --user-name <userName>"
    ),
    "iam:UpdateLoginProfile": Undo(
        "Take the console password away; its owner sets a new one.",
        "aws iam delete-login-profile --user-name <userName>",
    ),
    "iam:ChangePassword": Undo(
        "Take the console password away; its owner sets a new one.",
        "aws iam delete-login-profile --user-name <userName>",
    ),
    "iam:AttachUserPolicy": Undo(
        "Take the policy from the user.",
        "aws iam detach-user-policy --user-name <userName> --policy-arn <policyArn>",
    ),
    "iam:PutUserPolicy": _undo_put("user", "--user-name <userName>"),
    "iam:AttachGroupPolicy": Undo(
        "Take the policy from the group.",
        "aws iam detach-group-policy --group-name <groupName> --policy-arn <policyArn>",
    ),
    "iam:PutGroupPolicy": _undo_put("group", "--group-name <groupName>"),
    "iam:AddUserToGroup": Undo(
        "Take the user out of the group.",
        "aws iam remove-user-from-group --user-name <userName> --group-name <groupName>",
    ),
    "iam:AttachRolePolicy": Undo(
        "Take the policy from the role.",
        "aws iam detach-role-policy --role-name <roleName> --policy-arn <policyArn>",
    ),
    "iam:PutRolePolicy": _undo_put("role", "--role-name <roleName>"),
    "iam:UpdateAssumeRolePolicy": Undo(
        "Look at who may assume the role now, and set its trust policy back.",
        "aws iam get-role --role-name <roleName> --query Role.AssumeRolePolicyDocument\n"
        "aws iam update-assume-role-policy --role-name <roleName> --policy-document file://EARLIER_TRUST_POLICY.json",
    ),
    "iam:CreateRole": Undo(
        "Deny the new role everything at once; delete it when its evidence is kept.",
        f"aws iam put-role-policy --role-name <roleName> --policy-name incident-deny-all --policy-document {DENY_ALL}",
    ),
    "iam:CreatePolicyVersion": Undo(
        "Make the earlier version of the policy the default again.",
        "aws iam list-policy-versions --policy-arn <policyArn>\n"
        "aws iam set-default-policy-version --policy-arn <policyArn> --version-id EARLIER_VERSION",
    ),
    **dict.fromkeys(
        _of("iam", "CreateSAMLProvider UpdateSAMLProvider"),
        Undo(
            "Keep the provider's metadata as evidence and delete it, if no one of the organisation's own made or changed it: who "
            "has its key signs in as anyone, also after sessions were revoked. No one signs in by it then. Make it again from "
            "your identity provider's own metadata.",
            "aws iam get-saml-provider --saml-provider-arn <sAMLProviderArn|samlProviderArn> >> SAML_PROVIDER.json\n"
            "aws iam delete-saml-provider --saml-provider-arn <sAMLProviderArn|samlProviderArn>",
        ),
    ),
    **dict.fromkeys(
        _of(
            "iam",
            "CreateOpenIDConnectProvider UpdateOpenIDConnectProviderThumbprint AddClientIDToOpenIDConnectProvider",
        ),
        Undo(
            "Keep the provider's settings as evidence and delete it, if no one of the organisation's own made or changed it: its "
            "tokens assume every role that trusts it, also after sessions were revoked.",
            "aws iam get-open-id-connect-provider --open-id-connect-provider-arn <openIDConnectProviderArn|providerArn>\n"
            "aws iam delete-open-id-connect-provider --open-id-connect-provider-arn <openIDConnectProviderArn|providerArn>",
        ),
    ),
    "identitystore:CreateUser": Undo(
        "Take the person's assignments and groups, then delete them; in Identity Center, end their sessions first.",
        "aws sso-admin list-account-assignments-for-principal --region <region> --instance-arn INSTANCE_ARN "
        "--principal-type USER --principal-id <userId>\n"
        "aws identitystore delete-user --region <region> --identity-store-id <identityStoreId> --user-id <userId>",
    ),
    "iam:EnableMFADevice": Undo(
        "Take the second factor away if it is not the owner's: with it a thief signs in, and the owner does not.",
        "aws iam list-mfa-devices --user-name <userName>\n"
        "aws iam deactivate-mfa-device --user-name <userName> --serial-number <serialNumber>\n"
        "aws iam delete-virtual-mfa-device --serial-number <serialNumber>",
    ),
    "iam:CreateVirtualMFADevice": Undo(
        "Deactivate the second factor, if someone has it and it is not the owner's, and delete it.",
        "aws iam list-virtual-mfa-devices\n"
        "aws iam delete-virtual-mfa-device --serial-number <virtualMFADevice.serialNumber>",
    ),
    "iam:DeactivateMFADevice": Undo(
        "Make the user register a second factor again before its next sign-in.",
        "aws iam list-mfa-devices --user-name <userName>",
    ),
    "rolesanywhere:CreateTrustAnchor": Undo(
        "Disable the trust anchor: certificates of its authority get credentials from outside AWS.",
        "aws rolesanywhere disable-trust-anchor --region <region> --trust-anchor-id <trustAnchor.trustAnchorId>",
    ),
    "rolesanywhere:CreateProfile": Undo(
        "Disable the profile that maps certificates to roles.",
        "aws rolesanywhere disable-profile --region <region> --profile-id <profile.profileId>",
    ),
    "ec2:ModifySnapshotAttribute": Undo(
        "Stop sharing the snapshot with those that were added. What was copied in the other account stays there: treat its data "
        "as lost.",
        "aws ec2 modify-snapshot-attribute --region <region> --snapshot-id <snapshotId> --attribute createVolumePermission "
        "--operation-type remove",
        (
            "--user-ids <createVolumePermission.add.items.userId>",
            "--group-names <createVolumePermission.add.items.group>",
        ),
    ),
    "ec2:ModifyImageAttribute": Undo(
        "Stop sharing the image with those that were added.",
        "aws ec2 modify-image-attribute --region <region> --image-id <imageId> --attribute launchPermission "
        "--operation-type remove",
        (
            "--user-ids <launchPermission.add.items.userId>",
            "--user-groups <launchPermission.add.items.group>",
            "--organization-arns <launchPermission.add.items.organizationArn>",
            "--organizational-unit-arns <launchPermission.add.items.organizationalUnitArn>",
        ),
    ),
    **dict.fromkeys(
        _of("ec2", "CreateImage CopyImage"),
        Undo(
            "Look which snapshots the image has, keep what is evidence, then deregister the image and delete them: a copy of the "
            "machine's disks stays in them.",
            "aws ec2 describe-images --region <region> --image-ids <imageId> "
            "--query 'Images[].BlockDeviceMappings[].Ebs.SnapshotId' --output text\n"
            "aws ec2 deregister-image --region <region> --image-id <imageId>\n"
            "aws ec2 delete-snapshot --region <region> --snapshot-id SNAPSHOT_ID",
        ),
    ),
    "cloudformation:CreateStackInstances": Undo(
        "Delete what was deployed, in the accounts and regions of the request; instances that stood there before are deleted "
        "with it: list them first.",
        "aws cloudformation list-stack-instances --region <region> --stack-set-name <stackSetName>\n"
        "aws cloudformation delete-stack-instances --region <region> --stack-set-name <stackSetName> --regions <regions> "
        "--no-retain-stacks",
        (
            "--deployment-targets OrganizationalUnitIds=<deploymentTargets.organizationalUnitIds,>,"
            "Accounts=<deploymentTargets.accounts,>,AccountFilterType=<deploymentTargets.accountFilterType>",
            "--deployment-targets OrganizationalUnitIds=<deploymentTargets.organizationalUnitIds,>",
            "--deployment-targets Accounts=<deploymentTargets.accounts,>",
            "--accounts <accounts>",
            "--call-as <callAs>",
        ),
    ),
    "rds:ModifyDBSnapshotAttribute": Undo(
        "Stop sharing the database snapshot: look at who has it, and remove them.",
        "aws rds describe-db-snapshot-attributes --region <region> --db-snapshot-identifier <dBSnapshotIdentifier>\n"
        "aws rds modify-db-snapshot-attribute --region <region> --db-snapshot-identifier <dBSnapshotIdentifier> "
        "--attribute-name restore --values-to-remove <valuesToAdd>",
    ),
    "rds:ModifyDBClusterSnapshotAttribute": Undo(
        "Stop sharing the cluster's snapshot: look at who has it, and remove them. What was copied in the other account stays "
        "there: treat its data as lost.",
        "aws rds describe-db-cluster-snapshot-attributes --region <region> "
        "--db-cluster-snapshot-identifier <dBClusterSnapshotIdentifier>\n"
        "aws rds modify-db-cluster-snapshot-attribute --region <region> "
        "--db-cluster-snapshot-identifier <dBClusterSnapshotIdentifier> "
        "--attribute-name restore --values-to-remove <valuesToAdd>",
    ),
    "dynamodb:ExportTableToPointInTime": Undo(
        "An export cannot be stopped. Treat the table's data as lost where the bucket is not the organisation's own.",
        "aws dynamodb describe-export --region <region> --export-arn <exportArn|*.exportArn>",
    ),
    "backup:DeleteRecoveryPoint": Undo(
        "It is gone: restore from a copy in another vault or account. Deny the deletion of those that are left; this takes the "
        "place of the vault's policy, so keep that first.",
        "aws backup get-backup-vault-access-policy --region <region> --backup-vault-name <backupVaultName> >> POLICY.json\n"
        "aws backup put-backup-vault-access-policy --region <region> --backup-vault-name <backupVaultName> "
        f"--policy {_KEEP_BACKUPS}\n"
        "aws backup list-recovery-points-by-backup-vault --region <region> --backup-vault-name <backupVaultName>",
    ),
    "kms:DeleteImportedKeyMaterial": Undo(
        "Import the same key material again: without it nothing that the key encrypted can be read.",
        "aws kms get-parameters-for-import --region <region> --key-id <keyId> --wrapping-algorithm RSAES_OAEP_SHA_256 "
        "--wrapping-key-spec RSA_4096\n"
        "aws kms import-key-material --region <region> --key-id <keyId> --import-token fileb://IMPORT_TOKEN "
        "--encrypted-key-material fileb://KEY_MATERIAL --expiration-model KEY_MATERIAL_DOES_NOT_EXPIRE",
    ),
    **dict.fromkeys(
        _of("ec2", "CreateNetworkAclEntry ReplaceNetworkAclEntry"),
        Undo(
            "Delete the rule, for one of traffic that comes in with --ingress; then make the earlier one again.",
            "aws ec2 describe-network-acls --region <region> --network-acl-ids <networkAclId>\n"
            "aws ec2 delete-network-acl-entry --region <region> --network-acl-id <networkAclId> "
            "--rule-number <ruleNumber> --egress",
        ),
    ),
    **dict.fromkeys(
        _of("guardduty", "DisassociateFromMasterAccount DisassociateFromAdministratorAccount DisassociateMembers"),
        Undo(
            "Have the account that administers GuardDuty take the member in again; it looks at its members first.",
            "aws guardduty list-members --region <region> --detector-id <detectorId>\n"
            "aws guardduty invite-members --region <region> --detector-id <detectorId> --account-ids <accountIds|account>",
        ),
    ),
    **dict.fromkeys(
        _of(
            "securityhub",
            "DisassociateFromMasterAccount DisassociateFromAdministratorAccount DisassociateMembers DeleteMembers",
        ),
        Undo(
            "Have the account that administers Security Hub take the member in again.",
            "aws securityhub invite-members --region <region> --account-ids <accountIds|account>",
        ),
    ),
    **dict.fromkeys(
        _of("macie2", "DisassociateFromMasterAccount DisassociateFromAdministratorAccount DisassociateMember"),
        Undo(
            "Have the account that administers Macie take the member in again.",
            "aws macie2 create-invitations --region <region> --account-ids <id|account>",
        ),
    ),
    "detective:DisassociateMembership": Undo(
        "Have the account that administers Detective take the member in again.",
        "aws detective create-members --region <region> --graph-arn <graphArn> "
        "--accounts AccountId=<account>,EmailAddress=ACCOUNT_EMAIL",
    ),
    "securityhub:CreateAutomationRule": Undo(
        "Delete the rule, and look at the findings that it changed: they are suppressed or closed.",
        "aws securityhub batch-delete-automation-rules --region <region> --automation-rules-arns <ruleArn>",
    ),
    "securityhub:BatchUpdateAutomationRules": Undo(
        "Compare the rules with what your infrastructure code has.",
        "aws securityhub list-automation-rules --region <region>",
    ),
    "organizations:InviteOrganizationToTransferResponsibility": Undo(
        "Cancel the invitation, or end the transfer if it was accepted: another organisation would see and pay the bills.",
        "aws organizations cancel-handshake --handshake-id <handshake.id>",
    ),
    "kms:DisconnectCustomKeyStore": Undo(
        "Connect the key store again: without it nothing that its keys encrypted can be read.",
        "aws kms connect-custom-key-store --region <region> --custom-key-store-id <customKeyStoreId>",
    ),
    "acm-pca:DeleteCertificateAuthority": Undo(
        "Restore the certificate authority, before the time for that is over.",
        "aws acm-pca restore-certificate-authority --region <region> --certificate-authority-arn <certificateAuthorityArn>",
    ),
    "backup:CancelLegalHold": Undo(
        "Hold the recovery points again, before their time is over; what the hold was for, its description says.",
        "aws backup get-legal-hold --region <region> --legal-hold-id <legalHoldId>\n"
        "aws backup create-legal-hold --region <region> --title EARLIER_TITLE --description EARLIER_DESCRIPTION",
    ),
    "rbin:UnlockRule": Undo(
        "Lock the rule again: it stays locked for a week or more from when it was unlocked.",
        "aws rbin lock-rule --region <region> --identifier <identifier> "
        "--lock-configuration UnlockDelay={UnlockDelayValue=7,UnlockDelayUnit=DAYS}",
    ),
    "lightsail:OpenInstancePublicPorts": Undo(
        "Close the ports again.",
        "aws lightsail close-instance-public-ports --region <region> --instance-name <instanceName> "
        "--port-info fromPort=<portInfo.fromPort>,toPort=<portInfo.toPort>,protocol=<portInfo.protocol>",
    ),
    "savingsplans:CreateSavingsPlan": Undo(
        "Return the plan: that is possible for seven days; after them ask AWS support.",
        "aws savingsplans return-savings-plan --savings-plan-id <savingsPlanId>",
    ),
    **dict.fromkeys(
        _of("ec2", "PurchaseReservedInstancesOffering PurchaseHostReservation PurchaseCapacityBlock"),
        Undo(
            "It cannot be given back: ask AWS support at once, and look what else was bought, in every region.",
            "aws ec2 describe-reserved-instances --region <region>\n"
            "aws ec2 describe-host-reservations --region <region>\n"
            "aws ec2 describe-capacity-reservations --region <region>",
        ),
    ),
    **dict.fromkeys(
        _of("route53domains", "UpdateDomainContact DeleteDomain"),
        Undo(
            "Look whose the domain is now, set its contacts back, and have the registrar stop a transfer or restore it.",
            "aws route53domains get-domain-detail --region us-east-1 --domain-name <domainName>\n"
            "aws route53domains list-operations --region us-east-1 --type TRANSFER_OUT_DOMAIN INTERNAL_TRANSFER_OUT_DOMAIN",
        ),
    ),
    "organizations:RemoveAccountFromOrganization": Undo(
        "Invite the account back from the management account.",
        "aws organizations invite-account-to-organization --target Id=<accountId>,Type=ACCOUNT",
    ),
    "organizations:CloseAccount": Undo(
        "Have AWS support open the account again; that is possible for 90 days.",
        "aws organizations describe-account --account-id <accountId>",
    ),
    "organizations:MoveAccount": Undo(
        "Move the account back: other policies bind it where it is now.",
        "aws organizations move-account --account-id <accountId> --source-parent-id <destinationParentId> "
        "--destination-parent-id <sourceParentId>",
    ),
    "eks:UpdateClusterConfig": Undo(
        "Switch the cluster's logs on again, and set back who reaches its endpoint.",
        "aws eks describe-cluster --region <region> --name <name>\n"
        "aws eks update-cluster-config --region <region> --name <name> "
        '--logging \'{"clusterLogging":[{"types":["api","audit","authenticator"],"enabled":true}]}\'',
    ),
    **dict.fromkeys(
        _of("ec2", "CreateInstanceExportTask ExportImage CreateStoreImageTask"),
        Undo(
            "Cancel the export while it runs, and look at what already lies in its bucket: treat that as lost.",
            "aws ec2 describe-export-tasks --region <region>\n"
            "aws ec2 cancel-export-task --region <region> --export-task-id <exportTaskId|*.exportTaskId|exportImageTaskId>",
        ),
    ),
    "secretsmanager:ReplicateSecretToRegions": Undo(
        "Remove the copies in other regions.",
        "aws secretsmanager remove-regions-from-replication --region <region> --secret-id <secretId> "
        "--remove-replica-regions <addReplicaRegions.region>",
    ),
    **dict.fromkeys(
        _of("datasync", "CreateLocationS3 CreateLocationObjectStorage CreateLocationAzureBlob"),
        Undo(
            "Delete the location; see which tasks copy to it.",
            "aws datasync list-tasks --region <region>\n"
            "aws datasync delete-location --region <region> --location-arn <locationArn>",
        ),
    ),
    **dict.fromkeys(
        _of("s3", "DeleteObject DeleteObjects"),
        Undo(
            "Where the bucket keeps versions, delete the markers that hide what was deleted; else restore a backup. Let no "
            "lifecycle rule delete earlier versions.",
            "aws s3api list-object-versions --bucket <bucketName> --query 'DeleteMarkers[?IsLatest].[Key,VersionId]'\n"
            "aws s3api get-bucket-lifecycle-configuration --bucket <bucketName>",
        ),
    ),
    "ec2:TerminateInstances": Undo(
        "The machines are gone: start new ones from their images, and keep the disks that are left.",
        "aws ec2 describe-volumes --region <region> --filters Name=status,Values=available",
    ),
    "redshift:BatchDeleteClusterSnapshots": Undo(
        "They are gone: restore from what is left, or from a copy in another region.",
        "aws redshift describe-cluster-snapshots --region <region>",
    ),
    "ecr:PutReplicationConfiguration": Undo(
        "Let the registry copy to no one; what was copied stays there: treat it as lost. Then put the earlier rules back.",
        "aws ecr describe-registry --region <region>\n"
        "aws ecr put-replication-configuration --region <region> --replication-configuration '{\"rules\":[]}'",
    ),
    "iam:DeleteAccountPasswordPolicy": Undo(
        "Set the rules for passwords again, as your infrastructure code has them.",
        "aws iam update-account-password-policy --minimum-password-length EARLIER_LENGTH",
    ),
    **dict.fromkeys(
        (
            *_of("account", "StartPrimaryEmailUpdate AcceptPrimaryEmailUpdate"),
            *_of("signin", "EmailUpdated PasswordUpdated PasswordRecoveryRequested PasswordRecoveryCompleted"),
        ),
        Undo(
            "Look whose address the root user has, and change address and password from the organisation's management account; "
            "where the thief has that one, only AWS support gives it back.",
            "aws account get-primary-email --account-id <account>\n"
            "aws account start-primary-email-update --account-id <account> --primary-email OWN_ADDRESS",
        ),
    ),
    "backup:StartCopyJob": Undo(
        "Look where the copy goes: it cannot be stopped. In a vault that is not the organisation's own, treat its data as lost.",
        "aws backup describe-copy-job --region <region> --copy-job-id <copyJobId>",
    ),
    "organizations:InviteAccountToOrganization": Undo(
        "Cancel the invitation, or remove the account if it has joined.",
        "aws organizations cancel-handshake --handshake-id <handshake.id>",
    ),
    "organizations:CreateAccount": Undo(
        "Close the account when its evidence is kept; until then, deny it everything by a service control policy.",
        "aws organizations list-create-account-status\n"
        "aws organizations close-account --account-id <createAccountStatus.accountId>",
    ),
    "organizations:AcceptHandshake": Undo(
        "If another organisation took the account in, have it leave: its management account controls it now.",
        "aws organizations describe-organization\naws organizations leave-organization",
    ),
    "monitoring:DeleteAlarms": Undo(
        "Make the alarms again, with the settings that your infrastructure code or AWS Config has.",
        "aws cloudwatch describe-alarm-history --region <region> --alarm-name <alarmNames>",
    ),
    "events:RemoveTargets": Undo(
        "Give the rule its targets again.",
        "aws events put-targets --region <region> --rule <rule> --targets file://EARLIER_TARGETS.json",
    ),
    "ecs:RegisterTaskDefinition": Undo(
        "Take it back, when its evidence is kept: tasks and services that use it go on, so stop those too.",
        "aws ecs deregister-task-definition --region <region>",
        (
            "--task-definition <taskDefinition.taskDefinitionArn>",
            "--task-definition <taskDefinition.family>:<taskDefinition.revision>",
        ),
    ),
    "ecs:RunTask": _STOP_TASKS,
    "ecs:StartTask": _STOP_TASKS,
    "batch:CreateComputeEnvironment": Undo(
        "Disable the compute environment, and terminate its jobs: they go on without the credential.",
        "aws batch update-compute-environment --region <region> --compute-environment <computeEnvironmentName> --state DISABLED\n"
        "aws batch list-jobs --region <region> --job-queue JOB_QUEUE --job-status RUNNING",
    ),
    "ecs:CreateService": Undo(
        "Let the service run no task.",
        "aws ecs update-service --region <region> --cluster <cluster> --service <serviceName> --desired-count 0",
    ),
    "autoscaling:CreateAutoScalingGroup": Undo(
        "Let the group have no machine.",
        "aws autoscaling update-auto-scaling-group --region <region> --auto-scaling-group-name <autoScalingGroupName> "
        "--min-size 0 --max-size 0 --desired-capacity 0",
    ),
    "rds:StartExportTask": Undo(
        "Cancel the export, and look at what already lies in its bucket.",
        "aws rds cancel-export-task --region <region> --export-task-identifier <exportTaskIdentifier>",
    ),
    "s3:PutBucketPolicy": Undo(
        "Keep the policy as evidence, put the earlier one back (or delete it, where there was none), and block public access: "
        "this stops the public only, not named accounts.",
        "aws s3api get-bucket-policy --bucket <bucketName> --query Policy --output text >> POLICY.json\n"
        "aws s3api put-bucket-policy --bucket <bucketName> --policy file://EARLIER_POLICY.json\n"
        f"aws s3api put-public-access-block --bucket <bucketName> --public-access-block-configuration {BLOCK_PUBLIC}",
    ),
    "s3:PutBucketAcl": Undo(
        "Close the bucket to everybody outside.", "aws s3api put-bucket-acl --bucket <bucketName> --acl private"
    ),
    **dict.fromkeys(
        (*_of("s3", "DeleteBucketPublicAccessBlock DeletePublicAccessBlock PutBucketPublicAccessBlock PutPublicAccessBlock"),),
        Undo(
            "Block public access again.",
            f"aws s3api put-public-access-block --bucket <bucketName> --public-access-block-configuration {BLOCK_PUBLIC}",
        ),
    ),
    **dict.fromkeys(
        _of("s3", "DeleteAccountPublicAccessBlock PutAccountPublicAccessBlock"),
        Undo(
            "Block public access to all buckets of the account again.",
            f"aws s3control put-public-access-block --account-id <account> --public-access-block-configuration {BLOCK_PUBLIC}",
        ),
    ),
    "s3:PutObjectAcl": Undo(
        "Close the object to everybody outside.",
        "aws s3api put-object-acl --bucket <bucketName> --key <key> --acl private",
    ),
    "s3:PutBucketReplication": Undo(
        "Keep the rules as evidence, then stop copying: what was copied stays in the other bucket; treat it as lost.",
        "aws s3api get-bucket-replication --bucket <bucketName> >> REPLICATION.json\n"
        "aws s3api delete-bucket-replication --bucket <bucketName>",
    ),
    "s3:PutBucketVersioning": Undo(
        "Keep earlier versions of objects again.",
        "aws s3api put-bucket-versioning --bucket <bucketName> --versioning-configuration Status=Enabled",
    ),
    **dict.fromkeys(
        _of("s3", "PutBucketLifecycle PutBucketLifecycleConfiguration"),
        Undo(
            "Keep the rules as evidence and delete them at once, before objects expire; then put the earlier ones back. What has "
            "expired is there only where the bucket keeps versions.",
            "aws s3api get-bucket-lifecycle-configuration --bucket <bucketName> >> LIFECYCLE.json\n"
            "aws s3api delete-bucket-lifecycle --bucket <bucketName>\n"
            "aws s3api put-bucket-lifecycle-configuration --bucket <bucketName> "
            "--lifecycle-configuration file://EARLIER_LIFECYCLE.json",
        ),
    ),
    "kms:ScheduleKeyDeletion": Undo(
        "Cancel the deletion: without the key its data cannot be read any more.",
        "aws kms cancel-key-deletion --region <region> --key-id <keyId>\n"
        "aws kms enable-key --region <region> --key-id <keyId>",
    ),
    "kms:DisableKey": Undo("Enable the key again.", "aws kms enable-key --region <region> --key-id <keyId>"),
    "kms:PutKeyPolicy": Undo(
        "Look at who may use the key, and set its policy back.",
        "aws kms get-key-policy --region <region> --key-id <keyId> --policy-name default --output text",
    ),
    "kms:CreateGrant": Undo(
        "Revoke the grant.", "aws kms revoke-grant --region <region> --key-id <keyId> --grant-id <grantId>"
    ),
    "events:PutTargets": Undo(
        "Remove the targets that the call put: its record keeps them as evidence, and putting others leaves them there. Put back "
        "what a target of the same id was before.",
        "aws events remove-targets --region <region> --rule <rule> --ids <targets.id>",
        ("--event-bus-name <eventBusName>",),
        one_needed=False,
    ),
    "events:PutRule": Undo(
        "If the rule is new, disable it; delete it with its targets, when its evidence is kept. Else put the earlier one back.",
        "aws events disable-rule --region <region> --name <name>",
        ("--event-bus-name <eventBusName>",),
        one_needed=False,
    ),
    "events:PutPermission": Undo(
        "Take the permission to send to the event bus back.",
        "aws events remove-permission --region <region> --statement-id <statementId>",
        ("--event-bus-name <eventBusName>",),
        one_needed=False,
    ),
    "lambda:UpdateFunctionCode": Undo(
        "Deploy the function again from its source, and keep the code that was uploaded as evidence.",
        "aws lambda get-function --region <region> --function-name <functionName> --query Code.Location --output text",
    ),
    "lambda:UpdateFunctionConfiguration": Undo(
        "Look at layers, role, handler and environment, keep them as evidence, and deploy the function again from its source: a "
        "layer runs with the function's role.",
        "aws lambda get-function-configuration --region <region> --function-name <functionName> >> FUNCTION.json\n"
        "aws lambda update-function-configuration --region <region> --function-name <functionName> --layers EARLIER_LAYERS",
    ),
    "lambda:AddPermission": Undo(
        "Take the permission back.",
        "aws lambda remove-permission --region <region> --function-name <functionName> --statement-id <statementId>",
    ),
    "lambda:CreateFunctionUrlConfig": Undo(
        "Delete the function's public address.",
        "aws lambda delete-function-url-config --region <region> --function-name <functionName>",
    ),
    "ec2:AuthorizeSecurityGroupIngress": Undo(
        "Look at the group's rules and revoke the new ones.",
        "aws ec2 describe-security-group-rules --region <region> --filters Name=group-id,Values=<groupId>\n"
        "aws ec2 revoke-security-group-ingress --region <region> --group-id <groupId> --security-group-rule-ids NEW_RULE_ID",
    ),
    "ec2:ModifyInstanceAttribute": Undo(
        "Look at it as it is now, and set it back to what your infrastructure code or AWS Config has; a start script runs when "
        "the machine starts.",
        "aws ec2 describe-instance-attribute --region <region> --instance-id <instanceId> "
        "--attribute <attribute|changedAttribute>\n"
        "aws ec2 modify-instance-attribute --region <region> --instance-id <instanceId> "
        "--attribute <attribute|changedAttribute> --value EARLIER_VALUE",
    ),
    "ec2:RunInstances": Undo(
        "Stop the machines that were started; keep a snapshot of their disks before they are terminated.",
        "aws ec2 stop-instances --region <region> --instance-ids <instancesSet.items.instanceId>",
    ),
    "ec2:GetPasswordData": Undo(
        "Change the machine's administrator password and replace its key pair.",
        "aws ec2 describe-instances --region <region> --instance-ids <instanceId>",
    ),
    "secretsmanager:GetSecretValue": Undo(
        "Treat the secret as known: change it where it is used, then rotate it.",
        "aws secretsmanager rotate-secret --region <region> --secret-id <secretId>",
    ),
    "secretsmanager:UpdateSecretVersionStage": Undo(
        "Give the label back to the version that had it: what reads the secret gets the other one until then.",
        "aws secretsmanager list-secret-version-ids --region <region> --secret-id <secretId>\n"
        "aws secretsmanager update-secret-version-stage --region <region> --secret-id <secretId> --version-stage <versionStage>",
        ("--move-to-version-id <removeFromVersionId>", "--remove-from-version-id <moveToVersionId>"),
    ),
    "secretsmanager:PutSecretValue": Undo(
        "Look which version has which label, without its value, and make the earlier version the current one again.",
        "aws secretsmanager list-secret-version-ids --region <region> --secret-id <secretId>\n"
        "aws secretsmanager update-secret-version-stage --region <region> --secret-id <secretId> --version-stage AWSCURRENT "
        "--move-to-version-id EARLIER_VERSION_ID --remove-from-version-id <versionId|clientRequestToken>",
    ),
    "secretsmanager:DeleteSecret": Undo(
        "Restore the secret.", "aws secretsmanager restore-secret --region <region> --secret-id <secretId>"
    ),
    "ssm:GetParameter": Undo(
        "Treat the parameter as known: change it where it is used, then here.", _CHANGE_PARAMETER
    ),
    "ssm:GetParameterHistory": Undo(
        "Treat the parameter as known, with its earlier values: change it where it is used, then here.", _CHANGE_PARAMETER
    ),
    "ssm:GetParameters": Undo(
        "Treat the parameters as known: list them, and change each where it is used, then in the Parameter Store.",
        f"aws ssm get-parameters --region <region> --names <names> {_LIST_PARAMETERS}",
    ),
    "ssm:GetParametersByPath": Undo(
        "Treat the parameters as known: list them, and change each where it is used, then in the Parameter Store.",
        f"aws ssm get-parameters-by-path --region <region> --path <path> --recursive {_LIST_PARAMETERS}",
    ),
    "ssm:SendCommand": Undo(
        "Read what ran on which machines, and isolate them.",
        "aws ssm list-command-invocations --region <region> --command-id <command.commandId> --details",
    ),
    **dict.fromkeys(
        _of("ssm", "StartSession ResumeSession"),
        Undo(
            "End the session, and isolate the machine.",
            "aws ssm terminate-session --region <region> --session-id <sessionId>",
        ),
    ),
    "rds:DeleteDBInstance": Undo(
        "Restore the database from its last snapshot.",
        "aws rds describe-db-snapshots --region <region> --db-instance-identifier <dBInstanceIdentifier>\n"
        "aws rds describe-db-instance-automated-backups --region <region> --db-instance-identifier <dBInstanceIdentifier>",
    ),
}  # fmt: skip


def undo_step(
    action: str, calls: Sequence[Call], technique: str = "", by_root: bool = False
) -> NextStep | None:
    """Return how to undo calls of one `service:Action`, with a command for each distinct one; None where nothing sets it back.

    What the table does not have is set back by the inverse operation of its service; `technique` says what the action did.
    `by_root`: the root user made the calls, whose own keys have no user's name.
    """
    own = (
        by_root and action == "iam:CreateAccessKey" and not any("userName" in each.request for each in calls)
    )
    found = _ROOT_KEY if own else _UNDO.get(without_api_version(action)) or inverse_undo(action, technique)
    if found is None:
        return None
    templates = [_template(found, call) for call in calls]
    commands = list(dict.fromkeys(map(fill_command, templates, calls)))
    shown = _within_length(commands[:MAX_CALLS])
    more = not_shown(len(commands) - len(shown), "such call")
    hidden = sum(map(_hidden_values, templates, calls))
    return NextStep(
        "undo",
        f"{found.text}{more}{not_shown(hidden, 'name')}{_named_outside(calls) if technique == _AWAY else ''}",
        "\n".join(_with_own_files(shown)),
    )


def _named_outside(calls: Sequence[Call]) -> str:
    """Return the sentence that names other accounts and the buckets of calls that take data away, empty for none.

    >>> _named_outside([Call({"s3Bucket": "mirror", "s3BucketOwner": "111122223333"}, account="123456789012")])
    ' It names account 111122223333, bucket mirror.'
    """
    named: dict[str, None] = {}
    for call in calls:
        for member, text in request_values(call.request):
            number = text.split(":")[4] if text.startswith("arn:") and text.count(":") >= 5 else text
            if len(number) == 12 and number.isascii() and number.isdigit() and number != call.account:
                named[f"account {number}"] = None
            bucket = safe_argument(text.rpartition(":")[2])
            if (
                "bucket" in member.lower()
                and member != "bucketName"
                and bucket.islower()
                and not bucket.isdigit()
            ):
                named[f"bucket {bucket}"] = None
    shown = list(named)[:MAX_NAMED_OUTSIDE]
    more = not_shown(len(named) - len(shown), "name")
    return f" It names {', '.join(shown)}.{more}" if shown else ""


def _within_length(commands: Sequence[str]) -> list[str]:
    """Return the first commands that are not too long together: an attacker writes what they hold."""
    lengths = list(accumulate(map(len, commands)))
    return list(commands[: max(1, bisect_right(lengths, MAX_STEP_LENGTH))])


def _with_own_files(commands: Sequence[str]) -> list[str]:
    """Give files to make a number where there are commands for several calls: each thing gets back what it had itself."""
    if len(commands) == 1:
        return list(commands)
    return [_EARLIER_FILE.sub(rf"\1_{at}.json", each) for at, each in enumerate(commands, 1)]


def only_denies(action: str, call: Call) -> bool:
    """Return whether a call put or attached an IAM policy that only denies: that is how responders contain."""
    if action.startswith("iam:Attach"):
        arn = call.request.get("policyArn")
        return isinstance(arn, str) and _CONTAINING_POLICIES.fullmatch(arn) is not None
    if not action.startswith("iam:Put"):
        return False
    if "policyDocument" not in call.request:
        return call.request.get("policyName") in _CONTAINING_NAMES
    return _is_deny_only(call.request["policyDocument"])


def _is_deny_only(document: object) -> bool:
    """Return whether each statement of a policy denies; False for a document that cannot be read without doubt."""
    try:
        text = document if isinstance(document, str) else json.dumps(document)
        text = unquote(text) if text.startswith("%7B") else text
        policy = json.loads(text, object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError):
        return False
    found = policy.get("Statement") if isinstance(policy, dict) else None
    statements = found if isinstance(found, list) else [found]
    return bool(statements) and all(
        isinstance(each, dict) and each.get("Effect") == "Deny" for each in statements
    )


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse an object that names a member twice, in whatever case: which of them counts would be a guess."""
    if len({name.casefold() for name, _ in pairs}) < len(pairs):
        raise ValueError("a member is named twice")
    return dict(pairs)


def _template(undo: Undo, call: Call) -> str:
    """Return the commands of an undo with those options for which the call's record has all: of each the first of its forms."""
    given: dict[str, str] = {}
    for option in undo.options:
        if all(_values(member, call)[0] for member in _members_of(option)):
            given.setdefault(option.partition(" ")[0], option)
    return " ".join((undo.command, *(given.values() or undo.options[: undo.one_needed])))


def _members_of(template: str) -> list[str]:
    return list(dict.fromkeys(part.partition(">")[0] for part in template.split("<")[1:]))


def not_shown(count: int, what: str) -> str:
    """Return the sentence that says how many things of a kind no command has, empty for none."""
    plural = "" if count == 1 else "es" if what.endswith("s") else "s"
    return f" And {count:,} more {what}{plural}, not shown." if count > 0 else ""


def fill_command(template: str, call: Call) -> str:
    """Return a template with its `<member>` filled in, or its name in capitals where the record has none that is safe."""
    first, *rest = template.split("<")
    parts = [first]
    for part in rest:
        member, _, text = part.partition(">")
        parts += [_argument(member, call), text]
    return "".join(parts)


def safe_argument(value: object) -> str:
    """Return a value as an argument of a command, or an empty text for one that is not plainly a name.

    A name begins with no hyphen (an option), holds no `://` (which the AWS CLI reads as a file or an address to load), and has no
    character but letters, digits and ._/@+=,:- of ASCII: nothing to quote, nothing that a terminal acts on. What AWS writes in
    place of a name is none.
    """
    text = str(value) if isinstance(value, str | int) else ""
    plain = _SAFE_CHARACTERS.issuperset(text) and "://" not in text and not text.startswith(("-", "@", "="))
    return text if plain and text != HIDDEN and len(text) <= MAX_ARGUMENT_LENGTH else ""


def _argument(member: str, call: Call) -> str:
    shown, _ = _values(member, call)
    if shown:
        return ("," if member.endswith(",") else " ").join(shown)
    last = member.rstrip(",").partition("|")[0].rpartition(".")[2]
    return "".join(f"_{letter}" if letter.isupper() else letter for letter in last).strip("_").upper()


def _hidden_values(template: str, call: Call) -> int:
    """Return how many values of a call stand in no command, for they are too many or no plain names."""
    return sum(_values(member, call)[1] for member in _members_of(template))


def _values(member: str, call: Call) -> tuple[list[str], int]:
    """Return the values of a member that can stand in a command, and how many others are beside them."""
    for each in member.rstrip(",").split("|"):
        for values in _places(each, call):
            found = [value for value in _members(values, each.split(".")) if isinstance(value, str | int)]
            distinct = dict.fromkeys(found)
            shown = [text for text in map(safe_argument, distinct) if text][:MAX_VALUES]
            if shown:
                return shown, len(distinct) - len(shown)
    return [], 0


def _places(member: str, call: Call) -> tuple[Mapping[str, Any], ...]:
    """Return where a member is looked for; one of any structure only in what the call made."""
    if member.startswith("*"):
        return (call.response,)
    return call.request, call.response, {"region": call.region, "account": call.account}, _made_of(call)


def _made_of(call: Call) -> dict[str, str]:
    """Return what a record does not name but says: the ARN of an identity provider, and which attribute of a machine changed.

    >>> _made_of(Call({"url": "https://id.example.com/a"}, account="123456789012"))
    {'providerArn': 'arn:aws:iam::123456789012:oidc-provider/id.example.com/a'}
    """
    url, found = call.request.get("url"), {}
    if isinstance(url, str) and url.startswith("https://") and call.account.isdecimal():
        partition = next(
            (name for start, name in _PARTITIONS.items() if call.region.startswith(start)), "aws"
        )
        name = url.removeprefix("https://").rstrip("/")
        found["providerArn"] = f"arn:{partition}:iam::{call.account}:oidc-provider/{name}"
    changed = [each for each in _MACHINE_ATTRIBUTES if each in call.request]
    return found | ({"changedAttribute": changed[0]} if len(changed) == 1 else {})


def _members(node: Any, path: Sequence[str]) -> list[Any]:
    """Return what stands at a path, of every element where there is a list on the way, `*` for every member."""
    if isinstance(node, list):
        return [each for part in node for each in _members(part, path)]
    if not path:
        return [node]
    if path[0] == "*":
        return _members(list(node.values()), path[1:]) if isinstance(node, Mapping) else []
    return _members(node[path[0]], path[1:]) if isinstance(node, Mapping) and path[0] in node else []
