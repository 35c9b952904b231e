"""The inverse of an action is an operation of its service, with the names of the record, and of nothing it only tried once."""

from __future__ import annotations

import re
from typing import Any

import pytest

from fingerprint.sources.cloudtrail.attack_mappings import without_api_version
from fingerprint.sources.cloudtrail.operations import find_operation, load_operations
from fingerprint.sources.cloudtrail.playbook_inverse import inverse_undo
from fingerprint.sources.cloudtrail.playbook_undo import Call, undo_step, undo_table
from tests.sources.cloudtrail.test_playbook import call, commands, next_steps, suspicion

ACCOUNT, FOREIGN = "123456789012", "662187304519"


@pytest.mark.parametrize(
    ("action", "request_", "response", "command"),
    [
        (
            "sso:CreateAccountAssignment",
            {
                "instanceArn": "arn:i",
                "targetId": "1",
                "targetType": "AWS_ACCOUNT",
                "permissionSetArn": "arn:p",
            }
            | {"principalType": "USER", "principalId": "u-1"},
            {},
            "aws sso-admin delete-account-assignment --region eu-west-1 --instance-arn arn:i --target-id 1 "
            "--target-type AWS_ACCOUNT --permission-set-arn arn:p --principal-type USER --principal-id u-1",
        ),
        (
            "sagemaker:CreateTrainingJob",
            {"trainingJobName": "t-1"},
            {},
            "aws sagemaker stop-training-job --region eu-west-1 --training-job-name t-1",
        ),
        (
            "mediaconvert:CreateJob",
            {},
            {"job": {"id": "j-7"}},
            "aws mediaconvert cancel-job --region eu-west-1 --id j-7",
        ),
        (
            "batch:SubmitJob",
            {},
            {"jobId": "0ab1"},
            "aws batch terminate-job --region eu-west-1 --job-id 0ab1 --reason REASON",
        ),
        (
            "organizations:DetachPolicy",
            {"policyId": "p-1", "targetId": "ou-1"},
            {},
            "aws organizations attach-policy --region eu-west-1 --policy-id p-1 --target-id ou-1",
        ),
        (
            "guardduty:CreateFilter",
            {"detectorId": "d", "name": "quiet"},
            {},
            "aws guardduty delete-filter --region eu-west-1 --detector-id d --filter-name quiet",
        ),
        (
            "iam:AddRoleToInstanceProfile",
            {"instanceProfileName": "web", "roleName": "admin"},
            {},
            "aws iam remove-role-from-instance-profile --region eu-west-1 --instance-profile-name web --role-name admin",
        ),
        (
            "rds:RestoreDBInstanceFromDBSnapshot",
            {"dBInstanceIdentifier": "copy"},
            {},
            "aws rds delete-db-instance --region eu-west-1 --db-instance-identifier copy",
        ),
        (
            "sqs:SetQueueAttributes",
            {"queueUrl": "q", "attributes": {"Policy": "{}"}},
            {},
            "aws sqs get-queue-attributes --region eu-west-1 --queue-url q\n"
            "aws sqs set-queue-attributes --region eu-west-1 --queue-url q --attributes EARLIER_ATTRIBUTES",
        ),
        (
            "lambda:PutFunctionConcurrency20171031",
            {"functionName": "f"},
            {},
            "aws lambda get-function-concurrency --region eu-west-1 --function-name f\n"
            "aws lambda delete-function-concurrency --region eu-west-1 --function-name f",
        ),
        (
            "cognito-identity:UpdateIdentityPool",  # a switch that it sets must not be set again
            {"identityPoolId": "p", "identityPoolName": "visitors", "allowUnauthenticatedIdentities": True},
            {},
            "aws cognito-identity describe-identity-pool --region eu-west-1 --identity-pool-id p\n"
            "aws cognito-identity update-identity-pool --region eu-west-1 --identity-pool-id p "
            "--identity-pool-name EARLIER_IDENTITY_POOL_NAME EARLIER_ALLOW_UNAUTHENTICATED_IDENTITIES",
        ),
        (
            "events:PutTargets",
            {"rule": "r", "eventBusName": "b", "targets": [{"id": "1", "arn": "arn:t"}, {"id": "2"}]},
            {},
            "aws events remove-targets --region eu-west-1 --rule r --ids 1 2 --event-bus-name b",
        ),
        (
            "events:PutRule",
            {"name": "r"},
            {},
            "aws events disable-rule --region eu-west-1 --name r",
        ),
        (
            "events:PutPermission",
            {"statementId": "s"},
            {},
            "aws events remove-permission --region eu-west-1 --statement-id s",
        ),
        (
            "ec2:ModifyEbsDefaultKmsKeyId",
            {"kmsKeyId": "theirs"},
            {},
            "aws ec2 get-ebs-default-kms-key-id --region eu-west-1\n"
            "aws ec2 modify-ebs-default-kms-key-id --region eu-west-1 --kms-key-id EARLIER_KMS_KEY_ID",
        ),
        (
            "ecs:CreateCluster",
            {"clusterName": "f29fae65"},
            {"cluster": {"clusterArn": "arn:c", "clusterName": "f29fae65"}},
            "aws ecs delete-cluster --region eu-west-1 --cluster f29fae65",
        ),
        (
            "ecs:RegisterTaskDefinition",
            {"family": "web"},
            {"taskDefinition": {"taskDefinitionArn": "arn:aws:ecs:r:1:task-definition/web:7", "revision": 7}},
            "aws ecs deregister-task-definition --region eu-west-1 --task-definition arn:aws:ecs:r:1:task-definition/web:7",
        ),
        (
            "ecs:RegisterTaskDefinition",
            {"family": "web"},
            {"taskDefinition": {"family": "web", "revision": 7}},
            "aws ecs deregister-task-definition --region eu-west-1 --task-definition web:7",
        ),
        (
            "apigateway:CreateRestApi",
            {"name": "x"},
            {"id": "a1b2"},
            "aws apigateway delete-rest-api --region eu-west-1 --rest-api-id a1b2",
        ),
        (
            "redshift:ResumeCluster",
            {"clusterIdentifier": "c"},
            {},
            "aws redshift pause-cluster --region eu-west-1 --cluster-identifier c",
        ),
        (
            "lightsail:PutInstancePublicPorts",
            {"portInfos": [{"fromPort": 22}], "instanceName": "i"},
            {},
            "aws lightsail put-instance-public-ports --region eu-west-1 --port-infos EARLIER_PORT_INFOS --instance-name i",
        ),
        (
            "cloudformation:DeleteStackInstances",
            {"stackSetName": "s", "regions": ["us-east-1"], "operationId": "0a1b"},
            {},
            "aws cloudformation create-stack-instances --region eu-west-1 --stack-set-name s --regions us-east-1",
        ),
        (
            "backup:DeleteBackupVaultAccessPolicy",  # without a policy the call clears it
            {"backupVaultName": "v"},
            {},
            "aws backup put-backup-vault-access-policy --region eu-west-1 --backup-vault-name v --policy file://EARLIER_POLICY.json",
        ),
        (
            "s3:DeleteBucketLifecycle",
            {"bucketName": "b"},
            {},
            "aws s3api put-bucket-lifecycle-configuration --region eu-west-1 --bucket b "
            "--lifecycle-configuration EARLIER_LIFECYCLE_CONFIGURATION",
        ),
        (
            "events:DeleteRule",
            {"name": "r"},
            {},
            "aws events put-rule --region eu-west-1 --name r --schedule-expression EARLIER_SCHEDULE_EXPRESSION "
            "--event-pattern EARLIER_EVENT_PATTERN --state EARLIER_STATE --role-arn EARLIER_ROLE_ARN",
        ),
        (
            "geo:BatchDeleteGeofence",
            {"collectionName": "c"},
            {},
            "aws location batch-put-geofence --region eu-west-1 --collection-name c --entries EARLIER_ENTRIES",
        ),
        (
            "iot:CreateKeysAndCertificate",
            {"setAsActive": True},
            {"certificateId": "0a1b", "certificateArn": "arn:aws:iot:eu-west-1:1:cert/0a1b"},
            "aws iot update-certificate --region eu-west-1 --certificate-id 0a1b --new-status INACTIVE",
        ),
        (
            "eks:DeleteCapability",
            {"clusterName": "c", "capabilityName": "argo"},
            {},
            "aws eks create-capability --region eu-west-1 --capability-name argo --cluster-name c --type EARLIER_TYPE "
            "--role-arn EARLIER_ROLE_ARN --delete-propagation-policy EARLIER_DELETE_PROPAGATION_POLICY",
        ),
    ],
)
def test_the_inverse_has_the_names_of_the_record(
    action: str, request_: dict[str, Any], response: dict[str, Any], command: str
) -> None:
    step = undo_step(action, [Call(request_, response, "eu-west-1", ACCOUNT)])
    assert step is not None
    assert step.command == command


