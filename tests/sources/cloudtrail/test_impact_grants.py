"""Whom requests let in: by policies with and without conditions, by members that name accounts; and what is no outsider."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fingerprint.sources.cloudtrail.impact import impact_of
from fingerprint.sources.cloudtrail.impact_grants import (
    DELIVERED,
    HANDED_OVER,
    LENT,
    SENT,
    SHARED,
    admitted_by_policies,
)
from fingerprint.sources.cloudtrail.operations import find_operation

ACCOUNT, OTHER = "123456789012", "210987654321"
OWN_ROLE, OTHER_ROOT = f"arn:aws:iam::{ACCOUNT}:role/app", f"arn:aws:iam::{OTHER}:root"
ORGANISATION = f"arn:aws:organizations::{OTHER}:organization/o-a1b2c3d4e5"
LOAD_BALANCERS = "arn:aws:iam::156460612806:root"


def policy(principal: Any, condition: dict[str, Any] | None = None, **other: Any) -> dict[str, Any]:
    statement = {"Effect": "Allow", "Principal": principal, "Action": "*", "Resource": "*"}
    return {
        "Version": "2012-10-17",
        "Statement": [statement | ({"Condition": condition} if condition else {}) | other],
    }


def judged(call: str, request: Any) -> tuple[str, tuple[str, ...]]:
    """Return gravity and outsiders of a call with a request."""
    record = json.dumps({"recipientAccountId": ACCOUNT, "requestParameters": request})
    found = impact_of(*call.split(":"), record)
    return found.gravity, found.outsiders


@pytest.mark.parametrize(
    ("principals", "gravity"),
    [([OTHER_ROOT], "notable"), ([OTHER_ROOT, "333333333333"], "severe"), (["*"], "severe")],
)
@pytest.mark.parametrize("call", ["s3:PutBucketPolicy", "kms:PutKeyPolicy"])
def test_only_where_all_whom_a_policy_names_are_own_accounts_it_lets_no_outsider_in(
    call: str, principals: list[str], gravity: str
) -> None:
    request = {"policy": json.dumps(policy({"AWS": principals}))}
    record = json.dumps({"recipientAccountId": ACCOUNT, "requestParameters": request})
    found = impact_of(*call.split(":"), record).within((OTHER,))
    assert found.gravity == gravity
    assert impact_of(*call.split(":"), record).gravity == "severe"
    assert ("outsiders" in found.effect) is (gravity == "severe" and call.startswith("s3"))


@pytest.mark.parametrize(
    ("condition", "outsiders", "bounded"),
    [
        (None, ("*",), False),
        ({"StringEquals": {"AWS:SourceOwner": ACCOUNT}}, (), False),  # the policy that SNS makes
        (
            {"StringEquals": {"kms:ViaService": "ec2.eu-west-1.amazonaws.com", "kms:CallerAccount": ACCOUNT}},
            (),
            False,
        ),
        ({"ArnLike": {"aws:SourceArn": f"arn:aws:sns:eu-west-1:{ACCOUNT}:orders"}}, (), False),
        ({"ArnLike": {"aws:PrincipalArn": f"arn:aws:iam::{ACCOUNT}:role/*"}}, (), False),
        ({"ArnLike": {"aws:SourceArn": "arn:aws:s3:::uploads"}}, (), True),
        ({"StringEquals": {"aws:PrincipalOrgID": "o-a1b2c3d4e5"}}, (), True),
        ({"StringEquals": {"aws:SourceVpce": "vpce-0a1b2c3d"}}, (), True),
        ({"StringEquals": {"aws:PrincipalAccount": OTHER}}, (OTHER,), False),
        ({"StringEquals": {"aws:PrincipalAccount": [ACCOUNT, OTHER]}}, (OTHER,), False),
        (
            {"StringEqualsIfExists": {"aws:PrincipalAccount": ACCOUNT}},
            ("*",),
            False,
        ),  # holds without the key too
        ({"ForAllValues:StringEquals": {"aws:PrincipalAccount": ACCOUNT}}, ("*",), False),
        ({"StringNotEquals": {"aws:PrincipalAccount": ACCOUNT}}, ("*",), False),
        ({"StringLike": {"aws:PrincipalAccount": "*"}}, ("*",), False),
        ({"ArnLike": {"aws:PrincipalArn": "arn:aws:iam::*:role/app"}}, ("*",), False),
        ({"IpAddress": {"aws:SourceIp": "198.51.100.7/32"}}, ("*",), False),
        ({"StringEquals": "no test"}, ("*",), False),
        ({"StringEquals": {"aws:PrincipalAccount": []}}, ("*",), False),
    ],
)
def test_a_condition_says_who_of_everybody_is_let_in(
    condition: dict[str, Any] | None, outsiders: tuple[str, ...], bounded: bool
) -> None:
    found = admitted_by_policies({"policy": json.dumps(policy("*", condition))}, ACCOUNT)
    assert (found.outsiders, found.bounded) == (outsiders, bounded)


@pytest.mark.parametrize(
    ("principal", "outsiders"),
    [
        ({"AWS": OTHER}, (OTHER,)),  # a bare number, as in a role's trust policy
        ({"AWS": [OWN_ROLE, OTHER_ROOT]}, (OTHER,)),
        ({"AWS": ACCOUNT}, ()),
        ({"Service": "events.amazonaws.com"}, ()),
        ({"AWS": LOAD_BALANCERS}, ()),
        ({"AWS": "arn:aws:iam::cloudfront:user/CloudFront Origin Access Identity E1ABC"}, ()),
        ({"AWS": "AROAEXAMPLEEXAMPLEEX"}, ()),  # a role of one's own that is gone
        ({"CanonicalUser": "ab" * 32}, ("ab" * 32,)),
        ({"Federated": f"arn:aws:iam::{OTHER}:saml-provider/x"}, ()),
    ],
)
def test_a_principal_is_an_outsider_by_its_account(principal: Any, outsiders: tuple[str, ...]) -> None:
    assert admitted_by_policies(policy(principal), ACCOUNT).outsiders == outsiders


@pytest.mark.parametrize(
    ("call", "member"),
    [
        ("kms:CreateKey", "policy"),
        ("kinesis:PutResourcePolicy", "policy"),
        ("glue:PutResourcePolicy", "policyInJson"),
        ("codeartifact:PutDomainPermissionsPolicy", "policyDocument"),
        ("s3tables:PutTableBucketPolicy", "resourcePolicy"),
        ("ecr:PutRegistryPolicy", "policyText"),
        ("backup:PutBackupVaultAccessPolicy", "policy"),
        ("es:UpdateDomainConfig", "accessPolicies"),
        ("iam:CreateRole", "assumeRolePolicyDocument"),
        ("lambda:PutResourcePolicy20250307", "policy"),
        ("newservice:PutThing", "whoMayUseIt"),
    ],
)
def test_a_policy_is_read_whichever_action_has_it(call: str, member: str) -> None:
    for principal in ({"AWS": "*"}, {"AWS": OTHER}, {"AWS": OTHER_ROOT}):
        assert judged(call, {member: json.dumps(policy(principal))}) == (
            "severe",
            judged(call, {member: policy(principal)})[1],
        )
    assert judged(call, {member: json.dumps(policy({"AWS": OWN_ROLE}))})[0] in ("minor", "notable")
    bounded = policy("*", {"StringEquals": {"aws:PrincipalOrgID": "o-a1b2c3d4e5"}})
    assert judged(call, {member: json.dumps(bounded)}) == ("grave", ())


@pytest.mark.parametrize(
    ("call", "request_"),
    [
        ("ec2:CreateVpcEndpoint", {"CreateVpcEndpointRequest": {"PolicyDocument": json.dumps(policy("*"))}}),
        ("apigateway:CreateRestApi", {"createRestApiInput": {"policy": json.dumps(policy("*"))}}),
        ("cloudformation:SetStackPolicy", {"stackPolicyBody": json.dumps(policy("*"))}),
        ("organizations:CreatePolicy", {"content": json.dumps(policy("*"))}),
    ],
)
def test_a_policy_that_shares_nothing_which_is_stored_lets_no_one_in(call: str, request_: Any) -> None:
    gravity, outsiders = judged(call, request_)
    assert gravity in ("minor", "notable")
    assert not outsiders


@pytest.mark.parametrize(
    ("call", "request_", "gravity", "outsiders"),
    [
        ("kms:CreateGrant", {"granteePrincipal": OTHER_ROOT, "operations": ["Decrypt"]}, "severe", (OTHER,)),
        ("kms:CreateGrant", {"granteePrincipal": OWN_ROLE}, "grave", ()),
        (
            "lambda:AddPermission20150331v2",
            {"principal": "*", "action": "lambda:InvokeFunction"},
            "severe",
            ("*",),
        ),
        ("lambda:AddPermission20150331v2", {"principal": OTHER}, "severe", (OTHER,)),
        (
            "lambda:AddPermission20150331v2",
            {"principal": "*", "functionUrlAuthType": "NONE"},
            "grave",
            (),
        ),
        (
            "lambda:AddPermission20150331v2",
            {"principal": "*", "principalOrgID": "o-a1b2c3d4e5"},
            "grave",
            (),
        ),
        ("lambda:AddPermission20150331v2", {"principal": "events.amazonaws.com"}, "notable", ()),
        (
            "lambda:AddPermission20150331v2",
            {"principal": "s3.amazonaws.com", "sourceAccount": OTHER},
            "grave",
            (),
        ),
        ("lambda:AddLayerVersionPermission20181031", {"principal": "*"}, "severe", ("*",)),
        ("sns:AddPermission", {"aWSAccountId": [OTHER], "actionName": ["Publish"]}, "severe", (OTHER,)),
        ("sqs:AddPermission", {"aWSAccountIds": [ACCOUNT], "actions": ["SendMessage"]}, "notable", ()),
        (
            "lakeformation:GrantPermissions",
            {"principal": {"dataLakePrincipalIdentifier": OTHER}, "permissions": ["SELECT"]},
            "severe",
            (OTHER,),
        ),
        (
            "lakeformation:GrantPermissions",
            {"principal": {"dataLakePrincipalIdentifier": OWN_ROLE}, "permissions": ["SELECT"]},
            "notable",
            (),
        ),
        ("redshift:AuthorizeSnapshotAccess", {"accountWithRestoreAccess": OTHER}, "severe", (OTHER,)),
        ("redshift:AuthorizeDataShare", {"consumerIdentifier": OTHER}, "severe", (OTHER,)),
        ("ssm:ModifyDocumentPermission", {"name": "d", "accountIdsToAdd": ["all"]}, "severe", ("*",)),
        ("ssm:ModifyDocumentPermission", {"name": "d", "accountIdsToRemove": ["all"]}, "minor", ()),
        ("s3:CreateAccessGrant", {"grantee": {"granteeIdentifier": OTHER_ROOT}}, "severe", (OTHER,)),
        (
            "ram:CreateResourceShare",
            {"principals": [OTHER], "allowExternalPrincipals": True},
            "grave",
            (OTHER,),
        ),
        (
            "ram:CreateResourceShare",
            {"principals": [OTHER], "allowExternalPrincipals": False},
            "notable",
            (OTHER,),
        ),
        ("ram:AssociateResourceShare", {"principals": [ORGANISATION]}, "grave", ()),
        ("events:PutPermission", {"principal": "*", "action": "events:PutEvents"}, "grave", ("*",)),
        ("events:PutPermission", {"principal": ACCOUNT}, "notable", ()),
        ("es:AuthorizeVpcEndpointAccess", {"domainName": "d", "account": OTHER}, "grave", (OTHER,)),
        (
            "ec2:ModifyVpcEndpointServicePermissions",
            {
                "ModifyVpcEndpointServicePermissionsRequest": {
                    "AddAllowedPrincipals": {"tag": 1, "content": "*"}
                }
            },
            "grave",
            ("*",),
        ),
        (
            "ec2:ModifyImageAttribute",
            {"launchPermission": {"add": {"items": [{"organizationArn": ORGANISATION}]}}},
            "grave",
            (),
        ),
        ("ec2:ModifyImageAttribute", {"imageId": "ami-1", "description": {"value": "base"}}, "minor", ()),
        (
            "workspaces:UpdateWorkspaceImagePermission",
            {"allowCopyImage": True, "sharedAccountId": OTHER},
            "severe",
            (OTHER,),
        ),
        (
            "es:CreateDomain",
            {"accessPolicies": json.dumps(policy("*")), "vPCOptions": {"subnetIds": ["s"]}},
            "grave",
            ("*",),
        ),
        ("es:UpdateDomainConfig", {"domainName": "d", "clusterConfig": {"instanceCount": 3}}, "minor", ()),
        ("s3:PutBucketAcl", {"x-amz-acl": ["public-read"]}, "severe", ("*",)),
        ("servicecatalog:UpdatePortfolioShare", {"portfolioId": "p", "accountId": OTHER}, "grave", (OTHER,)),
        ("ds:ShareDirectory", {"shareTarget": {"id": OTHER, "type": "ACCOUNT"}}, "grave", (OTHER,)),
        ("ds:ShareDirectory", {"shareTarget": {"id": ACCOUNT, "type": "ACCOUNT"}}, "notable", ()),
        ("dataexchange:CreateDataGrant", {"receiverPrincipal": OTHER}, "severe", (OTHER,)),
        (
            "serverlessrepo:PutApplicationPolicy",
            {"statements": [{"actions": ["Deploy"], "principals": ["*"]}]},
            "severe",
            ("*",),
        ),
        (
            "backup:StartCopyJob",
            {"destinationBackupVaultArn": f"arn:aws:backup:eu-west-1:{OTHER}:backup-vault:v"},
            "severe",
            (OTHER,),
        ),
        (
            "backup:StartCopyJob",
            {"destinationBackupVaultArn": f"arn:aws:backup:eu-west-2:{ACCOUNT}:backup-vault:v"},
            "notable",
            (),
        ),
        (
            "s3:PutBucketReplication",
            {"ReplicationConfiguration": {"Rule": {"Destination": {"Account": OTHER}}}},
            "severe",
            (OTHER,),
        ),
        (
            "s3:PutBucketReplication",
            {"ReplicationConfiguration": {"Rule": {"Destination": {"Account": ACCOUNT}}}},
            "grave",
            (),
        ),
        (
            "imagebuilder:CreateDistributionConfiguration",
            {"distributions": [{"amiDistributionConfiguration": {"launchPermission": {"userIds": [OTHER]}}}]},
            "grave",
            (OTHER,),
        ),
        (
            "imagebuilder:CreateDistributionConfiguration",
            {"distributions": [{"region": "eu-west-1"}]},
            "minor",
            (),
        ),
        (
            "dlm:CreateLifecyclePolicy",
            {"policyDetails": {"schedules": [{"shareRules": [{"targetAccounts": [OTHER]}]}]}},
            "grave",
            (OTHER,),
        ),
        ("ec2:EnableAddressTransfer", {"transferAccountId": OTHER}, "grave", (OTHER,)),
        ("guardduty:AcceptAdministratorInvitation", {"administratorId": OTHER}, "grave", (OTHER,)),
        ("macie2:AcceptInvitation", {"administratorAccountId": OTHER}, "grave", (OTHER,)),
        (
            "oam:CreateLink",
            {"sinkIdentifier": f"arn:aws:oam:eu-west-1:{OTHER}:sink/1"},
            "grave",
            (OTHER,),
        ),
        ("oam:CreateLink", {"sinkIdentifier": f"arn:aws:oam:eu-west-1:{ACCOUNT}:sink/1"}, "notable", ()),
        (
            "logs:PutSubscriptionFilter",
            {"destinationArn": f"arn:aws:logs:eu-west-1:{OTHER}:destination:all", "filterPattern": ""},
            "grave",
            (OTHER,),
        ),
        ("logs:AssociateKmsKey", {"kmsKeyId": f"arn:aws:kms:eu-west-1:{OTHER}:key/1"}, "grave", ()),
        ("logs:AssociateKmsKey", {"kmsKeyId": f"arn:aws:kms:eu-west-1:{ACCOUNT}:key/1"}, "minor", ()),
    ],
)
def test_a_member_that_names_accounts_is_read_as_a_policy_is(
    call: str, request_: Any, gravity: str, outsiders: tuple[str, ...]
) -> None:
    assert judged(call, request_) == (gravity, outsiders)


@pytest.mark.parametrize(("call", "member"), DELIVERED.items())
def test_data_that_go_to_another_accounts_bucket_are_severe_and_that_account_is_named(
    call: str, member: str
) -> None:
    own = impact_of(*call.split(":"), "").gravity
    assert judged(call, {"to": {member: OTHER}}) == ("severe", (OTHER,))
    assert judged(call, {"to": {member: ACCOUNT}}) == (own, ())
    assert judged(call, {"to": {}}) == (own, ())


@pytest.mark.parametrize("call", [*HANDED_OVER, *DELIVERED, "lambda:AddPermission"])
def test_a_request_that_names_no_one_lowers_nothing(call: str) -> None:
    """As where a log keeps the name of the function alone."""
    assert judged(call, {"functionName": "log-helper"}) == (impact_of(*call.split(":"), "").gravity, ())


def test_the_log_deliveries_of_aws_are_no_outsiders_of_an_acl() -> None:
    """CloudFront asks for a grant to this user on each bucket that gets its logs."""
    user = "c4c1ede66af53448b93c283ce9448c4ba468c9432aa01d700d3878632f77d2d0"
    grant = {"Grantee": {"ID": user, "xsi:type": "CanonicalUser"}, "Permission": "FULL_CONTROL"}
    acl = {"AccessControlPolicy": {"AccessControlList": {"Grant": [grant]}, "Owner": {"ID": "ab" * 32}}}
    assert judged("s3:PutBucketAcl", acl) == ("notable", ())


def test_the_members_that_name_accounts_are_those_of_the_operations() -> None:
    nested = {"securitylake:CreateSubscriber", "s3:CreateAccessGrant", "serverlessrepo:PutApplicationPolicy"}
    nested |= {"dlm:CreateLifecyclePolicy", "workspaces:UpdateConnectionAliasPermission"}
    nested |= {"logs:PutAccountPolicy", "events:PutTargets"}
    nested |= {f"imagebuilder:{action}DistributionConfiguration" for action in ("Create", "Update")}
    nested |= {
        f"lakeformation:{action}"
        for action in ("GrantPermissions", "BatchGrantPermissions", "PutDataLakeSettings")
    }
    nested |= {f"athena:{action}" for action in ("StartQueryExecution", "CreateWorkGroup", "UpdateWorkGroup")}
    for call, member in (HANDED_OVER | LENT | SENT | DELIVERED).items():
        operation = find_operation(*call.split(":"))
        assert operation is not None, call
        assert call in nested or member in {name.lower() for name, _, _ in operation.parameters}, call
    assert all(find_operation(*call.split(":")) for call in SHARED)
