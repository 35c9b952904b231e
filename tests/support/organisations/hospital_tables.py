"""The hospital group in tables: accounts, resources, scripts, tools, people, machines, vendors and attacks.

A script is a line of calls, `service:Action@pool*low-high~chance!failures`: on a resource of the pool (`@account/pool` of another
account, `@=name` for one name), low to high times, in a share of the runs, a share of them refused.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.support.organisations.records import read_rows, read_table

ORG = "nhg"
MAIN_REGION, US_REGION, DR_REGION = "eu-central-1", "us-east-2", "eu-west-1"
GLOBAL_SERVICES = {"iam", "organizations", "cloudfront", "route53", "ce", "support"}
GERMAN_HOLIDAYS = {"01-01", "01-06", "04-03", "04-06", "05-01", "05-14", "05-25", "10-03", "12-25", "12-26"}
US_HOLIDAYS = {"01-01", "01-19", "02-16", "05-25", "06-19", "07-03", "09-07", "11-26", "12-25"}

_ACCOUNTS = """
management security log-archive network shared imaging-prod imaging-dev ingest-prod claims-prod claims-dev
lake-prod ml-research clinical-us dr-backup
"""
ACCOUNTS = _ACCOUNTS.split()
HOSTS = {  # of event sources that are named otherwise in scripts
    "cloudwatch": "monitoring",
    "emr": "elasticmapreduce",
    "cognito": "cognito-idp",
    "sfn": "states",
    "aas": "application-autoscaling",
    "elb": "elasticloadbalancing",
    "efs": "elasticfilesystem",
}
READS = (
    "Get",
    "List",
    "Describe",
    "Head",
    "Lookup",
    "BatchGet",
    "Search",
    "Query",
    "Scan",
    "Read",
    "Simulate",
)
READ_ANYWAY = {"AssumeRole", "Decrypt", "GenerateDataKey", "InvokeModel", "AssumeRoleWithWebIdentity", "Sign"}
DATA_EVENTS = {
    "s3": {
        "GetObject",
        "PutObject",
        "DeleteObject",
        "HeadObject",
        "ListObjects",
        "CopyObject",
        "DeleteObjects",
    },
    "lambda": {"Invoke"},
    "dynamodb": {"GetItem", "PutItem", "Query", "Scan", "UpdateItem"},
    "medical-imaging": {"GetImageFrame", "GetImageSetMetadata"},
}


class Pool(NamedTuple):
    """Resources of a kind that an account has: the field that holds one in a request, and their names or words of them."""

    kind: str
    field: str
    words: list[str]


_POOLS = """
bucket     bucketName            raw curated export dicom reports artifacts athena-results logs models backup
table      tableName             patients studies claims members worklist locks audit consents
key        keyId                 1 2 3 4 5
secret     secretId              db/main db/replica hl7/mirth pacs/gateway partner/sftp api/token smtp/relay
    redshift/etl
function   functionName          hl7-parse dicom-route notify thumbs dedupe claims-rules deid archive fhir-map
    token-auth
instance   instanceId            i0 i1 i2 i3 i4 i5 i6 i7 i8 i9 i10 i11 i12 i13
db         dBInstanceIdentifier  main replica reporting mirth
cluster    cluster               core batch viewer
stream     streamName            hl7-in adt-out claims-in dicom-meta
log        logGroupName          /aws/lambda/hl7-parse /ecs/viewer /ecs/mirth /aws/glue/jobs /aws/rds/main
    /vpc/flow
job        jobName               claims-nightly member-merge drg-group icd-map export-gkv actuarial deid-batch
    month-close
role       roleName              app-task etl-job batch-node lambda-exec deploy admin-break instance-base
    ml-train
user       userName              svc-pacs svc-backup svc-smtp legacy-report
param      name                  /app/db /app/feature /app/mirth/port /ci/token /pacs/aet /batch/flags
workgroup  workGroup             primary actuarial audit
queue      queueUrl              hl7-dlq dicom-jobs claims-jobs notify
topic      topicArn              oncall alarms releases
store      datastoreId           fhir-main fhir-test
repo       repositoryName        viewer mirth router rules-engine
model      modelId               anthropic.claude-3-5-sonnet-20240620-v1:0 amazon.titan-embed-text-v2:0
machine    stateMachineArn       claims-flow dicom-flow
snapshot   snapshotId            s1 s2 s3 s4 s5 s6
volume     volumeId              v1 v2 v3 v4 v5 v6
group      groupId               g1 g2 g3 g4 g5
stack      stackName             base viewer batch
vault      backupVaultName       daily monthly
database   databaseName          claims members imaging
training   trainingJobName       triage-cnn triage-eval
"""
POOLS = {pool.kind: pool for pool in read_rows(Pool, _POOLS)}
EC2_IDS = {"instance": "i-", "snapshot": "snap-", "volume": "vol-", "group": "sg-"}
ARN_POOLS = {  # what a request names by an ARN: the ARN's service and how its last part begins
    "key": ("kms", "key/"),
    "secret": ("secretsmanager", "secret:"),
    "topic": ("sns", ""),
    "machine": ("states", "stateMachine:"),
}

_SCRIPTS = """
look-ec2  ec2:DescribeInstances*1-3 ec2:DescribeInstanceStatus ec2:DescribeSecurityGroups~.4
    ec2:DescribeVolumes~.3 cloudwatch:DescribeAlarms~.6 ec2:DescribeTags~.3
look-s3  s3:ListBuckets s3:GetBucketLocation@bucket*1-4 s3:ListObjects@bucket*1-3 s3:GetObject@bucket*0-3
    s3:GetBucketVersioning@bucket~.4
look-logs  logs:DescribeLogGroups logs:FilterLogEvents@log*1-6 logs:StartQuery@log~.5 logs:GetQueryResults*1-4
    cloudwatch:GetMetricData*1-5
look-ecs  ecs:ListClusters ecs:DescribeServices@cluster*1-3 ecs:ListTasks@cluster
    ecs:DescribeTasks@cluster*1-3 ecs:DescribeTaskDefinition~.5 elb:DescribeTargetHealth~.4
look-lambda  lambda:ListFunctions20150331 lambda:GetFunction20150331v2@function*1-3
    lambda:GetPolicy@function~.4 logs:GetLogEvents@log*1-4 cloudwatch:GetMetricData*1-3
look-rds  rds:DescribeDBInstances*1-2 rds:DescribeDBLogFiles@db~.4 pi:GetResourceMetrics~.4
    cloudwatch:GetMetricData*1-4