@pytest.mark.parametrize(
    "action",
    [
        "access-analyzer:CreateAnalyzer",
        "cloudtrail:CreateTrail",
        "cloudtrail:StartLogging",
        "config:StartConfigurationRecorder",
        "config:PutConfigurationRecorder",
        "config:PutDeliveryChannel",
        "detective:CreateGraph",
        "ec2:CreateFlowLogs",
        "ec2:EnableEbsEncryptionByDefault",
        "guardduty:CreateDetector",
        "inspector2:Enable",
        "kms:EnableKeyRotation",
        "macie2:EnableMacie",
        "monitoring:EnableAlarmActions",
        "monitoring:PutMetricAlarm",
        "securityhub:BatchEnableStandards",
        "securityhub:EnableSecurityHub",
    ],
)
def test_no_step_switches_a_guard_off(action: str) -> None:
    step = undo_step(action, [Call({"name": "audit"}, {}, "eu-west-1", ACCOUNT)])
    assert step is not None
    assert step.text.startswith("Leave it on: it only ")
    assert step.command == ""


@pytest.mark.parametrize(
    ("action", "command"),
    [
        ("guardduty:CreateIPSet", "delete-ip-set"),  # its addresses are trusted
        ("guardduty:CreateFilter", "delete-filter"),
        ("guardduty:EnableOrganizationAdminAccount", "disable-organization-admin-account"),
        ("logs:PutSubscriptionFilter", "delete-subscription-filter"),
        ("securitylake:CreateSubscriber", "delete-subscriber"),
        ("events:EnableRule", "disable-rule"),
        ("secretsmanager:PutResourcePolicy", "delete-resource-policy"),
    ],
)
def test_what_blinds_a_guard_or_hands_it_to_another_is_taken_back(action: str, command: str) -> None:
    step = undo_step(action, [Call({}, {}, "eu-west-1", ACCOUNT)])
    assert step is not None
    assert command in step.command


