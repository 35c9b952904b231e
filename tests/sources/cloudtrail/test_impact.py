"""What AWS actions can do: the listed ones, the others by their names, and nothing for a look around."""

from __future__ import annotations

import json

import pytest

from fingerprint.core.alert import GRAVITIES
from fingerprint.sources.base import TACTICS
from fingerprint.sources.cloudtrail.attack_mappings import mapped_tactics, technique_name
from fingerprint.sources.cloudtrail.impact import _listed, bulk_read, impact_of, listed_actions
from fingerprint.sources.cloudtrail.impact_effects import BULK_READS, EFFECTS, GRAVER_EFFECTS
from fingerprint.sources.cloudtrail.impact_requests import GRANT_CHECKS
from fingerprint.sources.cloudtrail.operations import find_operation
from fingerprint.sources.cloudtrail.request_checks import REQUEST_CHECKS
from fingerprint.sources.cloudtrail.samples import known_attacks

CHECKED = GRANT_CHECKS.keys() | REQUEST_CHECKS.keys()  # actions whose requests are read


@pytest.mark.parametrize(
    ("call", "gravity", "tactic"),
    [
        ("cloudtrail:StopLogging", "severe", "Defense Evasion"),
        ("guardduty:DeleteDetector", "severe", "Defense Evasion"),
        ("ec2:DeleteFlowLogs", "severe", "Defense Evasion"),
        ("config:StopConfigurationRecorder", "severe", "Defense Evasion"),
        ("organizations:LeaveOrganization", "severe", "Defense Evasion"),
        ("iam:CreateAccessKey", "severe", "Persistence"),
        ("iam:CreateLoginProfile", "severe", "Persistence"),
        ("iam:UpdateAssumeRolePolicy", "severe", "Persistence"),
        ("ec2:ModifySnapshotAttribute", "severe", "Exfiltration"),
        ("s3:PutBucketPolicy", "severe", "Exfiltration"),
        ("kms:ScheduleKeyDeletion", "severe", "Impact"),
        ("s3:PutBucketVersioning", "severe", "Impact"),
        ("lambda:CreateFunctionUrlConfig20211031", "grave", "Persistence"),
        ("iam:DeactivateMFADevice", "grave", "Persistence"),
        ("secretsmanager:GetSecretValue", "notable", "Credential Access"),
        ("ssm:SendCommand", "notable", "Execution"),
        ("ec2:RunInstances", "notable", "Impact"),
        ("securityhub:BatchUpdateFindings", "notable", "Defense Evasion"),
        ("s3:DeleteBucketPolicy", "notable", "Defense Evasion"),
        ("sts:AssumeRoot", "grave", "Privilege Escalation"),
        ("securityhub:DisassociateMembers", "severe", "Defense Evasion"),
        ("macie2:DisassociateFromAdministratorAccount", "severe", "Defense Evasion"),
        ("route53:DeleteQueryLoggingConfig", "severe", "Defense Evasion"),
        ("dsql:DeleteCluster", "severe", "Impact"),
        ("rolesanywhere:EnableProfile", "severe", "Privilege Escalation"),
        ("access-analyzer:CreateArchiveRule", "grave", "Defense Evasion"),
        ("ce:DeleteAnomalyMonitor", "grave", "Defense Evasion"),
        ("ec2:CreateTrafficMirrorSession", "grave", "Credential Access"),
        ("datasync:CreateLocationObjectStorage", "grave", "Exfiltration"),
        ("rbin:DeleteRule", "grave", "Impact"),
        ("ec2:PurchaseCapacityBlock", "grave", "Impact"),
        ("sagemaker:CreateTrainingPlan", "grave", "Impact"),
        ("gamelift:CreateFleet", "grave", "Impact"),
        ("codebuild:UpdateProject", "grave", "Privilege Escalation"),
        ("states:TestState", "notable", "Persistence"),
        ("ecs:CreateTaskSet", "notable", "Impact"),
        ("iam:EnableOrganizationsRootSessions", "grave", "Persistence"),
        ("bedrock-agentcore:GetResourceApiKey", "notable", "Credential Access"),
        ("codebuild:StartCommandExecution", "notable", "Execution"),
        ("sts:AssumeRole", "minor", "Privilege Escalation"),
        *(
            (f"sso:{action}", "minor", "Defense Evasion")
            for action in ("GetRoleCredentials", "Federate", "CreateToken")
        ),
        ("sso:Authenticate", "minor", "Initial Access"),
        ("chime:CreatePhoneNumberOrder", "notable", "Impact"),
        ("es:AcceptInboundConnection", "notable", "Exfiltration"),
    ],
)
def test_what_a_listed_action_does_is_known(call: str, gravity: str, tactic: str) -> None:
    found = impact_of(*call.split(":"), "")
    assert (found.gravity, found.tactic) == (gravity, tactic)
    assert found.technique.startswith("T")
    assert found.effect