look-iam  iam:ListRoles iam:GetRole@role*1-3 iam:ListAttachedRolePolicies@role*1-2 iam:GetPolicyVersion~.4
    iam:ListUsers~.3
athena  athena:ListWorkGroups~.5 glue:GetDatabases glue:GetTables@database*1-2
    athena:StartQueryExecution@workgroup*1-6 athena:GetQueryExecution*2-9 athena:GetQueryResults*1-4
    s3:GetObject@bucket*0-2
redshift-query  redshift:DescribeClusters~.6 redshift:GetClusterCredentials redshift-data:ExecuteStatement*1-5
    redshift-data:DescribeStatement*2-8 redshift-data:GetStatementResult*1-4
pull-data  sts:GetCallerIdentity s3:ListObjects@bucket*1-3 s3:HeadObject@bucket*1-3 s3:GetObject@bucket*3-25
    kms:Decrypt@key*1-3
push-data  sts:GetCallerIdentity~.5 s3:PutObject@bucket*1-12 kms:GenerateDataKey@key*1-2 s3:ListObjects@bucket
glue-dev  glue:GetJobs glue:GetJob@job*1-2 glue:UpdateJob@job~.4 glue:StartJobRun@job~.6
    glue:GetJobRun@job*2-6 s3:PutObject@bucket~.5 logs:GetLogEvents@log*1-3
notebook  sagemaker:ListNotebookInstances sagemaker:DescribeNotebookInstance
    sagemaker:CreatePresignedNotebookInstanceUrl~.5 s3:ListObjects@bucket s3:GetObject@bucket*1-6
    sagemaker:ListTrainingJobs
train  sagemaker:CreateTrainingJob@training sagemaker:DescribeTrainingJob@training*3-9
    logs:GetLogEvents@log*1-3 ecr:GetAuthorizationToken~.3
bedrock-use  bedrock:ListFoundationModels~.4 bedrock:InvokeModel@model*2-15
plan  sts:GetCallerIdentity s3:GetObject@shared/bucket dynamodb:GetItem@table ec2:DescribeVpcs
    ec2:DescribeSubnets*1-2 ec2:DescribeSecurityGroups*1-3 iam:GetRole@role*2-6 iam:ListRolePolicies@role*1-4
    iam:ListAttachedRolePolicies@role*1-4 lambda:GetFunction20150331v2@function*0-4
    s3:GetBucketPolicy@bucket*0-3 s3:GetBucketAcl@bucket*0-3 s3:GetBucketEncryption@bucket*0-2
    kms:DescribeKey@key*0-2 ecs:DescribeServices@cluster~.5 rds:DescribeDBInstances@db~.4
apply  sts:GetCallerIdentity s3:GetObject@shared/bucket dynamodb:PutItem@table ec2:DescribeVpcs
    iam:GetRole@role*1-5 lambda:UpdateFunctionCode20150331v2@function~.5
    lambda:UpdateFunctionConfiguration20150331v2@function~.3 ecs:RegisterTaskDefinition~.5
    ecs:UpdateService@cluster~.5 iam:PutRolePolicy@role~.15 ec2:AuthorizeSecurityGroupIngress@group~.1
    ssm:PutParameter@param~.2 s3:PutBucketPolicy@bucket~.06 iam:CreateRole@role~.05 s3:PutObject@shared/bucket
    dynamodb:PutItem@table
deploy  ecr:GetAuthorizationToken ecr:BatchCheckLayerAvailability@repo*2-8 ecr:InitiateLayerUpload@repo*0-3
    ecr:PutImage@repo ecs:DescribeTaskDefinition ecs:RegisterTaskDefinition ecs:UpdateService@cluster
    ecs:DescribeServices@cluster*3-10
deploy-lambda  sts:GetCallerIdentity s3:PutObject@bucket cloudformation:DescribeStacks@stack*1-2
    cloudformation:CreateChangeSet@stack cloudformation:DescribeChangeSet@stack*1-3
    cloudformation:ExecuteChangeSet@stack cloudformation:DescribeStackEvents@stack*3-9
    lambda:GetFunction20150331v2@function*1-2
admin-ssm  ssm:DescribeInstanceInformation ssm:StartSession@instance*1-2 ssm:TerminateSession
    ssm:GetParameter@param~.4 ec2:DescribeInstances
admin-fix  ec2:DescribeInstances ec2:RebootInstances@instance~.3 rds:RebootDBInstance@db~.1
    ecs:UpdateService@cluster~.4 ssm:SendCommand@instance~.3 ssm:GetCommandInvocation*0-3
    secretsmanager:GetSecretValue@secret~.2 ec2:AuthorizeSecurityGroupIngress@group~.08
admin-org  organizations:ListAccounts organizations:DescribeOrganization~.4 sso:ListPermissionSets~.5
    sso:ListAccountAssignments~.4 sso:CreateAccountAssignment~.12 controltower:ListEnabledControls~.3
sec-triage  guardduty:ListDetectors guardduty:ListFindings guardduty:GetFindings*1-4
    cloudtrail:LookupEvents*1-8 securityhub:GetFindings*1-3 iam:GetAccessKeyLastUsed~.3
    guardduty:ArchiveFindings~.15
sec-lake  athena:StartQueryExecution@workgroup*1-5 athena:GetQueryExecution*2-9 athena:GetQueryResults*1-3
    glue:GetTables@database s3:GetObject@log-archive/bucket*0-4
audit-read  config:DescribeConfigurationRecorders~.4 config:SelectResourceConfig*1-3
    iam:GenerateCredentialReport~.3 iam:GetCredentialReport~.3 cloudtrail:DescribeTrails~.5
    cloudtrail:GetTrailStatus~.4 iam:GetAccountPasswordPolicy~.2 s3:GetBucketEncryption@bucket*0-3
    artifact:GetReport~.1
cost-look  ce:GetCostAndUsage*2-8 ce:GetDimensionValues*0-3 ce:GetCostForecast~.4 budgets:DescribeBudgets~.3
    organizations:ListAccounts~.3
clinical-look  healthlake:DescribeFHIRDatastore@store healthlake:ListFHIRImportJobs@store~.5
    medical-imaging:ListDatastores~.5 medical-imaging:SearchImageSets*0-4 connect:ListUsers~.2
    workspaces:DescribeWorkspaces~.5 cognito:AdminGetUser~.4 cognito:AdminResetUserPassword~.1
hl7  kinesis:GetRecords@stream*2-6 kms:Decrypt@key dynamodb:PutItem@table*1-3 sqs:SendMessage@queue~.4
    healthlake:CreateResource@store*0-2