def test_guards_are_named_in_one_step_that_crowds_out_no_other() -> None:
    guards = [
        "config:PutConfigurationRecorder",
        "config:StartConfigurationRecorder",
        "guardduty:CreateDetector",
        "securityhub:EnableSecurityHub",
        *(f"inspector2:{name}" for name in ("Enable", "AssociateMember")),
        *(f"securityhub:{name}" for name in ("BatchEnableStandards", "CreateMembers", "CreateAggregatorV2")),
        *(f"config:{name}" for name in ("PutConfigRule", "PutDeliveryChannel", "PutConformancePack")),
        *(f"macie2:{name}" for name in ("EnableMacie", "CreateMember")),
        *(f"cloudtrail:{name}" for name in ("CreateTrail", "StartLogging")),
    ]
    calls = [call(action) for action in (*guards, "iam:CreateUser", "lambda:AddPermission")]
    steps = [each for each in next_steps(suspicion(*calls)) if each.phase == "undo"]
    assert len([each for each in steps if each.command]) == 2
    [left] = [each.text for each in steps if not each.command]
    assert left.startswith(
        "Leave on what only watches or protects, and look whether it sends its findings elsewhere"
    )
    assert left.endswith(" and 8 more.")


def test_logs_that_go_to_another_account_are_not_left_on() -> None:
    step = undo_step("ec2:CreateFlowLogs", [Call({}, {}, "eu-west-1", ACCOUNT)], "T1537")
    assert step is not None
    assert "delete-flow-logs" in step.command


def test_a_stack_is_looked_at_before_it_is_deleted() -> None:
    step = undo_step("cloudformation:CreateStack", [Call({"stackName": "StackSet-base"}, {}, "eu-west-1")])
    assert step is not None
    assert (
        step.command
        == "aws cloudformation list-stack-resources --region eu-west-1 --stack-name StackSet-base"
    )


@pytest.mark.parametrize(
    ("action", "credential"),
    [
        ("iam:DeleteAccessKey", "key"),
        ("iam:DeleteServiceSpecificCredential", "credential"),
        ("iam:DeleteLoginProfile", "password"),
        ("iam:DeleteVirtualMFADevice", "second factor"),
        ("iam:DeleteSigningCertificate", "certificate"),
        ("iam:DeleteSSHPublicKey", "key"),
    ],
)
def test_no_credential_is_made_in_an_incident_for_one_that_was_deleted(action: str, credential: str) -> None:
    step = undo_step(action, [Call({"userName": "ann"}, {}, "us-east-1", ACCOUNT)])
    assert step is not None
    expected = (
        f"A deleted {credential} does not come back: give its owner a new one when the incident is over."
    )
    assert step.text == expected
    assert step.command == ""