@pytest.mark.parametrize(
    ("call", "gravity", "effect", "technique"),
    [
        ("kms:DisableKey", "severe", "disables an encryption key: what it encrypts cannot be read", "T1486"),
        ("kms:ScheduleKeyDeletion", "severe", "destroys an encryption key", "T1486"),
        ("ec2:CreateKeyPair", "notable", "makes a key that opens machines started with it", "T1098.004"),
        ("s3:PutBucketLifecycle", "grave", "sets how long data is kept", "T1485"),
        ("s3:PutBucketEncryption", "grave", "changes how data is encrypted", "T1486"),
        ("cloudshell:CreateSession", "minor", "opens a shell", "T1059.009"),
        (
            "ssm:CreateActivation",
            "grave",
            "lets machines outside AWS join as managed nodes, with a role's credentials",
            "T1098.001",
        ),
        *(
            (call, "notable", "sends the account's bills to a bucket", "T1537")
            for call in ("cur:PutReportDefinition", "bcm-data-exports:CreateExport")
        ),
        ("lambda:Invoke", "minor", "runs a function or job", ""),
        ("sqs:ReceiveMessage", "minor", "takes messages from a queue", ""),
        ("kms:GenerateDataKey", "minor", "encrypts or signs with a key", ""),
        ("ec2:EnableSerialConsoleAccess", "notable", "allows serial consoles of machines", "T1021.008"),
        *(
            (
                f"bedrock:{action}",
                "notable",
                "gives the account access to models that are paid by use",
                "T1496",
            )
            for action in ("PutUseCaseForModelAccess", "CreateFoundationModelAgreement")
        ),
        (
            "route53:ChangeResourceRecordSets",
            "notable",
            "changes where a domain's names lead, or what its visitors get",
            "T1565",
        ),
        *(
            (call, "notable", "changes where data are sent", "T1020")
            for call in ("iot:ReplaceTopicRule", "connect:UpdateInstanceStorageConfig")
        ),
        *(
            (f"iot:{action}", "notable", "creates or changes a credential", "T1098")
            for action in ("CreateProvisioningClaim", "RegisterCertificateWithoutCA", "UpdateCertificate")
        ),
        *(
            (call, "notable", "changes who signs in to an application, or by which role", "T1556")
            for call in ("iot:UpdateRoleAlias", "cognito-idp:UpdateUserPoolClient")
        ),
        ("iot:CreateJob", "notable", "runs commands on machines", "T1651"),
        ("lakeformation:PutDataLakeSettings", "notable", "changes who administers a data lake", "T1098.003"),
        (
            "directconnect:AllocatePrivateVirtualInterface",
            "notable",
            "changes routes between networks",
            "T1090",
        ),
        ("directconnect:DeleteConnection", "notable", "interrupts a service", "T1489"),
        ("eks:UpdatePodIdentityAssociation", "grave", "gives rights to a role", "T1098.003"),
        ("monitoring:DisableAlarmActions", "grave", "silences alarms", "T1562.001"),
        ("monitoring:DeleteAlarms", "grave", "deletes logs or alarms", "T1562.008"),
        ("monitoring:PutMetricAlarm", "minor", "sets an alarm, or changes when it rings", ""),
        ("s3:PutBucketLogging", "grave", "stops or moves a bucket's access log", "T1562.008"),
        ("logs:DeleteMetricFilter", "grave", "deletes what watches or forwards logs", "T1562.008"),
        *(
            (
                f"{service}:GetAuthorizationToken",
                "minor",
                "fetches a token that signs in to a registry",
                "T1528",
            )
            for service in ("ecr", "ecr-public", "codeartifact")
        ),
        (
            "redshift:GetClusterCredentials",
            "notable",
            "fetches a temporary password of a database, or signs in to it",
            "T1555.006",
        ),
        (
            "rds:DownloadDBLogFilePortion",
            "notable",
            "reads a database's log, which may hold passwords",
            "T1552",
        ),
        ("ssm:GetParameter", "minor", "reads a parameter", "T1555.006"),
        ("iam:CreatePolicyVersion", "severe", "gives rights to all who have a policy", "T1098.003"),
        ("iam:UpdateUser", "notable", "renames a user", "T1098"),
        ("events:DisableRule", "grave", "switches off what reacts to events", "T1562.001"),
        (
            "guardduty:UpdateIPSet",
            "severe",
            "has threat detection trust addresses or hide findings",
            "T1562.001",
        ),
        ("account:PutAlternateContact", "grave", "changes whom AWS warns about the account", "T1562"),
        ("controltower:DisableControl", "grave", "loosens the organisation's guard rails", "T1484"),
        ("rds:RestoreDBClusterFromSnapshot", "grave", "makes a database from a copy", "T1530"),
        ("ebs:GetSnapshotBlock", "grave", "reads a copy of a disk, block by block", "T1530"),
        ("medialive:DeleteChannel", "notable", "deletes data or machines", "T1485"),
        ("medialive:UpdateChannel", "notable", "changes where data are sent", "T1020"),
        ("athena:UpdateWorkGroup", "notable", "changes where data are sent", "T1020"),
        ("cloudfront:PublishFunction", "notable", "changes code or configuration that runs", "T1546"),
        ("s3:DeleteBucket", "grave", "deletes a bucket or vault, which is empty", "T1485"),
        ("rds:DeleteDBInstance", "severe", "deletes stored data", "T1485"),
        ("signin:EmailUpdated", "severe", "changes the root user's e-mail address or password", "T1098"),
        (
            "iam:CreateOpenIDConnectProvider",
            "severe",
            "lets another identity provider or certificate authority sign people in",
            "T1484.002",
        ),
    ],
)
def test_the_effect_says_what_the_call_does_and_no_more(
    call: str, gravity: str, effect: str, technique: str
) -> None:
    found = impact_of(*call.split(":"), "")
    assert (found.gravity, found.effect, found.technique) == (gravity, effect, technique)