dicom  s3:GetObject@bucket*1-4 medical-imaging:StartDICOMImportJob~.4 medical-imaging:GetDICOMImportJob*0-2
    s3:PutObject@bucket*1-3 kms:GenerateDataKey@key~.5 dynamodb:UpdateItem@table
viewer  medical-imaging:GetImageSetMetadata*1-3 medical-imaging:GetImageFrame*2-9 dynamodb:Query@table
    secretsmanager:GetSecretValue@secret~.05
worker  sqs:ReceiveMessage@queue~.3 s3:GetObject@bucket*1-2 s3:PutObject@bucket dynamodb:UpdateItem@table~.6
    kms:Decrypt@key~.4
api  dynamodb:GetItem@table*1-3 dynamodb:Query@table~.5 secretsmanager:GetSecretValue@secret~.06
    ssm:GetParameter@param~.1
node  ssm:UpdateInstanceInformation cloudwatch:PutMetricData~.5 ec2:DescribeTags~.2 s3:GetObject@bucket~.4
    logs:PutLogEvents@log~.2 s3:PutObject@bucket~.3
node-app  secretsmanager:GetSecretValue@secret~.1 s3:GetObject@bucket*1-3 sqs:ReceiveMessage@queue~.2
    dynamodb:Query@table~.6
glue-run  glue:GetConnection glue:GetTable@database*1-3 glue:GetPartitions@database*2-8
    s3:ListObjects@bucket*2-6 s3:GetObject@bucket*20-90 s3:PutObject@bucket*8-40 kms:Decrypt@key*2-8
    kms:GenerateDataKey@key*2-6 glue:BatchCreatePartition@database*1-3 secretsmanager:GetSecretValue@secret~.5
emr-run  s3:ListObjects@bucket*4-12 s3:GetObject@bucket*30-120 s3:PutObject@bucket*15-60
    glue:GetTable@database*2-6 dynamodb:Query@table*0-4 kms:Decrypt@key*3-9
redshift-load  s3:ListObjects@bucket*1-4 s3:GetObject@bucket*20-80 kms:Decrypt@key*1-4
flow  sfn:StartExecution@machine glue:StartJobRun@job*1-4 glue:GetJobRun@job*4-15 sns:Publish@topic
    emr:DescribeCluster*0-4
month-close  glue:StartJobRun@job*4-9 glue:GetJobRun@job*9-30 redshift:ResizeCluster~.3 emr:RunJobFlow
    emr:AddJobFlowSteps*2-5 emr:DescribeCluster*5-15 s3:PutObject@bucket*20-60 sns:Publish@topic
config-scan  config:PutEvaluations~.2 ec2:DescribeInstances ec2:DescribeSecurityGroups ec2:DescribeVolumes
    iam:GetRole@role*1-4 iam:ListAttachedRolePolicies@role*1-3 s3:GetBucketAcl@bucket*1-3
    s3:GetBucketPolicy@bucket*1-3 s3:GetBucketEncryption@bucket*1-2 lambda:GetPolicy@function*0-2
    kms:DescribeKey@key~.5 rds:DescribeDBInstances~.4
siem-read  sqs:ReceiveMessage@queue*1-3 s3:GetObject@bucket*3-10 sqs:DeleteMessage@queue*1-3
cost-scan  ce:GetCostAndUsage*2-6 ec2:DescribeInstances ec2:DescribeVolumes rds:DescribeDBInstances
    cloudwatch:GetMetricData*3-10 s3:ListBuckets~.4 organizations:ListAccounts~.3
ai-vendor  s3:ListObjects@bucket*1-2 s3:GetObject@bucket*4-14 s3:PutObject@bucket*1-4 kms:Decrypt@key*1-3
billing-partner  s3:ListObjects@bucket*1-2 s3:GetObject@bucket*2-8 s3:PutObject@bucket*1-2
backup-vendor  ec2:DescribeInstances ec2:DescribeVolumes ec2:CreateSnapshot@volume*1-4
    ec2:DescribeSnapshots*1-3 ec2:CreateTags*1-2 ec2:DeleteSnapshot@snapshot*0-2
pacs-push  s3:PutObject@bucket*4-20 s3:HeadObject@bucket*1-4
appliance  s3:ListObjects@bucket*1-2 s3:PutObject@bucket*8-30 s3:DeleteObject@bucket*0-6
    s3:GetObject@bucket*0-2 s3:GetBucketLocation@bucket~.3
smtp  ses:SendRawEmail*1-6 ses:GetSendQuota~.2
jenkins  sts:GetCallerIdentity ecr:GetAuthorizationToken ecr:BatchCheckLayerAvailability@repo*1-6
    ecr:PutImage@repo~.7 s3:PutObject@bucket*1-3 ecs:UpdateService@cluster~.5 ecs:DescribeServices@cluster*1-6
    cloudformation:DescribeStacks@stack~.4
report  s3:ListObjects@bucket s3:GetObject@bucket*2-8 dynamodb:Scan@table~.4 ses:SendEmail~.5
scaling  ec2:RunInstances!.03 ec2:CreateTags ec2:DescribeInstances*1-2 elb:RegisterTargets~.5
    ec2:TerminateInstances@instance~.5
scanner  iam:GetAccountSummary iam:ListUsers iam:ListRoles iam:GetRole@role*6-8 iam:GetPolicyVersion*3-9
    ec2:DescribeRegions ec2:DescribeInstances*2-4 ec2:DescribeSecurityGroups*2-4
    ec2:DescribeSnapshotAttribute@snapshot*2-6 ec2:GetEbsEncryptionByDefault s3:ListBuckets
    s3:GetBucketAcl@bucket*5-9 s3:GetBucketPolicy@bucket*5-9 s3:GetPublicAccessBlock@bucket*5-9!.2
    cloudtrail:DescribeTrails cloudtrail:GetEventSelectors kms:ListKeys kms:GetKeyRotationStatus@key*3-5!.1
    lambda:ListFunctions20150331 lambda:GetPolicy@function*4-9!.3 rds:DescribeDBSnapshotAttributes*1-3
    guardduty:ListDetectors secretsmanager:ListSecrets inspector2:ListFindings!.5
dr-test  rds:DescribeDBInstances rds:CreateDBInstanceReadReplica@db~.3 ec2:DescribeInstances*1-3
    route53:ListHostedZones route53:ChangeResourceRecordSets~.5 ecs:UpdateService@cluster*1-3
    ecs:DescribeServices@cluster*2-6 backup:StartRestoreJob~.5 backup:DescribeRestoreJob*1-4