@pytest.mark.parametrize(
    ("action", "named", "command"),
    [
        (
            "ds:ResetUserPassword",
            {"directoryId": "d-1", "userName": "ann"},
            "aws ds reset-user-password --region eu-west-1 --directory-id d-1 --user-name ann --new-password NEW_PASSWORD",
        ),
        (
            "cognito-idp:AdminSetUserPassword",
            {"userPoolId": "p-1", "username": "ann"},
            "aws cognito-idp admin-set-user-password --region eu-west-1 --user-pool-id p-1 --username ann "
            "--password NEW_PASSWORD",
        ),
        (
            "workmail:ResetPassword",
            {"organizationId": "m-1", "userId": "u-1"},
            "aws workmail reset-password --region eu-west-1 --organization-id m-1 --user-id u-1 --password NEW_PASSWORD",
        ),
    ],
)
def test_a_password_that_a_thief_set_is_reset_to_a_new_one(
    action: str, named: dict[str, Any], command: str
) -> None:
    other = {name: "bob" if value == "ann" else value for name, value in named.items()}
    step = undo_step(action, [Call(named, {}, "eu-west-1"), Call(other, {}, "eu-west-1")])
    assert step is not None
    assert step.text.startswith("The caller knows these passwords: reset each to a new random one")
    assert step.command.splitlines()[0] == command


def test_no_step_sets_a_password_back_to_the_earlier_one() -> None:
    actions = set(map(without_api_version, load_operations())) - set(undo_table())
    undone = map(inverse_undo, actions)
    changes = [each.command for each in undone if each and not each.text.startswith("Make it again")]
    assert [each for each in changes if re.search(r"EARLIER_\w*PASSWORD\b", each)] == []


@pytest.mark.parametrize(
    "action", ["rds:ModifyDBInstance", "redshift:ModifyCluster", "elasticache:ModifyUser"]
)
def test_a_password_that_a_change_may_have_set_is_set_to_a_new_one(action: str) -> None:
    step = undo_step(action, [Call({}, {}, "eu-west-1", ACCOUNT)])
    assert step is not None
    assert step.text.endswith("Where the call set a password, the caller knows it: set a new random one.")


@pytest.mark.parametrize(
    ("action", "text", "command"),
    [
        ("ec2:StopInstances", "Start it again.", "aws ec2 start-instances --region r --instance-ids i-1 i-2"),
        (
            "ec2:StartInstances",
            "Stop it: it goes on without the credential that started it.",
            "aws ec2 stop-instances --region r --instance-ids i-1 i-2",
        ),
    ],
)
def test_machines_are_named_that_were_stopped_or_started(action: str, text: str, command: str) -> None:
    machines = {"instancesSet": {"items": [{"instanceId": "i-1"}, {"instanceId": "i-2"}]}, "force": False}
    step = undo_step(action, [Call(machines, {}, "r", ACCOUNT)])
    assert step is not None
    assert (step.text, step.command) == (text, command)


@pytest.mark.parametrize(
    ("action", "text"),
    [
        ("redshift:PauseCluster", "Resume it."),
        ("account:DisableRegion", "Switch it on again."),
        ("organizations:DetachPolicy", "Give it again."),
    ],
)
def test_what_was_taken_away_is_given_again_in_words_of_its_own(action: str, text: str) -> None:
    step = undo_step(action, [Call({}, {}, "r", ACCOUNT)])
    assert step is not None
    assert step.text == text


def test_what_a_record_calls_a_thing_is_no_option() -> None:
    step = undo_step("sagemaker:CreateTrainingJob", [Call({"trainingJobName": "--debug"}, {}, "eu-west-1")])
    assert step is not None
    assert step.command.endswith("--training-job-name TRAINING_JOB_NAME")


def test_no_put_in_place_of_a_delete_clears_what_it_should_bring_back() -> None:
    """A Put names no more than the thing only where it has no other member than tags and a description."""
    void = []
    for action in map(without_api_version, load_operations()):
        service, _, name = action.partition(":")
        undo = inverse_undo(action) if name.startswith("Delete") else None
        _, _, command = undo.command.partition(" put-") if undo else ("", "", "")
        put = find_operation(service, f"Put{name.removeprefix('Delete')}")
        deleted = find_operation(service, name)
        if put and deleted and command and "EARLIER_" not in command:
            named = {member for member, _, _ in deleted.parameters}
            members = {member for member, _, _ in put.parameters}
            void += [(action, each) for each in members - named - {"tags", "description", "checksum"}]
    assert void == []