@pytest.mark.parametrize(
    ("call", "gravity"),
    [
        ("newservice:PutResourcePolicy", "notable"),
        ("newservice:DeleteAuditLoggingConfiguration", "notable"),
        ("newservice:DeleteBackup", "notable"),
        ("newservice:CreateApiKey", "notable"),
        ("guardduty:TagResource", "notable"),
        ("newservice:CreateThing", "minor"),
        ("newservice:CreateUser", "notable"),
        ("newservice:CreateThingAccessToken", "notable"),
        ("newservice:CreatePresignedThingUrl", "notable"),
        ("newservice:DeleteGraph", "notable"),
        ("newservice:BatchDeleteThing", "minor"),
        ("newservice:BatchPutPermission", "notable"),
        ("newservice:BatchGetThings", "none"),
        ("cognito-idp:AdminDisableUser", "minor"),
        ("cognito-idp:AdminSetUserPassword", "notable"),
        ("newservice:Admin", "minor"),
        ("autoscaling:PutScalingPolicy", "minor"),
        ("newservice:DescribeThings", "none"),
        ("newservice:ListPolicies", "none"),
        ("iam:GetAccountAuthorizationDetails", "none"),
        ("s3:GetObject", "none"),
        (":", "none"),
    ],
)
def test_an_action_that_no_line_names_is_judged_by_its_name(call: str, gravity: str) -> None:
    assert impact_of(*call.split(":", 1), "").gravity == gravity


def test_a_record_that_says_it_only_read_outweighs_a_verb() -> None:
    assert impact_of("newservice", "PutPolicyQuestion", json.dumps({"readOnly": True})).gravity == "none"
    assert impact_of("newservice", "PutPolicyQuestion", json.dumps({"readOnly": False})).gravity == "notable"
    assert impact_of("dynamodb", "ExecuteStatement", json.dumps({"readOnly": True})).gravity == "none"
    assert impact_of("dynamodb", "ExecuteStatement", json.dumps({"readOnly": False})).gravity == "minor"