incident  cloudwatch:DescribeAlarms logs:FilterLogEvents@log*3-15 ecs:DescribeServices@cluster*2-6
    ecs:UpdateService@cluster*1-3 rds:DescribeDBInstances rds:RebootDBInstance@db~.5
    ssm:StartSession@instance~.6 ecs:StopTask@cluster*0-3 rds:RestoreDBInstanceToPointInTime@db~.15
    support:CreateCase~.3
migrate  s3:ListObjects@bucket*2-5 s3:CopyObject@bucket*10-60 s3:PutBucketReplication@bucket~.1
    s3:HeadObject@bucket*3-9 dms:DescribeReplicationTasks*1-3 dms:StartReplicationTask~.3
"""
SCRIPTS = {row[0]: row[1] for row in read_table(_SCRIPTS, columns=2)}
_TAIL = """
ec2:DescribeImages ec2:DescribeKeyPairs ec2:DescribeAddresses ec2:DescribeRouteTables ec2:DescribeVpcEndpoints
ec2:DescribeSnapshots ec2:DescribeRegions ec2:DescribeLaunchTemplates ec2:GetConsoleOutput@instance
ec2:DescribeNetworkInterfaces ec2:CreateTags ec2:StopInstances@instance ec2:StartInstances@instance
ec2:ModifyInstanceAttribute@instance s3:GetBucketTagging@bucket s3:GetBucketCors@bucket
s3:GetBucketLifecycle@bucket s3:PutBucketTagging@bucket s3:GetBucketAcl@bucket s3:GetBucketPolicy@bucket
s3:DeleteObject@bucket s3:PutBucketLifecycle@bucket lambda:ListVersionsByFunction20150331@function
lambda:ListEventSourceMappings20150331 lambda:Invoke@function
lambda:UpdateFunctionConfiguration20150331v2@function lambda:GetAccountSettings20160819
logs:DescribeLogStreams@log logs:DescribeMetricFilters logs:PutRetentionPolicy@log cloudwatch:ListMetrics
cloudwatch:ListDashboards cloudwatch:GetDashboard cloudwatch:PutMetricAlarm iam:ListPolicies iam:GetUser@user
iam:ListAccountAliases iam:SimulatePrincipalPolicy iam:ListAccessKeys@user iam:ListInstanceProfiles
iam:GetPolicy rds:DescribeDBSnapshots rds:DescribeEvents rds:CreateDBSnapshot@db rds:ModifyDBInstance@db
secretsmanager:ListSecrets secretsmanager:DescribeSecret@secret secretsmanager:GetSecretValue@secret
ssm:DescribeParameters ssm:GetParameters@param ssm:ListDocuments ssm:GetParametersByPath@param
glue:GetCrawlers glue:StartCrawler glue:GetTriggers glue:CreateTable@database glue:DeleteTable@database
athena:ListNamedQueries athena:BatchGetNamedQuery athena:StopQueryExecution ecs:ListServices@cluster
ecs:DescribeClusters@cluster ecs:ExecuteCommand@cluster ecr:DescribeImages@repo ecr:DescribeRepositories
kms:ListAliases kms:DescribeKey@key kms:GetKeyPolicy@key sns:ListTopics sns:ListSubscriptions sqs:ListQueues
sqs:GetQueueAttributes@queue sqs:PurgeQueue@queue sfn:ListStateMachines sfn:DescribeExecution
sfn:StartExecution@machine dynamodb:ListTables dynamodb:DescribeTable@table dynamodb:Scan@table
kinesis:DescribeStreamSummary@stream acm:ListCertificates route53:ListHostedZones elb:DescribeLoadBalancers
cloudformation:ListStacks health:DescribeEvents tag:GetResources servicequotas:ListServiceQuotas
support:DescribeCases resource-explorer-2:Search cloudshell:CreateEnvironment q:StartConversation
access-analyzer:ListFindings sagemaker:ListModels bedrock:ListFoundationModels backup:ListBackupJobs
efs:DescribeFileSystems quicksight:ListDashboards redshift:DescribeClusters emr:ListClusters
"""
TAIL = _TAIL.split()  # what people call once in a while

# ------------------------------------------------------------------------------------------------------------------- tools

CLI = (
    "aws-cli/2.{v} md/awscrt#0.23.8 ua/2.0 os/{os} md/arch#{arch} lang/python#3.12.6 md/pyimpl#CPython cfg/retry-mode#standard "
    "md/installer#exe md/prompt#off md/command#{command}"
)
BOTO = (
    "Boto3/1.{v}.{p} md/Botocore#1.{v}.{p} ua/2.0 os/{os} md/arch#x86_64 lang/python#3.11.10 md/pyimpl#CPython "
    "{env}cfg/retry-mode#legacy Botocore/1.{v}.{p}"
)
TERRAFORM = (
    "APN/1.0 HashiCorp/1.0 Terraform/1.{t} (+https://www.terraform.io) terraform-provider-aws/5.{v}.0 "
    "(+https://registry.terraform.io/providers/hashicorp/aws) aws-sdk-go-v2/1.32.7 ua/2.1 os/linux lang/go#1.23.3 "
    "md/GOOS#linux md/GOARCH#amd64 api/{service}#1.42.1"
)
BROWSER = "Mozilla/5.0 ({os}) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/{v}.0.0.0 Safari/537.36"
DESKTOPS = (  # operating system and architecture as the command line writes them, operating system as a browser does
    ("macos#24.3.0", "arm64", "Macintosh; Intel Mac OS X 10_15_7"),
    ("windows#10", "amd64", "Windows NT 10.0; Win64; x64"),
    ("linux#6.8.0-51-generic", "x86_64", "X11; Linux x86_64"),
)
_WORKLOAD_TOOLS = """
ecs  aws-sdk-java/2.29.20 md/io#sync md/http#Apache ua/2.1 os/Linux#5.10.230-223.885.amzn2.x86_64
    lang/java#17.0.13 md/OpenJDK_64-Bit_Server_VM#17.0.13+11-LTS md/vendor#Amazon.com_Inc.
    exec-env/AWS_ECS_FARGATE m/D,N
ecs  aws-sdk-go-v2/1.32.0 ua/2.1 os/linux lang/go#1.23.4 md/GOOS#linux md/GOARCH#amd64 api/{service}#1.71.0
    exec-env/AWS_ECS_FARGATE m/E