def test_deleted_backups_are_said_to_be_gone_and_what_is_left_is_listed() -> None:
    step = undo_step("rds:DeleteDBSnapshot", [Call({}, {}, "eu-west-1")], "T1490")
    assert step is not None
    assert step.text.startswith("It is gone: restore it from a backup")
    assert step.command == "aws rds describe-db-snapshots --region eu-west-1"


@pytest.mark.parametrize(
    ("action", "request_", "named"),
    [
        (
            "rds:ModifyDBClusterSnapshotAttribute",
            {"dBClusterSnapshotIdentifier": "s", "valuesToAdd": [FOREIGN]},
            f"It names account {FOREIGN}.",
        ),
        (
            "dynamodb:ExportTableToPointInTime",
            {
                "s3Bucket": "mirror",
                "s3BucketOwner": FOREIGN,
                "tableArn": f"arn:aws:dynamodb:r:{ACCOUNT}:table/t",
            },
            f"It names account {FOREIGN}, bucket mirror.",
        ),
        (
            "redshift:AuthorizeSnapshotAccess",
            {"snapshotIdentifier": "s", "accountWithRestoreAccess": FOREIGN},
            f"It names account {FOREIGN}.",
        ),
        ("ram:CreateResourceShare", {"name": "s", "principals": [ACCOUNT]}, ""),
        (
            "backup:StartCopyJob",
            {"destinationBackupVaultArn": f"arn:aws:backup:eu-west-1:{FOREIGN}:backup-vault:v"},
            f"It names account {FOREIGN}.",
        ),
        (
            "s3:PutBucketReplication",
            {
                "bucketName": "own",
                "Rule": {"Destination": {"Bucket": "arn:aws:s3:::mirror"}, "bucketKeyEnabled": True},
            },
            "It names bucket mirror.",
        ),
    ],
)
def test_where_data_went_is_named(action: str, request_: dict[str, Any], named: str) -> None:
    step = undo_step(action, [Call(request_, {}, "eu-west-1", ACCOUNT)], "T1537")
    assert step is not None
    assert "as lost" in step.text
    assert ("It names" in step.text) == bool(named)
    assert step.text.endswith(named)


@pytest.mark.parametrize("action", ["bedrock:InvokeModel", "mobiletargeting:SendMessages", "sqs:PurgeQueue"])
def test_what_is_done_once_is_not_set_back(action: str) -> None:
    [step] = [each for each in next_steps(suspicion(call(action))) if each.phase == "undo"]
    assert (
        step.text == f"There is nothing to set back; find out what came of it, and what it costs: {action}."
    )


def test_the_key_that_root_made_for_itself_is_deleted_by_root() -> None:
    key = {"accessKey": {"accessKeyId": "AKIAIOSFODNN7EXAMPL2"}}
    steps = next_steps(suspicion(call("iam:CreateAccessKey", None, key), principal=f"{ACCOUNT}:root"))
    assert "aws iam delete-access-key --access-key-id AKIAIOSFODNN7EXAMPL2" in commands(steps, "undo")
    steps = next_steps(
        suspicion(call("iam:CreateAccessKey", {"userName": "eve"}, key), principal=f"{ACCOUNT}:root")
    )
    assert "update-access-key" in commands(steps, "undo")


def test_the_root_users_address_is_changed_back() -> None:
    step = undo_step("account:AcceptPrimaryEmailUpdate", [Call({}, {}, "us-east-1", ACCOUNT)])
    assert step is not None
    assert f"start-primary-email-update --account-id {ACCOUNT}" in step.command


def test_objects_that_were_deleted_are_uncovered_where_the_bucket_keeps_versions() -> None:
    step = undo_step("s3:DeleteObjects", [Call({"bucketName": "b"})], "T1485")
    assert step is not None
    assert "list-object-versions --bucket b" in step.command


def test_an_operation_is_found_without_its_version() -> None:
    found = find_operation("lambda", "CreateFunction")
    assert found is not None
    assert (found.name, found.cli_command) == ("CreateFunction20150331", "lambda create-function")
    assert find_operation("lambda", "MakeCoffee") is None