@pytest.mark.parametrize(
    "call",
    [
        "logs:FilterLogEvents",
        "logs:StartQuery",
        "cloudtrail:StartQuery",
        "dynamodb:PartiQLSelect",
        "s3:SelectObjectContent",
        "config:SelectResourceConfig",
        "access-analyzer:ValidatePolicy",
        "iam:SimulatePrincipalPolicy",
        "iam:GenerateCredentialReport",
        "iam:GenerateServiceLastAccessedDetails",
        "iam:GenerateOrganizationsAccessReport",
        "sts:DecodeAuthorizationMessage",
        "kms:Verify",
        "kms:VerifyMac",
        "verifiedpermissions:BatchIsAuthorized",
        "identitystore:IsMemberInGroups",
        "cognito-idp:AdminGetUser",
        "cognito-idp:AdminListGroupsForUser",
    ],
)
def test_a_read_by_another_verb_changes_nothing(call: str) -> None:
    assert impact_of(*call.split(":"), "").gravity == "none"


@pytest.mark.parametrize(
    "call",
    [
        "elasticache:TestFailover",
        "states:TestState",
        "apigateway:TestInvokeMethod",
        "sns:VerifySMSSandboxPhoneNumber",
        "license-manager:CheckoutLicense",
        "athena:StartQueryExecution",
        "acm-pca:IssueCertificate",
        "cognito-idp:VerifySoftwareToken",
        "kms:GenerateDataKey",
        "apigateway:PreviewPortal",
    ],
)
def test_a_write_that_begins_like_a_read_is_not_made_harmless(call: str) -> None:
    assert impact_of(*call.split(":"), "").gravity != "none"


@pytest.mark.parametrize("record", ["", json.dumps({"requestParameters": {"retentionInDays": 1}})])
def test_a_retention_that_is_set_deletes_no_log_by_itself(record: str) -> None:
    found = impact_of("logs", "PutRetentionPolicy", record)
    assert found.gravity == "grave"
    assert found.effect.partition(": ")[0] == "sets how long logs are kept"


@pytest.mark.parametrize("action", ["PutObject", "CopyObject", "CreateMultipartUpload"])
def test_only_with_a_key_that_the_account_has_not_does_an_object_that_is_written_look_like_ransom(
    action: str,
) -> None:
    request = {"x-amz-server-side-encryption-customer-algorithm": "AES256"}
    found = impact_of("s3", action, json.dumps({"requestParameters": request}))
    assert found[:4] == (
        "severe", "encrypts stored data with a key that only the caller has", "Impact", "T1486",
    )  # fmt: skip
    key = {"x-amz-server-side-encryption-aws-kms-key-id": "arn:aws:kms:eu-west-1:210987654321:key/1"}
    foreign = impact_of("s3", action, json.dumps({"requestParameters": key}))
    assert foreign[:4] == ("grave", "encrypts stored data with a key of another account", "Impact", "T1486")
    plain = impact_of("s3", action, json.dumps({"requestParameters": {"bucketName": "b"}}))
    assert plain.gravity in ("minor", "notable")
    assert plain.technique != "T1486"


def test_every_call_of_known_attacks_that_serves_more_than_discovery_does_something() -> None:
    """The labelled attacks of data/real: none of their harmful calls is called harmless."""
    missed = set()
    for _, raw in known_attacks():
        record = json.loads(raw)
        call = record["eventSource"].split(".")[0], record["eventName"]
        tactics = set(mapped_tactics(*call)) - {"Discovery"}
        if tactics and impact_of(*call, raw.decode()).gravity == "none":
            missed.add(call)
    assert not missed


def test_the_table_lists_each_action_once_and_only_words_that_exist() -> None:
    calls = []
    for effect in EFFECTS:
        assert effect.gravity in GRAVITIES[1:]
        assert effect.tactic in (*TACTICS, "")
        service = ""
        for word in effect.actions.split():
            service, action = word.split(":") if ":" in word else (service, word)
            assert service, "a line begins with a service"
            calls.append((service, action))
    assert len(set(calls)) == len(calls) == len(listed_actions())


