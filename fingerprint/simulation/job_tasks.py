# ruff: noqa: E501 - tables: a row a line
"""Tasks of people by job, and routines of machines by workload, each with its actions.

Actions are written as `service:Name Name Name service:Name`: a service applies to all names until the next service. In a task,
the most frequent actions stand first.

Example:
    >>> TASKS["developer"][0].name, TASKS["developer"][0].actions[:2]
    ('lambda page', ('lambda:ListFunctions20150331', 'lambda:GetAccountSettings20160819'))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Tool = Literal["console", "cli", "terraform", "sdk"]
Shape = Literal["poll", "sweep", "random", "burst", "daily"]


@dataclass(frozen=True, slots=True)
class Task:
    """A workflow of `min_calls` to `max_calls` calls with a tool. On a console page they follow in order, within seconds."""

    name: str
    tool: Tool
    min_calls: int
    max_calls: int
    actions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Routine:
    """Actions that a machine repeats, in one of five shapes, with P = `period_seconds`.

    - poll: each action by itself, every P seconds
    - sweep: all actions in turn, every P seconds
    - random: one at a time, P seconds apart on average, more often by day
    - burst: about `size` calls at once, P times on a working day
    - daily: all actions `size` times, once a day
    """

    shape: Shape
    period_seconds: float
    actions: tuple[str, ...]
    size: int = 1
    call_path: str = ""  # who makes the calls: empty for the machine itself, a service, its `agent`, or its identity provider (`web`)


def parse_actions(text: str) -> tuple[str, ...]:
    """Return each action of a text as `service:Name`; a service applies to all names until the next service."""
    found, service = [], ""
    for word in text.split():
        if ":" in word:
            service, _, word = word.partition(":")
        found.append(f"{service}:{word}")
    return tuple(found)


def _parse_task(line: str) -> Task:
    name, tool, least, most, text = (part.strip() for part in line.split("|"))
    return Task(name, tool, int(least), int(most), parse_actions(text))  # type: ignore[arg-type]


def _parse_tasks(text: str) -> tuple[Task, ...]:
    return tuple(_parse_task(line) for line in text.strip().splitlines())


TASKS: dict[str, tuple[Task, ...]] = {
    "developer": _parse_tasks("""
        lambda page    | console   | 4 | 14 | lambda:ListFunctions20150331 GetAccountSettings20160819 GetFunction20150331v2 GetPolicy20150331v2 ListEventSourceMappings20150331 ListVersionsByFunction20150331 logs:DescribeLogGroups DescribeLogStreams monitoring:GetMetricData
        logs           | console   | 3 | 16 | logs:DescribeLogGroups DescribeLogStreams StartQuery GetQueryResults FilterLogEvents GetLogEvents DescribeQueryDefinitions
        dynamodb page  | console   | 3 | 12 | dynamodb:ListTables DescribeTable DescribeTimeToLive DescribeContinuousBackups ListTagsOfResource monitoring:DescribeAlarms
        deploy         | cli       | 3 | 12 | cloudformation:DescribeStacks DescribeStackEvents CreateChangeSet DescribeChangeSet ExecuteChangeSet lambda:UpdateFunctionCode20150331v2 UpdateFunctionConfiguration20150331 GetFunction20150331v2
        secrets        | cli       | 1 | 4  | secretsmanager:GetSecretValue ListSecrets DescribeSecret ssm:GetParameter GetParametersByPath
        whoami         | cli       | 1 | 3  | sts:GetCallerIdentity AssumeRole
        images         | cli       | 3 | 10 | ecr:GetAuthorizationToken DescribeRepositories DescribeImages ListImages BatchGetImage
        queues         | sdk       | 4 | 20 | sqs:ListQueues GetQueueAttributes sns:ListTopics GetTopicAttributes ListSubscriptionsByTopic events:ListRules
        terraform plan | terraform | 20 | 60 | sts:GetCallerIdentity iam:GetRole ListAttachedRolePolicies ListRolePolicies lambda:GetFunction20150331v2 ListVersionsByFunction20150331 dynamodb:DescribeTable DescribeContinuousBackups ListTagsOfResource s3:GetBucketAcl GetBucketPolicy GetBucketVersioning logs:DescribeLogGroups sqs:GetQueueAttributes
    """),
    "data scientist": _parse_tasks("""
        notebooks      | console   | 4 | 12 | sagemaker:ListDomains ListUserProfiles DescribeUserProfile ListApps DescribeApp CreatePresignedDomainUrl ListNotebookInstances
        training       | sdk       | 3 | 18 | sagemaker:CreateTrainingJob DescribeTrainingJob ListTrainingJobs DescribeModel CreateModel AddTags sts:GetCallerIdentity
        queries        | sdk       | 4 | 24 | athena:StartQueryExecution GetQueryExecution GetQueryResults glue:GetTable GetDatabases GetPartitions
        catalog        | console   | 3 | 12 | glue:GetDatabases GetTables GetTable GetPartitions athena:ListWorkGroups ListDataCatalogs GetWorkGroup
        buckets        | cli       | 1 | 6  | s3:ListBuckets GetBucketLocation GetBucketVersioning sts:GetCallerIdentity
        images         | cli       | 2 | 6  | ecr:GetAuthorizationToken DescribeRepositories sts:GetCallerIdentity
        bedrock        | console   | 3 | 8  | bedrock:ListFoundationModels GetFoundationModelAvailability ListInferenceProfiles ListGuardrails
        logs           | console   | 2 | 8  | logs:DescribeLogGroups DescribeLogStreams GetLogEvents FilterLogEvents
    """),
    "sre": _parse_tasks("""
        ec2 page       | console   | 6 | 16 | ec2:DescribeInstances DescribeInstanceStatus DescribeVolumes DescribeSecurityGroups DescribeAddresses DescribeTags DescribeVpcs DescribeSubnets DescribeImages DescribeKeyPairs DescribeRegions DescribeAccountAttributes monitoring:DescribeAlarms autoscaling:DescribeAutoScalingGroups
        rds page       | console   | 4 | 12 | rds:DescribeDBInstances DescribeDBClusters DescribeDBSnapshots DescribeEvents DescribePendingMaintenanceActions DescribeDBSubnetGroups ListTagsForResource monitoring:GetMetricData
        clusters       | cli       | 2 | 8  | eks:DescribeCluster ListClusters ListNodegroups DescribeNodegroup sts:GetCallerIdentity
        balancers      | console   | 3 | 10 | elasticloadbalancing:DescribeLoadBalancers DescribeTargetGroups DescribeTargetHealth DescribeListeners DescribeRules DescribeTags
        terraform plan | terraform | 40 | 110 | sts:GetCallerIdentity ec2:DescribeVpcs DescribeSubnets DescribeRouteTables DescribeSecurityGroups DescribeNetworkAcls DescribeVpcAttribute DescribeInstances DescribeVolumes DescribeNatGateways iam:GetRole GetPolicy GetPolicyVersion ListAttachedRolePolicies ListRolePolicies s3:GetBucketAcl GetBucketPolicy GetBucketVersioning GetBucketEncryption GetBucketLogging kms:DescribeKey GetKeyPolicy GetKeyRotationStatus route53:GetHostedZone ListResourceRecordSets
        terraform apply| terraform | 12 | 50 | ec2:DescribeSecurityGroups AuthorizeSecurityGroupIngress RevokeSecurityGroupIngress CreateTags DescribeInstances RunInstances DescribeSubnets iam:GetRole CreateRole AttachRolePolicy GetRolePolicy s3:PutBucketPolicy GetBucketPolicy
        alarms         | console   | 3 | 9  | monitoring:DescribeAlarms GetDashboard ListDashboards GetMetricData ListMetrics DescribeAlarmHistory
        sessions       | cli       | 1 | 8  | ssm:StartSession DescribeInstanceInformation SendCommand GetCommandInvocation TerminateSession GetParameter
        restart        | cli       | 1 | 6  | ec2:DescribeInstances RebootInstances StartInstances StopInstances ecs:UpdateService DescribeServices ListTasks
    """),
    "analyst": _parse_tasks("""
        dashboards     | console   | 3 | 9  | quicksight:ListDashboards DescribeDashboard ListAnalyses DescribeUser ListDataSets DescribeDataSet
        queries        | console   | 4 | 20 | athena:StartQueryExecution GetQueryExecution GetQueryResults ListWorkGroups GetWorkGroup ListNamedQueries glue:GetTables GetDatabases
        warehouse      | console   | 3 | 10 | redshift:DescribeClusters redshift-data:ListDatabases ListSchemas ListTables ExecuteStatement DescribeStatement GetStatementResult
        cost           | console   | 3 | 9  | ce:GetCostAndUsage GetDimensionValues GetCostForecast GetTags budgets:DescribeBudgets
        buckets        | console   | 2 | 6  | s3:ListBuckets GetBucketLocation GetBucketVersioning GetBucketPublicAccessBlock
    """),
    "security": _parse_tasks("""
        findings       | console   | 4 | 14 | securityhub:GetFindings GetInsights GetInsightResults DescribeHub guardduty:ListDetectors ListFindings GetFindings GetDetector
        trail          | console   | 2 | 10 | cloudtrail:LookupEvents DescribeTrails GetTrailStatus GetEventSelectors ListTrails
        iam page       | console   | 5 | 16 | iam:ListUsers ListRoles ListPolicies GetAccountSummary GetUser ListAccessKeys ListMFADevices ListGroupsForUser GetLoginProfile ListAttachedUserPolicies GetAccountPasswordPolicy
        inventory      | sdk       | 20 | 70 | iam:ListUsers ListAccessKeys GetAccessKeyLastUsed ListRoles ListAttachedRolePolicies GetRole s3:ListBuckets GetBucketAcl GetBucketPolicyStatus GetBucketPublicAccessBlock ec2:DescribeSecurityGroups DescribeInstances kms:ListKeys DescribeKey sts:GetCallerIdentity AssumeRole
        report         | cli       | 2 | 6  | iam:GenerateCredentialReport GetCredentialReport GetAccountAuthorizationDetails access-analyzer:ListFindings ListAnalyzers
        config         | console   | 3 | 10 | config:DescribeConfigRules DescribeComplianceByConfigRule SelectResourceConfig GetDiscoveredResourceCounts DescribeConfigurationRecorders
        incidents      | cli       | 1 | 7  | cloudtrail:LookupEvents iam:UpdateAccessKey ec2:DescribeInstances DescribeFlowLogs CreateSnapshot
    """),
    "admin": _parse_tasks("""
        accounts       | console   | 3 | 10 | organizations:ListAccounts DescribeOrganization ListRoots ListOrganizationalUnitsForParent ListPolicies DescribePolicy
        people         | console   | 4 | 12 | identitystore:ListUsers DescribeUser ListGroups ListGroupMemberships sso:ListInstances ListPermissionSets ListAccountAssignments
        grants         | console   | 1 | 5  | sso:CreateAccountAssignment ListAccountAssignments ProvisionPermissionSet DescribePermissionSet
        iam page       | console   | 5 | 14 | iam:ListUsers ListRoles GetRole ListAttachedRolePolicies CreateUser AttachUserPolicy CreateAccessKey ListAccessKeys UpdateAssumeRolePolicy CreateLoginProfile
        billing        | console   | 2 | 7  | ce:GetCostAndUsage budgets:DescribeBudgets organizations:ListAccounts health:DescribeEvents
        support        | console   | 1 | 5  | support:DescribeCases DescribeSeverityLevels DescribeCommunications health:DescribeEventAggregates
        guard rails    | cli       | 2 | 8  | organizations:ListPolicies AttachPolicy DescribePolicy controltower:ListEnabledControls ListLandingZones sts:GetCallerIdentity
        trail          | console   | 1 | 5  | cloudtrail:DescribeTrails GetTrailStatus LookupEvents PutEventSelectors
    """),
    "manager": _parse_tasks("""
        cost           | console   | 3 | 9  | ce:GetCostAndUsage GetCostForecast GetDimensionValues GetTags budgets:DescribeBudgets
        home           | console   | 3 | 8  | health:DescribeEventAggregates ce:GetCostAndUsage monitoring:DescribeAlarms resource-explorer-2:ListIndexes notifications:ListNotificationHubs
        dashboards     | console   | 2 | 7  | quicksight:ListDashboards DescribeDashboard DescribeUser monitoring:ListDashboards GetDashboard
        look           | console   | 3 | 8  | ec2:DescribeInstances DescribeRegions rds:DescribeDBInstances lambda:ListFunctions20150331
    """),
}  # fmt: skip

JOB_SHARES = {
    "developer": 0.42,
    "sre": 0.17,
    "data scientist": 0.13,
    "analyst": 0.11,
    "security": 0.06,
    "admin": 0.04,
    "manager": 0.07,
}

_AGENT_ROUTINE = Routine("poll", 600, parse_actions("ssm:UpdateInstanceInformation"), call_path="agent")
_SWEEP_ACTIONS = parse_actions(
    "ec2:DescribeInstances DescribeVolumes DescribeInstanceStatus DescribeAddresses rds:DescribeDBInstances DescribeDBClusters ListTagsForResource "
    "elasticloadbalancing:DescribeLoadBalancers DescribeTargetGroups DescribeTags sqs:ListQueues dynamodb:ListTables DescribeTable "
    "lambda:ListFunctions20150331 monitoring:ListMetrics GetMetricData tagging:GetResources autoscaling:DescribeAutoScalingGroups ecs:ListClusters"
)

WORKLOADS: dict[str, tuple[Routine, ...]] = {  # the routines of each workload
    "instance": (
        _AGENT_ROUTINE,
        Routine("poll", 3600, parse_actions("ssm:ListInstanceAssociations"), call_path="agent"),
        Routine("random", 900, parse_actions("secretsmanager:GetSecretValue kms:Decrypt sts:GetCallerIdentity ssm:GetParameter")),
    ),
    "web instance": (
        _AGENT_ROUTINE,
        Routine("random", 420, parse_actions("kms:Decrypt secretsmanager:GetSecretValue ssm:GetParameters elasticloadbalancing:DescribeTargetHealth")),
    ),
    "function": (
        Routine("random", 300, parse_actions("secretsmanager:GetSecretValue kms:Decrypt sts:AssumeRole logs:CreateLogStream dynamodb:DescribeTable")),
        Routine("random", 700, parse_actions("kms:Decrypt"), call_path="lambda.amazonaws.com"),
    ),
    "timer function": (
        Routine("sweep", 600, parse_actions("logs:CreateLogStream ssm:GetParameter ec2:DescribeInstances")),
    ),
    "denied function": (
        Routine("poll", 600, parse_actions("s3:GetBucketPolicy")),
        Routine("random", 1500, parse_actions("logs:CreateLogStream kms:Decrypt")),
    ),
    "pod": (
        Routine("poll", 3000, parse_actions("sts:AssumeRoleWithWebIdentity"), call_path="web"),
        Routine("random", 500, parse_actions("route53:ListHostedZones ListResourceRecordSets secretsmanager:GetSecretValue ec2:DescribeInstances DescribeSubnets autoscaling:DescribeAutoScalingGroups")),
    ),
    "controller": (
        Routine("poll", 3000, parse_actions("sts:AssumeRoleWithWebIdentity"), call_path="web"),
        Routine("sweep", 900, parse_actions("elasticloadbalancing:DescribeLoadBalancers DescribeTargetGroups DescribeListeners DescribeTags ec2:DescribeSecurityGroups DescribeSubnets DescribeVpcs")),
    ),
    "deployer": (
        Routine("burst", 4, parse_actions("cloudformation:DescribeStacks DescribeStackEvents CreateChangeSet ExecuteChangeSet sts:GetCallerIdentity AssumeRole ecr:GetAuthorizationToken s3:GetBucketLocation lambda:GetFunction20150331v2 UpdateFunctionCode20150331v2 iam:GetRole GetRolePolicy"), size=40),
        Routine("burst", 4, parse_actions("lambda:UpdateFunctionConfiguration20150331 iam:GetRole AttachRolePolicy logs:CreateLogGroup DescribeLogGroups ec2:DescribeSubnets"), size=12, call_path="cloudformation.amazonaws.com"),
    ),
    "terraform runner": (
        Routine("burst", 3, TASKS["sre"][4].actions + TASKS["sre"][5].actions[1:6], size=90),
    ),
    "nightly job": (
        Routine("daily", 1, parse_actions("sts:GetCallerIdentity rds:DescribeDBSnapshots CreateDBSnapshot DescribeDBInstances s3:ListBuckets kms:GenerateDataKey CreateGrant"), size=6),
    ),
    "etl": (
        Routine("sweep", 3600, parse_actions("glue:GetJobRun StartJobRun GetTable GetPartitions athena:StartQueryExecution GetQueryExecution GetQueryResults")),
        Routine("daily", 1, parse_actions("glue:BatchCreatePartition UpdateTable GetTables StartCrawler"), size=8),
    ),
    "monitor": (Routine("sweep", 1800, _SWEEP_ACTIONS),),
    "scaler": (
        Routine("poll", 60 * 5, parse_actions("autoscaling:DescribeAutoScalingGroups ec2:DescribeInstances DescribeInstanceTypes")),
    ),
    "backup": (
        Routine("daily", 1, parse_actions("ec2:DescribeVolumes CreateSnapshot CreateTags DescribeSnapshots DeleteSnapshot backup:StartBackupJob DescribeBackupJob"), size=10),
        Routine("poll", 7200, parse_actions("backup:ListBackupJobs")),
    ),
}  # fmt: skip

WORKLOAD_MIX = {  # relative frequency of each workload
    "instance": 3, "web instance": 3, "function": 5, "timer function": 2, "denied function": 1, "pod": 3, "controller": 1,
    "deployer": 3, "terraform runner": 1, "nightly job": 2, "etl": 2, "monitor": 1, "scaler": 1, "backup": 1,
}  # fmt: skip

CI_WORKLOADS = ("deployer", "terraform runner")
USUAL_ACTIONS = frozenset(  # in the tasks of people and the routines of machines
    [action for tasks in TASKS.values() for task in tasks for action in task.actions]
    + [action for routines in WORKLOADS.values() for routine in routines for action in routine.actions]
)

SERVICE_POPULARITY = {  # weights of the services in the long tail of actions
    "ec2": 14, "iam": 9, "s3": 9, "lambda": 6, "rds": 5, "logs": 5, "monitoring": 5, "ssm": 5, "cloudformation": 4, "ecs": 4,
    "eks": 3, "dynamodb": 4, "sqs": 3, "sns": 3, "kms": 3, "secretsmanager": 3, "route53": 3, "cloudfront": 3, "elasticloadbalancing": 3,
    "autoscaling": 2, "apigateway": 3, "states": 2, "events": 2, "glue": 2, "athena": 2, "redshift": 2, "elasticache": 2, "ecr": 3,
    "codebuild": 2, "codepipeline": 2, "cloudtrail": 2, "config": 2, "guardduty": 2, "securityhub": 2, "organizations": 2, "sts": 2,
    "ce": 2, "wafv2": 2, "acm": 2, "cognito-idp": 2, "sagemaker": 2, "bedrock": 2, "backup": 1, "kinesis": 1, "firehose": 1,
    "elasticfilesystem": 1, "batch": 1, "dms": 1, "es": 1, "inspector2": 1, "servicecatalog": 1, "quicksight": 1, "ses": 1, "iot": 1,
}  # fmt: skip