ecs  Boto3/1.35.90 md/Botocore#1.35.90 ua/2.0 os/linux#5.10.230-223.885.amzn2.x86_64 md/arch#x86_64
    lang/python#3.11.10 md/pyimpl#CPython exec-env/AWS_ECS_FARGATE cfg/retry-mode#legacy Botocore/1.35.90
lambda  Boto3/1.34.145 md/Botocore#1.34.145 ua/2.0 os/linux#5.10.227-239.884.amzn2.x86_64 md/arch#x86_64
    lang/python#3.11.10 md/pyimpl#CPython exec-env/AWS_Lambda_python3.11 cfg/retry-mode#legacy
    Botocore/1.34.145
lambda  aws-sdk-js/3.716.0 ua/2.1 os/linux#5.10.227 lang/js md/nodejs#20.18.0 api/{service}#3.716.0
    exec-env/AWS_Lambda_nodejs20.x
instance  Boto3/1.26.120 md/Botocore#1.26.120 ua/2.0 os/linux#5.10.230-223.885.amzn2.x86_64 md/arch#x86_64
    lang/python#3.11.10 md/pyimpl#CPython cfg/retry-mode#legacy Botocore/1.26.120
instance  aws-sdk-go/1.55.5 (go1.22.5; linux; amd64) amazon-ssm-agent/3.3.1345.0
instance  aws-sdk-dotnet-coreclr/3.7.400.58 ua/2.0 os/windows/10.0.20348 md/ARCH#X64 lang/.NET_Core#8.0.11
glue  aws-sdk-java/1.12.770 Linux/5.10.230-223.885.amzn2.x86_64 OpenJDK_64-Bit_Server_VM/17.0.13+11-LTS
    java/17.0.13 vendor/Amazon.com_Inc. cfg/retry-mode/legacy AWSGlue
emr  aws-sdk-java/1.12.705 Linux/6.1.119-129.201.amzn2023.x86_64 OpenJDK_64-Bit_Server_VM/17.0.13
    ElasticMapReduce/1.0.0 emrfs/s3n
redshift  AWS Internal
sagemaker  Boto3/1.35.60 md/Botocore#1.35.60 ua/2.0 os/linux#5.10.230-223.885.amzn2.x86_64 md/arch#x86_64
    lang/python#3.11.10 md/pyimpl#CPython cfg/retry-mode#legacy Botocore/1.35.60
"""
WORKLOAD_TOOLS: dict[str, list[str]] = {}  # by kind of workload
for _kind, _tool in read_table(_WORKLOAD_TOOLS, columns=2):
    WORKLOAD_TOOLS.setdefault(_kind, []).append(_tool)
_ATTACK_TOOLS = """
aws-cli/2.15.22 md/awscrt#0.19.19 ua/2.0 os/linux#6.6.15-amd64 md/arch#x86_64 lang/python#3.11.8
    md/pyimpl#CPython cfg/retry-mode#standard md/installer#exe md/distrib#kali.2024 md/prompt#off
    md/command#{command}
aws-cli/2.17.9 md/awscrt#0.23.8 ua/2.0 os/linux#5.15.0-113-generic md/arch#x86_64 lang/python#3.12.6
    md/pyimpl#CPython cfg/retry-mode#standard md/installer#exe md/prompt#off md/command#{command}
Boto3/1.34.51 md/Botocore#1.34.51 ua/2.0 os/linux#6.1.0-18-amd64 md/arch#x86_64 lang/python#3.11.10
    md/pyimpl#CPython cfg/retry-mode#legacy Botocore/1.34.51