# What CloudTrail writes, and no operation of an SDK is called: of consoles and portals, data events, older and combined names.
WITHOUT_OPERATION = {
    "account": "CloseAccount PutChallengeQuestions",
    "bedrock": "PutFoundationModelEntitlement",
    "cloudshell": "CreateEnvironment CreateSession StartEnvironment",
    "dsql": "DbConnect DbConnectAdmin",
    "dynamodb": "BatchWriteItem DeleteItem PutItem TransactGetItems TransactWriteItems UpdateItem",
    "ec2-instance-connect": "OpenTunnel",
    "eks": "AccessKubernetesApi",
    "iot": "AssumeRoleWithCertificate",
    "kinesis": "PutRecord PutRecords",
    "lambda": "Invoke",
    "macie": "UpdateMacieSession",
    "rds": "DownloadCompleteDBLogFile",
    "rolesanywhere": "CreateSession",
    "s3": "CompleteMultipartUpload CopyObject CreateMultipartUpload DeleteObject DeleteObjects PutObject PutObjectAcl "
    "PutObjectRetention UploadPart "
    "DeleteAccountPublicAccessBlock DeleteBucketPublicAccessBlock PutAccountPublicAccessBlock PutPublicAccessBlock "
    "PutBucketLifecycleConfiguration",
    "signin": "ConsoleLogin CredentialChallenge CredentialVerification EmailUpdated GetSigninToken PasswordRecoveryCompleted "
    "PasswordRecoveryRequested PasswordUpdated SwitchRole UserAuthentication",
    "sns": "Publish",
    "sqs": "DeleteMessage DeleteMessageBatch ReceiveMessage SendMessage SendMessageBatch",
    "ssm-guiconnect": "StartConnection",
    "sso": "Authenticate CreateToken CreateTokenWithIAM Federate GetRoleCredentials Logout RegisterClient "
    "StartDeviceAuthorization",
    "sso-directory": "AddMemberToGroup CreateBearerToken CreateUser DeleteMfaDeviceForUser "
    "EnableExternalIdPConfigurationForDirectory UpdatePassword",
    "sts": "GetServiceBearerToken",
}


def test_each_name_of_the_tables_is_one_that_cloudtrail_writes() -> None:
    known = {
        (service, action) for service, actions in WITHOUT_OPERATION.items() for action in actions.split()
    }
    named = {call for each in (EFFECTS, GRAVER_EFFECTS) for call, _ in _listed(each)} | CHECKED
    unknown = {call for call in named if find_operation(*call) is None}
    assert unknown == known


def test_each_check_of_a_request_is_for_an_action_of_the_table() -> None:
    assert listed_actions().keys() >= CHECKED
    assert GRANT_CHECKS.keys().isdisjoint(REQUEST_CHECKS)
    assert {call for call, _ in _listed(GRAVER_EFFECTS)} <= CHECKED


def test_every_technique_of_the_tables_has_a_name() -> None:
    effects = (*EFFECTS, *GRAVER_EFFECTS)
    assert {
        each.technique for each in effects if each.technique and not technique_name(each.technique)
    } == set()


def test_sending_mail_is_said_to_be_that() -> None:
    found = impact_of("ses", "SendRawEmail", "")
    assert (found.gravity, found.effect) == ("notable", "sends mail or messages")


# Data events, which no operation of the catalogue is called.
READS_WITHOUT_OPERATION = {
    "cassandra": "Select",
    "codecommit": "GitPull",
    "dynamodb": "BatchExecuteStatement BatchGetItem ExecuteStatement ExecuteTransaction GetItem Query Scan TransactGetItems",
    "kinesis": "GetRecords",
    "rds": "DownloadCompleteDBLogFile",
    "s3": "GetObject GetObjectTorrent SelectObjectContent",
    "sqs": "ReceiveMessage",
}


def test_what_is_taken_in_bulk_is_read_is_named_once_and_has_a_technique() -> None:
    calls = [call for effect in BULK_READS for call in effect.calls()]
    assert len(set(calls)) == len(calls)
    assert {each.gravity for each in BULK_READS} == {"severe", "grave"}
    assert all(technique_name(each.technique) and each.tactic in TACTICS for each in BULK_READS)
    unknown = {call for call in calls if find_operation(*call) is None}
    assert unknown == {
        (name, each) for name, all_ in READS_WITHOUT_OPERATION.items() for each in all_.split()
    }


def test_a_bulk_read_is_known_by_its_name_without_a_version() -> None:
    assert bulk_read("lambda", "GetFunction20150331v2").gravity == "grave"
    assert bulk_read("iam", "ListUsers").gravity == bulk_read("s3", "GetBucketPolicy").gravity == "none"


def test_a_parameter_in_plain_text_is_said_to_be_a_secret() -> None:
    found = impact_of("ssm", "GetParameter", json.dumps({"requestParameters": {"withDecryption": True}}))
    assert (found.gravity, found.effect) == ("notable", "reads a secret or password")