aws-sdk-go-v2/1.30.3 os/linux lang/go#1.22.5 md/GOOS#linux md/GOARCH#amd64 api/{service}#1.30.3
S3 Browser/11.6.7 (https://s3browser.com)
python-requests/2.31.0 auth-aws-sigv4
Boto3/1.28.21 md/Botocore#1.28.21 ua/2.0 os/windows#10 md/arch#x86_64 lang/python#3.11.10 md/pyimpl#CPython
    cfg/retry-mode#legacy Botocore/1.28.21
"""
ATTACK_TOOLS = [tool for (tool,) in read_table(_ATTACK_TOOLS, columns=1)]
_ATTACK_NETWORKS = """
167.99.214 45.134.26 185.220.101 91.92.249 194.26.192 5.182.207 172.86.66 104.248.91 51.159.11 146.70.86
193.142.146 3.87.114 18.206.92 13.58.77 34.118.5 139.59.130
"""
ATTACK_NETWORKS = _ATTACK_NETWORKS.split()  # of their machines
GERMAN_HOMES = [
    "79.{}",
    "84.{}",
    "87.{}",
    "91.{}",
    "93.{}",
    "217.{}",
]  # pools of providers: a new address each day
US_HOMES = ["73.{}", "98.{}", "24.{}", "174.{}"]
RUNNERS = ["4.{}", "13.{}", "20.{}", "40.{}", "52.{}", "172.{}"]

# ------------------------------------------------------------------------------------------------------ people and machines


class Team(NamedTuple):
    """People with the same work: how many, their permission set, the share of them in the US, and sessions a day."""

    name: str
    people: int
    permission: str
    abroad: float
    rate: float
    tools: str  # c: console, l: command line, b: boto3, t: Terraform
    accounts: list[str]
    scripts: str  # with weights


_TEAMS = """
clinical-it  20  ClinicalIT        0.4  1.6  c    clinical-us ingest-prod
    clinical-look:4 look-logs:2 look-ec2:1 look-lambda:1
imaging      14  ImagingDeveloper  0.3  3    clt  imaging-dev imaging-prod
    look-ecs:3 look-logs:4 look-lambda:2 push-data:1 plan:1 pull-data:1 deploy:1
data         16  DataEngineer      0.3  3.2  clb  lake-prod claims-dev claims-prod
    athena:3 glue-dev:3 pull-data:3 look-logs:2 redshift-query:1 push-data:1
actuary      12  Actuary           0.2  1.8  cb   lake-prod claims-prod
    athena:5 redshift-query:3 pull-data:1
science      10  DataScientist     0.5  2.4  cb   ml-research
    notebook:4 train:2 pull-data:3 athena:1
platform     11  PlatformEngineer  0.3  3    clt  network shared imaging-prod claims-prod ingest-prod  plan:4
    apply:2 look-ec2:2 look-logs:2 look-iam:1 admin-ssm:1
oncall       11  OperationsAdmin   0.4  2.4  cl   ingest-prod imaging-prod claims-prod clinical-us
    look-ec2:3 look-logs:4 look-ecs:2 look-rds:2 admin-ssm:2 admin-fix:1
security     8   SecurityAnalyst   0.4  3    cl   security log-archive
    sec-triage:5 sec-lake:3 look-iam:1
audit        6   Auditor           0.3  0.8  c    security claims-prod management
    audit-read:4 look-iam:1 look-s3:1
billing      8   BillingAnalyst    0.4  1.4  c    claims-prod
    look-s3:2 athena:2
finops       4   FinOps            0.5  1.2  cb   management
    cost-look:5
cloud-admin  5   OrgAdmin          0.4  1.6  clt  management security shared
    admin-org:4 look-iam:2 plan:1
"""
TEAMS = read_rows(Team, _TEAMS)


class Workload(NamedTuple):
    """Machines of a kind: `name@hour` runs at that hour of each day; so many of them, runs a day of each."""

    name: str
    kind: str
    account: str
    how_many: int
    rate: float
    scripts: str  # with weights


_WORKLOADS = """
hl7-listener    ecs        ingest-prod   5  60    hl7:1
dicom-router    ecs        ingest-prod   4  55    dicom:1
mirth           ecs        clinical-us   4  55    hl7:3 api:1
viewer          ecs        imaging-prod  6  40    viewer:5 api:1
imaging-api     ecs        imaging-prod  5  60    api:3 dicom:1
viewer-dev      ecs        imaging-dev   3  8     viewer:2 api:1
claims-api      ecs        claims-prod   5  70    api:3 worker:1
claims-api-dev  ecs        claims-dev    2  10    api:3 worker:1
portal          ecs        clinical-us   4  60    api:4
fn              lambda     ingest-prod   8  40    worker:2 hl7:1
fn              lambda     imaging-prod  6  35    worker:2 dicom:1
fn              lambda     claims-prod   7  30    worker:2 api:1
fn              lambda     clinical-us   6  25    worker:1 api:1
fn              lambda     shared        4  12    api:1 node-app:1
fn-deid         lambda     ml-research   3  15    worker:1
bastion         instance   network       2  30    node:1
ris             instance   clinical-us   5  55    node:2 node-app:1
pacs-cache      instance   imaging-prod  5  55    node:1 node-app:2
rules-engine    instance   claims-prod   4  45    node:2 node-app:1
gitlab          instance   shared        2  40    node:3 node-app:1
legacy-sap      instance   claims-prod   3  30    node:4
batch@1         glue       claims-prod   8  3     glue-run:1
merge@2         glue       lake-prod     6  3     glue-run:1
features@4      glue       ml-research   2  2     glue-run:1
drg@3           emr        claims-prod   3  3     emr-run:1
warehouse@5     redshift   lake-prod     3  4     redshift-load:1
flow@1          lambda     claims-prod   3  4     flow:1
trainer         sagemaker  ml-research   4  5     pull-data:2 push-data:1
reports@6       lambda     claims-prod   4  2     report:1
rare@7          lambda     shared        6  0.15  report:1 audit-read:1
"""
WORKLOADS = read_rows(Workload, _WORKLOADS)


class Vendor(NamedTuple):
    """A firm whose account assumes a role in ours."""

    name: str
    script: str
    network: str
    owner: str  # its account
    rate: float  # runs a day
    accounts: list[str]  # ours
    tool: str


_VENDORS = """
radiant-ai  ai-vendor        52.29.44    731990215544  30  imaging-prod imaging-dev
    Boto3/1.35.12 md/Botocore#1.35.12 ua/2.0 os/linux#6.1.112-122.189.amzn2023.x86_64 md/arch#x86_64
    lang/python#3.11.10 md/pyimpl#CPython cfg/retry-mode#legacy Botocore/1.35.12
medbill     billing-partner  212.77.160  418822730917  12  claims-prod
    aws-sdk-java/2.25.60 Linux/5.15.0-1068-aws OpenJDK_64-Bit_Server_VM/21.0.4 Java/21.0.4
siemcloud   siem-read        3.122.71    609112233481  90  log-archive security
    aws-sdk-go-v2/1.30.0 ua/2.1 os/linux lang/go#1.23.4 md/GOOS#linux md/GOARCH#amd64 api/{service}#1.71.0 m/E
vaultback   backup-vendor    18.184.90   220417754133  10  imaging-prod claims-prod clinical-us dr-backup
    aws-sdk-dotnet-coreclr/3.7.305.30 aws-sdk-dotnet-core/3.7.305.30 .NET_Core/6.0.36 OS/Linux_5.10
    ClientAsync
costwise    cost-scan        54.93.18    905511842217  4   management claims-prod imaging-prod lake-prod
    aws-sdk-ruby3/3.214.0 ua/2.1 api/{service}#1.120.0 os/linux#5.10 md/x86_64 lang/ruby#3.2.2 md/3.2.2
"""
VENDORS = read_rows(Vendor, _VENDORS)


class KeyUser(NamedTuple):
    """IAM users with long-lived keys: what runs on premises."""

    name: str
    how_many: int
    account: str
    script: str
    rate: float  # runs a day
    tool: str


_KEY_USERS = """
pacs-gw        7  imaging-prod  pacs-push  40  aws-sdk-go/1.44.109 (go1.17.13; windows; amd64) S3Manager
pacs-gw-us     3  clinical-us   pacs-push  35  aws-sdk-java/1.11.792 Windows_Server_2016/10.0
    OpenJDK_64-Bit_Server_VM/11.0.2
backup-appl    4  dr-backup     appliance  14  Veeam/12.1.2.172 aws-sdk-cpp/1.9.379 Windows/10.0.20348 AMD64
    MSVC/1929
svc-smtp       2  shared        smtp       40  Boto3/1.17.44 Python/3.8.10 Linux/5.4.0-170-generic
    Botocore/1.20.44
legacy-report  4  claims-prod   report     6   aws-cli/1.18.147 Python/2.7.18
    Linux/4.14.355-275.570.amzn2.x86_64 botocore/1.18.6
jenkins        2  shared        jenkins    14  aws-cli/2.15.30 md/awscrt#0.23.8 ua/2.0
    os/linux#5.15.0-125-generic md/arch#x86_64 lang/python#3.12.6 md/pyimpl#CPython cfg/retry-mode#standard
    md/installer#exe md/prompt#off md/command#{command}
dr-copy        2  dr-backup     appliance  4   rclone/v1.65.0
ansible        2  network       look-ec2   5   APN/1.0 Ansible/2.16.5 Boto3/1.34.30 md/Botocore#1.34.30 ua/2.0
    os/linux#5.15.0-125-generic md/arch#x86_64 lang/python#3.11.10 md/pyimpl#CPython cfg/retry-mode#legacy
    Botocore/1.34.30
"""
KEY_USERS = read_rows(KeyUser, _KEY_USERS)
REPOSITORIES = (  # with a pipeline, and the account of each
    ("viewer", "imaging-prod"),
    ("mirth", "claims-prod"),
    ("router", "ingest-prod"),
    ("rules-engine", "lake-prod"),
    ("claims-api", "network"),
    ("lake-jobs", "management"),
    ("infra-network", "clinical-us"),
    ("infra-org", "imaging-prod"),
    ("portal", "claims-prod"),
    ("deid", "ingest-prod"),
    ("ml-triage", "lake-prod"),
)
_FIRST_NAMES = """
anna jonas lea felix marie paul sophie lukas emma tim carla ben nora max ida leon mila oskar grace tyler megan
dylan ruth omar priya chen yusuf elif marta piotr
"""
FIRST_NAMES = _FIRST_NAMES.split()
_LAST_NAMES = """
becker vogt kraus lang seidel arnold brandt haas kuhn roth miller carter reed hughes ward price diaz patel
nguyen yilmaz nowak rossi silva ivanov okafor
"""
LAST_NAMES = _LAST_NAMES.split()

# ----------------------------------------------------------------------------------------------------------------- attacks


class Attack(NamedTuple):
    """A kind of attack: how many, on whom, how it comes in, when, how fast, for how long, and what is called, in variants."""

    kind: str
    how_many: int
    victims: str  # a rule of `hospital.VICTIMS`
    way: str  # far: tool and network of the attacker; laptop: the victim's tool; own: also its network; console: a browser abroad
    hours: str  # day or night
    fastest: float  # seconds between two calls
    slowest: float
    days: int
    scripts: tuple[str, ...]


RECONNAISSANCE = (
    "sts:GetCallerIdentity iam:ListAttachedUserPolicies!.6 iam:ListUsers!.7 iam:ListRoles!.6 s3:ListBuckets!.4 "
    "ec2:DescribeInstances*1-3!.5 lambda:ListFunctions20150331!.6 secretsmanager:ListSecrets!.7 "
    "iam:GetAccountAuthorizationDetails!.8 ec2:DescribeRegions~.5 rds:DescribeDBInstances!.6"
)
_ATTACKS = """
leaked-ci-key     3  ci              far      night  0.4  9    1
    {recon} ecr:DescribeRepositories!.3 s3:ListObjects@bucket*2-5 s3:GetObject@bucket*4-20 |
    sts:GetCallerIdentity s3:ListBuckets s3:ListObjects@bucket*2-8!.2 s3:GetObject@bucket*5-40!.1
    ecr:GetAuthorizationToken ecr:BatchGetImage@repo*1-4 | sts:GetCallerIdentity*1-2
stolen-laptop     3  engineers       laptop   night  1    30   1
    sts:GetCallerIdentity s3:ListBuckets s3:ListObjects@bucket*3-8 s3:GetObject@bucket*10-50
    secretsmanager:ListSecrets~.5!.5 | athena:StartQueryExecution@workgroup*3-9 athena:GetQueryExecution*5-12
    athena:GetQueryResults*3-9 s3:GetObject@bucket*3-9 | s3:ListObjects@bucket*1-2 s3:GetObject@bucket*2-8
ssrf-instance     3  instances       far      night  0.3  6    1
    sts:GetCallerIdentity s3:ListBuckets s3:ListObjects@bucket*3-10!.2 s3:GetObject@bucket*20-120 | {recon}
    ssm:DescribeParameters!.5 ssm:GetParameter@param*1-4!.4 | secretsmanager:GetSecretValue@secret*1-3
    s3:GetObject@bucket*2-6
phished-sso       3  console-users   console  night  2    50   1
    iam:ListRoles!.4 ec2:DescribeInstances ec2:DescribeRegions s3:ListBuckets s3:ListObjects@bucket*1-4
    cloudshell:CreateEnvironment cloudshell:CreateSession ssm:DescribeParameters!.5
    ssm:GetParameters@param*1-3!.4 secretsmanager:ListSecrets!.4 | s3:ListBuckets
    s3:GetBucketLocation@bucket*2-6 s3:ListObjects@bucket*2-5 s3:GetObject@bucket*2-12
    rds:DescribeDBInstances!.4 | organizations:ListAccounts!.5 sso:ListInstances!.5 iam:ListUsers!.3
    cloudtrail:DescribeTrails!.3 cloudshell:CreateEnvironment cloudshell:GetEnvironmentStatus*1-3
    ec2:DescribeVpcs*1-2
vendor-abused     3  vendors         far      day    0.2  4    1
    s3:ListBuckets!.3 s3:ListObjects@bucket*4-9 s3:GetObject@bucket*60-220 | iam:ListRoles!.8
    ec2:DescribeInstances!.3 s3:ListBuckets!.4 s3:ListObjects@bucket*1-4 sts:GetCallerIdentity kms:ListKeys!.7
    | ec2:DescribeSnapshots!.2 ec2:CreateSnapshot@volume*1-3 ec2:ModifySnapshotAttribute@snapshot*1-3!.1
insider-bulk      3  readers         own      day    1    12   1
    s3:ListObjects@bucket*5-20 s3:GetObject@bucket*200-600 | athena:StartQueryExecution@workgroup*20-60
    athena:GetQueryExecution*30-90 athena:GetQueryResults*20-60 | s3:ListBuckets
    s3:ListObjects@lake-prod/bucket*5-12 s3:GetObject@lake-prod/bucket*80-250
insider-leaving   2  leavers         own      night  1.5  25   1
    s3:ListBuckets s3:ListObjects@bucket*2-6 s3:GetObject@bucket*30-90 s3:PutObject@=nhg-private-backup*10-30
    | ecr:DescribeRepositories ecr:GetAuthorizationToken ecr:BatchGetImage@repo*2-5 sagemaker:ListModels
    s3:GetObject@bucket*15-40 s3:PutBucketPolicy@bucket | s3:GetObject@bucket*10-30
    s3:DeleteObject@bucket*15-60 lambda:DeleteFunction20150331@function*1-2 glue:DeleteTable@database*1-4
cryptomining      3  deployers       far      night  0.5  8    1
    sts:GetCallerIdentity ec2:DescribeRegions servicequotas:ListServiceQuotas ec2:DescribeInstanceTypes
    ec2:CreateKeyPair ec2:CreateSecurityGroup ec2:AuthorizeSecurityGroupIngress@group ec2:RunInstances*4-14!.4
    | sts:GetCallerIdentity ec2:RunInstances!1 iam:CreateServiceLinkedRole ecs:CreateCluster*3-10
    ecs:RegisterTaskDefinition*2-4 ecs:CreateService@cluster*3-8 iam:CreateRole@role iam:AttachRolePolicy@role
    aas:RegisterScalableTarget | ec2:DescribeAccountAttributes ec2:DescribeImages*1-2
    ec2:RequestSpotInstances*3-9!.3 ec2:ModifyInstanceAttribute@instance*2-5
    servicequotas:RequestServiceQuotaIncrease*1-3
ransom            4  bucket-writers  far      night  0.1  1.5  1
    s3:ListBuckets s3:ListObjects@bucket*2-6 s3:GetBucketVersioning@bucket*1-3 s3:CopyObject@bucket*60-200
    s3:PutObject@bucket*1-3 s3:PutBucketLifecycle@bucket | s3:ListBuckets!.3 s3:GetBucketVersioning@bucket
    s3:PutBucketVersioning@bucket s3:GetObject@bucket*20-60 s3:DeleteObjects@bucket*8-40 s3:PutObject@bucket |
    s3:ListObjects@bucket*1-3 s3:GetObject@bucket*30-90 s3:DeleteObject@bucket*30-90 s3:PutObject@bucket |
    s3:ListBuckets s3:PutBucketEncryption@bucket*1-3 s3:CopyObject@bucket*30-90
    s3:DeleteBucketPolicy@bucket!.5
persistence       4  admins          far      night  1.5  20   1
    iam:ListUsers iam:CreateUser@=svc-monitoring iam:AttachUserPolicy@=svc-monitoring
    iam:CreateAccessKey@=svc-monitoring iam:CreateLoginProfile@=svc-monitoring~.5 | iam:ListRoles
    iam:GetRole@role iam:UpdateAssumeRolePolicy@role iam:AttachRolePolicy@role |
    iam:ListOpenIDConnectProviders iam:CreateOpenIDConnectProvider iam:CreateRole@role
    iam:AttachRolePolicy@role | lambda:CreateFunction20150331@=log-helper
    lambda:AddPermission20150331v2@=log-helper lambda:CreateFunctionUrlConfig@=log-helper events:PutRule
    events:PutTargets iam:ListRoles
defence-evasion   3  admins          laptop   night  2    30   1
    cloudtrail:DescribeTrails cloudtrail:GetTrailStatus cloudtrail:PutEventSelectors cloudtrail:StopLogging!.5
    ec2:DescribeFlowLogs ec2:DeleteFlowLogs | guardduty:ListDetectors guardduty:CreateFilter
    guardduty:UpdateDetector!.3 config:StopConfigurationRecorder!.4 | organizations:DescribeOrganization
    organizations:LeaveOrganization!1 cloudwatch:DescribeAlarms cloudwatch:DeleteAlarms
    cloudwatch:DisableAlarmActions logs:DeleteLogGroup@log*1-2
secrets-harvest   3  secret-readers  far      day    0.2  4    1
    secretsmanager:ListSecrets!.2 secretsmanager:GetSecretValue@secret*8-20!.2 ssm:DescribeParameters!.3
    ssm:GetParametersByPath@param*2-6!.2 | lambda:ListFunctions20150331
    lambda:GetFunction20150331v2@function*6-15 ssm:GetParameters@param*2-6 |
    secretsmanager:GetSecretValue@secret*2-5 kms:Decrypt@key*2-4
snapshot-share    2  admins          far      night  2    25   1
    ec2:DescribeVolumes ec2:CreateSnapshot@volume*1-3 ec2:DescribeSnapshots
    ec2:ModifySnapshotAttribute@snapshot*1-3 | rds:DescribeDBInstances rds:CreateDBSnapshot@db
    rds:DescribeDBSnapshots*1-3 rds:ModifyDBSnapshotAttribute | ec2:DescribeInstances ec2:CreateImage@instance
    ec2:DescribeImages*1-2 ec2:ModifyImageAttribute ec2:CreateStoreImageTask~.5
slow-enumeration  3  key-holders     far      day    20   900  4
    sts:GetCallerIdentity iam:ListRoles!.7 s3:ListBuckets!.5 | ec2:DescribeInstances!.4
    s3:GetBucketPolicy@bucket*1-2!.5 s3:ListObjects@bucket | s3:GetObject@bucket*1-3
    lambda:ListFunctions20150331!.6 kms:ListKeys!.7
passrole          3  builders        far      day    2    30   1
    iam:ListRoles iam:ListAttachedRolePolicies@role*2-5 lambda:CreateFunction20150331@=fn-test
    lambda:Invoke@=fn-test*1-2 lambda:DeleteFunction20150331@=fn-test | glue:GetDevEndpoints
    glue:CreateDevEndpoint!.5 glue:CreateJob@job glue:StartJobRun@job iam:ListRoles!.3 |
    sagemaker:CreateNotebookInstance sagemaker:DescribeNotebookInstance*2-5
    sagemaker:CreatePresignedNotebookInstanceUrl iam:ListRoles~.5
llm-jacking       3  model-callers   far      day    0.5  10   1
    bedrock:InvokeModel@model*1-3!1 bedrock:ListFoundationModels!.3
    bedrock:GetModelInvocationLoggingConfiguration!.3 | sts:GetCallerIdentity bedrock:ListFoundationModels
    bedrock:GetFoundationModelAvailability*2-5 bedrock:PutUseCaseForModelAccess
    bedrock:CreateFoundationModelAgreement bedrock:PutFoundationModelEntitlement
    bedrock:InvokeModel@model*40-150 | bedrock:InvokeModel@model*20-90!.1
ses-abuse         2  mailers         far      night  0.5  8    1
    ses:GetSendQuota ses:ListIdentities ses:GetAccount!.3 ses:SendEmail*20-80 | sts:GetCallerIdentity
    ses:GetSendQuota!.4 ses:ListIdentities!.4 ses:GetAccountSendingEnabled!.5 sns:GetSMSAttributes!.5 |
    ses:GetAccount ses:PutAccountDetails ses:CreateEmailIdentity*1-2 ses:GetEmailIdentity
    ses:SendRawEmail*10-50
"""
ATTACKS = read_rows(Attack, _ATTACKS.replace("{recon}", RECONNAISSANCE))
