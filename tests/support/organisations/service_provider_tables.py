"""The service provider in tables: accounts, tools, networks, names, requests, machines, people and attacks.

A script is a line of calls such as `s3:ListBuckets s3:GetObject*40 iam:ListUsers!`: `*n` up to n calls, `%p` in p of 100 runs,
`!` refused (`!Code` failed so).
"""

from __future__ import annotations

import json
import re
from datetime import date
from typing import NamedTuple

from tests.support.organisations.records import Record, read_rows, read_table

ZONES = {"us": -5.0, "gb": 1.0, "de": 2.0, "pl": 2.0, "in": 5.5, "ph": 8.0, "br": -3.0}  # hours to UTC
HOLIDAYS = {
    "us": {date(2026, 5, 25)},
    "gb": {date(2026, 5, 4), date(2026, 5, 25)},
    "de": {date(2026, 5, 14), date(2026, 5, 25)},
}

_ACCOUNTS = """
msp-hub         hub         eu-west-1
msp-management  management  us-east-1 eu-west-1
msp-security    security    eu-west-1 us-east-1
msp-tooling     tooling     eu-west-1
msp-sandbox     sandbox     eu-west-1 us-west-2
alder-prod      shop        eu-central-1
alder-staging   shop        eu-central-1
birch-prod      shop        us-east-1 us-west-2
birch-staging   shop        us-east-1
cedar-prod      shop        eu-west-2
juniper-prod    shop        eu-central-1
dune-prod       api         us-east-1
dune-dev        api         us-east-1
elm-prod        api         ap-southeast-1
fern-prod       api         sa-east-1
gorse-lake      lake        eu-west-1
hazel-lake      lake        us-east-1
hazel-bi        lake        us-east-1
ivy-ml          ml          us-west-2
ivy-research    ml          us-west-2 us-east-1
kelp-fleet      iot         eu-west-1
kelp-backend    api         eu-west-1
larch-legacy    legacy      us-east-2
maple-legacy    legacy      ap-south-1
"""
ACCOUNTS = read_table(_ACCOUNTS, columns=3)  # name, kind, regions
SERVED = {"shop", "api", "lake", "ml", "iot", "legacy"}  # the kinds of accounts that are customers'
GLOBAL_SERVICES = {"iam", "organizations", "ce", "route53", "cloudfront", "support", "health", "budgets"}
ENDPOINT_SERVICES = {"s3", "dynamodb", "kms", "secretsmanager", "ssm", "sqs", "ecr"}

# ------------------------------------------------------------------------------------------------------ tools and networks

BROWSERS = ("chrome-mac", "chrome-win", "firefox-linux", "edge-win")
COMMAND_LINES = ("cli-mac", "cli-linux", "cli-win")


class Agent(NamedTuple):
    """A user agent: `{v}` is the version, the second one once its user is upgraded; without any it always is the same."""

    name: str
    versions: list[str]
    text: str


_AGENTS = """
chrome-mac  135 136  Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko)
    Chrome/{v}.0.0.0 Safari/537.36
chrome-win  135 136  Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko)
    Chrome/{v}.0.0.0 Safari/537.36
edge-win  135 136  Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko)
    Chrome/{v}.0.0.0 Safari/537.36 Edg/{v}.0.0.0
firefox-linux  137 138  Mozilla/5.0 (X11; Linux x86_64; rv:{v}.0) Gecko/20100101 Firefox/{v}.0
cli-mac  2.24.10 2.27.2  aws-cli/{v} md/awscrt#0.23.8 ua/2.1 os/macos#24.3.0 md/arch#arm64 lang/python#3.12.6
    md/pyimpl#CPython cfg/retry-mode#standard md/installer#source md/prompt#off md/command#{command}
cli-linux  2.22.4 2.27.2  aws-cli/{v} md/awscrt#0.23.8 ua/2.1 os/linux#6.8.0-1021-aws md/arch#x86_64
    lang/python#3.12.6 md/pyimpl#CPython cfg/retry-mode#standard md/installer#exe md/prompt#off
    md/command#{command}
cli-win  2.22.4 2.27.2  aws-cli/{v} md/awscrt#0.23.8 ua/2.1 os/windows#10 md/arch#amd64 lang/python#3.12.6
    md/pyimpl#CPython cfg/retry-mode#standard md/installer#exe md/prompt#off md/command#{command}
cli-kali  2.19.1  aws-cli/{v} md/awscrt#0.23.8 ua/2.1 os/linux#6.11.2-kali-amd64 md/arch#x86_64
    lang/python#3.12.6 md/pyimpl#CPython cfg/retry-mode#standard md/installer#exe md/prompt#off
    md/command#{command}
boto3  1.35.30 1.37.1  Boto3/{v} md/Botocore#{v} ua/2.0 os/linux#6.8.0-1021-aws md/arch#x86_64
    lang/python#3.11.9 md/pyimpl#CPython cfg/retry-mode#legacy Botocore/{v}
lambda-py  1.36.3 1.38.2  Boto3/{v} md/Botocore#{v} ua/2.0 os/linux#5.10.233-244.895.amzn2.x86_64
    md/arch#x86_64 lang/python#3.12.9 md/pyimpl#CPython exec-env/AWS_Lambda_python3.12 Botocore/{v}
lambda-js  3.738.0  aws-sdk-js/{v} ua/2.1 os/linux#5.10.233-244.895.amzn2.x86_64 lang/js md/nodejs#20.18.3
    api/dynamodb#{v} exec-env/AWS_Lambda_nodejs20.x
java  2.29.52 2.31.3  aws-sdk-java/{v} md/io#sync md/http#Apache ua/2.1
    os/Linux#6.1.129-138.220.amzn2023.x86_64 lang/java#17.0.14 md/OpenJDK_64-Bit_Server_VM#17.0.14
    md/vendor#Amazon.com_Inc.
go  1.32.7  aws-sdk-go-v2/{v} ua/2.1 os/linux lang/go#1.23.6 md/GOOS#linux md/GOARCH#amd64 api/ec2#1.200.0
karpenter  1.1.1 1.3.3  karpenter.sh-{v} aws-sdk-go-v2/1.36.1 ua/2.1 os/linux lang/go#1.23.6 md/GOOS#linux
    md/GOARCH#amd64
alb  2.11.0  elbv2.k8s.aws/v{v} aws-sdk-go-v2/1.32.7 ua/2.1 os/linux lang/go#1.22.8 md/GOOS#linux
    md/GOARCH#amd64
external-secrets  v0.14.2 v0.16.0  external-secrets/{v} aws-sdk-go/1.55.5 (go1.23.4; linux; amd64)
terraform  5.82.2 5.98.0  APN/1.0 HashiCorp/1.0 Terraform/1.9.8 (+https://www.terraform.io)
    terraform-provider-aws/{v} (+https://registry.terraform.io/providers/hashicorp/aws) aws-sdk-go-v2/1.32.7
    os/linux lang/go#1.23.3
pulumi  6.66.2  APN/1.0 Pulumi/1.0 PulumiAWS/{v} (+https://www.pulumi.com) aws-sdk-go-v2/1.32.7 os/linux
    lang/go#1.22.7
circleci  22  aws-cli/1.37.{v} md/Botocore#1.36.10 ua/2.0 os/linux#6.5.0-1022-gcp md/arch#x86_64
    lang/python#3.10.12
datadog  7.62.0  Datadog-AWS-Integration/{v} aws-sdk-go-v2/1.30.3 os/linux lang/go#1.22.5
wiz  1.36.3  Wiz/1.0 aws-sdk-go-v2/{v} os/linux lang/go#1.23.1 md/GOOS#linux md/GOARCH#amd64
vanta  3.721.0  aws-sdk-js/{v} ua/2.0 os/linux#5.15.0 lang/js md/nodejs#18.20.4 vanta-client
cloudhealth  3.211.0  CloudHealth aws-sdk-ruby3/{v} ua/2.0 os/linux lang/ruby#3.1.4 md/3.1.4
databricks  1.12.610  databricks/cluster-manager aws-sdk-java/{v} Linux/5.15.0
    OpenJDK_64-Bit_Server_VM/17.0.11 scala/2.12.15
hadoop  1.12.720  Hadoop 3.3.6, aws-sdk-java/{v} Linux/6.1.128 OpenJDK_64-Bit_Server_VM/8.432
    vendor/Amazon.com_Inc.
ssm-agent  3.3.1611.0 3.3.2299.0  aws-sdk-go/1.55.5 (go1.22.9; linux; amd64) amazon-ssm-agent/{v}
iot-device  1.9.3  aws-iot-device-client/{v} aws-sdk-cpp/1.11.200 Linux/5.15.71 armv7l
sagemaker  2.237.1  AWS-SageMaker-Python-SDK/{v} Python/3.10.14 Linux/5.10.230 Boto3/1.35.30 Botocore/1.35.30
ansible  1.34.84  APN/1.0 Ansible/2.16.5 amazon.aws/7.6.0 Boto3/{v} Python/3.11.9 Linux/6.8.0-1021-aws
    Botocore/{v}
cloudzero  -  CloudZero/2.1 Boto3/1.35.9 md/Botocore#1.35.9 ua/2.0 os/linux lang/python#3.12.4
prowler  -  Boto3/1.35.94 md/Botocore#1.35.94 ua/2.0 os/linux#6.8.0 md/arch#x86_64 lang/python#3.12.8
    APN_1826889 prowler
boto3-vps  -  Boto3/1.26.165 Python/3.10.12 Linux/5.15.0-91-generic Botocore/1.29.165
cli-vps  -  aws-cli/1.22.34 Python/3.10.12 Linux/5.15.0-119-generic botocore/1.23.34
pacu  -  Boto3/1.34.11 md/Botocore#1.34.11 ua/2.0 os/linux#6.6.9-amd64 md/arch#x86_64 lang/python#3.11.8
    Botocore/1.34.11
trufflehog  -  TruffleHog
s3browser  -  S3 Browser/11.6.7 (https://s3browser.com)
go-vps  -  aws-sdk-go/1.44.298 (go1.20.5; linux; amd64)
service  -  {service}
"""
AGENTS = {agent.name: agent for agent in read_rows(Agent, _AGENTS)}
_NETWORKS = """
us               73.158 98.207 24.16
gb               86.14 81.109
de               91.12 79.243
pl               83.24 89.64
in               49.36 106.51
ph               112.198 120.29
br               177.45 189.6
vpn              185.46
vpn-new          147.161
hub-nat          52.48
gitlab-saas      34.74 35.196 34.138 35.231 34.23
circleci         54.164 3.228 18.213 34.201
tfc              52.86
datadog          54.174
wiz              3.139
vanta            44.198
cloudhealth      52.70
cloudzero        18.220
databricks       44.234
customer-office  62.96
travel-jp        126.117
travel-es        88.27
digitalocean     167.99 64.227 143.198
hetzner          65.108 95.217
vultr            45.76 149.28
ovh              51.89 54.38
mullvad          185.213 193.32
tor              185.220 199.249
aws-other        3.235 54.210
residential      188.26 5.12 95.25 41.190 102.89
fleet            37.84 176.2
"""
NETWORKS = {
    name: halves.split() for name, halves in read_table(_NETWORKS, columns=2)
}  # first halves of addresses

# --------------------------------------------------------------------------------------------------- names and parameters


class NameForm(NamedTuple):
    """How the names of a placeholder are formed in an account, and the words of which it has names."""

    placeholder: str
    form: str
    words: list[str]


_NAME_FORMS = """
bucket     {customer}-{w}-{env}-{tail}  assets orders exports logs backups invoices media raw curated tfstate
table      {customer}-{w}               orders carts users sessions devices events prices audit
function   {customer}-{env}-{w}         checkout webhook resize notify ingest report authorizer thumbnail
secret     {env}/{w}                    db/main stripe/api sendgrid jwt-signing oauth/google datadog/api-key
    redis erp/login
param      /{customer}/{env}/{w}        db-url feature-flags log-level api-host queue-url cache-ttl
queue      {customer}-{w}               orders emails webhooks dead-letter events
repo       {customer}/{w}               web api worker cron gateway
cluster    {customer}-{env}             main
db         {customer}-{env}-{w}         main reports sessions
role       {customer}-{w}               app-role lambda-exec ecs-task deploy node data-export
loggroup   /aws/{w}/{customer}-{env}    lambda eks containerinsights rds apigateway
stack      {customer}-{env}-{w}         network service database queue
user       {w}                          backup-svc smtp-user deploy report-reader ftp-sync
database   {customer}_{w}               raw curated sales finance
workgroup  {w}                          primary analysts etl
asg        {customer}-{w}-asg           web worker
topic      {customer}-{w}               alarms orders
endpoint   {customer}-{w}               ranker embedder
model      {w}                          anthropic.claude-3-haiku-20240307-v1:0 amazon.titan-embed-text-v2:0
"""
NAME_FORMS = {form.placeholder: form for form in read_rows(NameForm, _NAME_FORMS)}
_REQUESTS = """
s3:GetObject s3:PutObject s3:DeleteObject s3:HeadObject  {"bucketName": "{bucket}", "key": "{object}"}
s3:CopyObject  {"bucketName": "{bucket}", "key": "{object}", "x-amz-copy-source": "{bucket}/{object}"}
s3:ListObjects  {"bucketName": "{bucket}", "prefix": "{prefix}"}
s3:GetBucketPolicy s3:GetBucketAcl s3:GetBucketLocation s3:DeleteBucket s3:GetBucketEncryption  {"bucketName":
    "{bucket}"}
s3:GetBucketVersioning s3:GetBucketPublicAccessBlock s3:CreateBucket s3:DeleteBucketPolicy  {"bucketName":
    "{bucket}"}
s3:PutBucketEncryption  {"bucketName": "{bucket}"}
s3:PutBucketVersioning  {"bucketName": "{bucket}", "VersioningConfiguration": {"Status": "Suspended"}}
s3:PutBucketLifecycle  {"bucketName": "{bucket}", "LifecycleConfiguration": {"Rule": {"Status": "Enabled",
    "Expiration": {"Days": 7}}}}
s3:PutBucketPolicy  {"bucketName": "{bucket}", "bucketPolicy": {"Statement": [{"Effect": "Allow", "Principal":
    {"AWS": "{other}"}}]}}
s3:DeleteObjects  {"bucketName": "{bucket}", "delete": ""}
s3:PutBucketPublicAccessBlock  {"bucketName": "{bucket}", "PublicAccessBlockConfiguration":
    {"BlockPublicPolicy": false}}
dynamodb:GetItem dynamodb:PutItem dynamodb:UpdateItem  {"tableName": "{table}", "key": {"pk":
    "HIDDEN_DUE_TO_SECURITY_REASONS"}}
dynamodb:Query dynamodb:Scan dynamodb:DescribeTable  {"tableName": "{table}"}
dynamodb:ExportTableToPointInTime  {"tableArn": "{arn:dynamodb}table/{table}", "s3Bucket": "{bucket}"}
lambda:Invoke lambda:UpdateFunctionCode20150331v2 lambda:GetFunction20150331v2  {"functionName": "{function}"}
lambda:PublishVersion20150331  {"functionName": "{function}"}
lambda:CreateFunction20150331  {"functionName": "{function}", "role": "{rolearn}", "runtime": "python3.12",
    "handler": "index.handler"}
lambda:AddPermission20150331v2  {"functionName": "{function}", "action": "lambda:InvokeFunction", "principal":
    "*"}
secretsmanager:GetSecretValue secretsmanager:DescribeSecret  {"secretId": "{secret}"}
ssm:GetParameter  {"name": "{param}", "withDecryption": true}
ssm:GetParameters  {"names": ["{param}"]}
ssm:GetParametersByPath  {"path": "/", "recursive": true, "withDecryption": true}
ssm:SendCommand  {"documentName": "AWS-RunShellScript", "instanceIds": ["{instance}"]}
ssm:StartSession  {"target": "{instance}"}
ssm:UpdateInstanceInformation ec2:ModifyInstanceAttribute ec2:GetPasswordData  {"instanceId": "{instance}"}
kms:Decrypt  {"encryptionAlgorithm": "SYMMETRIC_DEFAULT", "encryptionContext": {"SecretARN": "{secret}"}}
kms:GenerateDataKey  {"keyId": "{kms}", "keySpec": "AES_256"}
kms:DescribeKey kms:DisableKey  {"keyId": "{kms}"}
kms:ScheduleKeyDeletion  {"keyId": "{kms}", "pendingWindowInDays": 7}
ec2:StopInstances  {"instancesSet": {"items": [{"instanceId": "{instance}"}]}, "force": false}
ec2:StartInstances ec2:TerminateInstances  {"instancesSet": {"items": [{"instanceId": "{instance}"}]}}
ec2:RunInstances  {"instancesSet": {"items": [{"imageId": "{ami}", "minCount": 1, "maxCount": 1}]},
    "instanceType": "c6i.xlarge"}
ec2:CreateSnapshot  {"volumeId": "{volume}"}
ec2:CreateImage  {"instanceId": "{instance}", "name": "backup-{hex8}"}
ec2:ModifySnapshotAttribute  {"snapshotId": "{snapshot}", "createVolumePermission": {"add": {"items":
    [{"userId": "{other}"}]}}, "attributeType": "CREATE_VOLUME_PERMISSION"}
ec2:ModifyImageAttribute  {"imageId": "{ami}", "launchPermission": {"add": {"items": [{"userId":
    "{other}"}]}}, "attributeType": "launchPermission"}
ec2:AuthorizeSecurityGroupIngress  {"groupId": "{sg}", "ipPermissions": {"items": [{"ipProtocol": "tcp",
    "fromPort": 22, "toPort": 22, "ipRanges": {"items": [{"cidrIp": "10.20.0.0/16"}]}}]}}
ec2:DeleteSnapshot  {"snapshotId": "{snapshot}"}
ec2:DescribeInstanceAttribute  {"instanceId": "{instance}", "attribute": "userData"}
ec2:AssociateIamInstanceProfile  {"iamInstanceProfile": {"name": "{role}"}, "instanceId": "{instance}"}
ec2:CreateFleet  {"CreateFleetRequest": {"Type": "instant", "TargetCapacitySpecification":
    {"TotalTargetCapacity": 1}}}
rds:DescribeDBInstances rds:ModifyDBInstance  {"dBInstanceIdentifier": "{db}"}
rds:CreateDBSnapshot  {"dBInstanceIdentifier": "{db}", "dBSnapshotIdentifier": "{db}-{hex8}"}
rds:ModifyDBSnapshotAttribute  {"dBSnapshotIdentifier": "{db}-{hex8}", "attributeName": "restore",
    "valuesToAdd": ["{other}"]}
rds:DeleteDBInstance  {"dBInstanceIdentifier": "{db}", "skipFinalSnapshot": false}
iam:CreateUser  {"userName": "{user}-{hex4}"}
iam:CreateAccessKey iam:GetUser iam:ListAttachedUserPolicies  {"userName": "{user}"}
iam:AttachUserPolicy  {"userName": "{user}", "policyArn": "arn:aws:iam::aws:policy/AdministratorAccess"}
iam:CreateLoginProfile  {"userName": "{user}", "passwordResetRequired": false}
iam:CreateOpenIDConnectProvider  {"url": "https://auth-{hex4}.example.net", "clientIDList":
    ["sts.amazonaws.com"]}
iam:AttachRolePolicy  {"roleName": "{role}", "policyArn": "arn:aws:iam::aws:policy/AdministratorAccess"}
iam:PutRolePolicy  {"roleName": "{role}", "policyName": "inline"}
iam:PassRole iam:GetRole iam:DeleteRole iam:ListAttachedRolePolicies  {"roleName": "{role}"}
iam:UpdateAccessKey  {"userName": "{user}", "status": "Inactive"}
logs:FilterLogEvents logs:StartQuery logs:DeleteLogGroup logs:DescribeLogStreams  {"logGroupName":
    "{loggroup}"}
logs:CreateLogStream  {"logGroupName": "{loggroup}", "logStreamName": "{uuid}"}
sqs:ReceiveMessage sqs:SendMessage  {"queueUrl": "{queueurl}"}
sns:Publish  {"topicArn": "{arn:sns}{topic}"}
ecr:BatchGetImage  {"repositoryName": "{repo}", "imageIds": [{"imageTag": "main-{hex8}"}]}
ecr:PutImage  {"repositoryName": "{repo}", "imageTag": "main-{hex8}"}
ecr:GetDownloadUrlForLayer ecr:InitiateLayerUpload ecr:CompleteLayerUpload  {"repositoryName": "{repo}"}
eks:DescribeCluster  {"name": "{cluster}"}
eks-auth:AssumeRoleForPodIdentity  {"clusterName": "{cluster}"}
cloudformation:CreateStack cloudformation:UpdateStack cloudformation:DescribeStacks  {"stackName": "{stack}"}
cloudformation:DeleteStack  {"stackName": "{stack}"}
autoscaling:SetDesiredCapacity  {"autoScalingGroupName": "{asg}", "desiredCapacity": 6}
glue:GetTable  {"databaseName": "{database}", "name": "{table}"}
glue:GetPartitions  {"databaseName": "{database}", "tableName": "{table}"}
athena:StartQueryExecution  {"workGroup": "{workgroup}"}
athena:GetQueryResults athena:GetQueryExecution  {"queryExecutionId": "{uuid}"}
sagemaker:CreateTrainingJob  {"trainingJobName": "train-{hex8}"}
sagemaker:InvokeEndpoint  {"endpointName": "{endpoint}"}
bedrock:InvokeModel  {"modelId": "{model}"}
bedrock:InvokeModelWithResponseStream  {"modelId": "anthropic.claude-3-5-sonnet-20241022-v2:0"}
bedrock:PutUseCaseForModelAccess  {"formData": "HIDDEN"}
cloudtrail:StopLogging cloudtrail:DeleteTrail  {"name": "org-trail"}
cloudtrail:PutEventSelectors  {"trailName": "org-trail"}
guardduty:DeleteDetector  {"detectorId": "{hex8}"}
guardduty:CreateFilter  {"action": "ARCHIVE"}
ses:SendRawEmail  {"destinations": ["HIDDEN_DUE_TO_SECURITY_REASONS"]}
ses:CreateEmailIdentity  {"emailIdentity": "billing-{hex4}.example.com"}
iotdata:Publish  {"topic": "fleet/telemetry"}
kinesis:PutRecords  {"streamName": "telemetry"}
firehose:PutRecordBatch  {"deliveryStreamName": "telemetry-archive"}
iot:CreateKeysAndCertificate  {"setAsActive": true}
support:DescribeCases  {"includeResolvedCases": false}
backup:StartBackupJob backup:DeleteRecoveryPoint  {"backupVaultName": "Default"}
servicequotas:GetServiceQuota  {"serviceCode": "ec2", "quotaCode": "L-DB2E81BA"}
sts:DecodeAuthorizationMessage  {}
ce:GetCostAndUsage  {"granularity": "DAILY", "metrics": ["UnblendedCost"]}
organizations:DescribeAccount  {"accountId": "{other}"}
"""
REQUESTS: dict[str, Record] = {
    action: json.loads(request)
    for actions, request in read_table(_REQUESTS, columns=2)
    for action in actions.split()
}
TRUST = '{"Statement":[{"Effect":"Allow","Principal":{%s},"Action":"sts:AssumeRole"}]}'
REQUESTS["iam:UpdateAssumeRolePolicy"] = {
    "roleName": "{role}",
    "policyDocument": TRUST % '"AWS":"arn:aws:iam::{other}:root"',
}
REQUESTS["iam:CreateRole"] = {
    "roleName": "{role}-{hex4}",
    "assumeRolePolicyDocument": TRUST % '"Service":"lambda.amazonaws.com"',
}
_RESOURCES = """
s3:.*Object                           AWS::S3::Object        arn:aws:s3:::{bucket}/{object}
s3:.*Bucket                           AWS::S3::Bucket        arn:aws:s3:::{bucket}
kms:                                  AWS::KMS::Key          {kms}
dynamodb:(Get|Put|Update|Query|Scan)  AWS::DynamoDB::Table   {arn:dynamodb}table/{table}
lambda:Invoke$                        AWS::Lambda::Function  {arn:lambda}function:{function}
bedrock:InvokeModel                   AWS::Bedrock::Model
    arn:aws:bedrock:{region}::foundation-model/{model}
"""
RESOURCES = [  # pattern of actions, type, ARN: what a record's `resources` names
    (re.compile(pattern), kind, arn) for pattern, kind, arn in read_table(_RESOURCES, columns=3)
]
DATA = re.compile(
    r"s3:(\w+Objects?)$|lambda:Invoke$|dynamodb:(Get|Put|Update|Query|Scan|Batch)|sqs:(Re|Se|De)|sns:Publish|"
    r"sagemaker:InvokeEndpoint|bedrock:Invoke|iotdata:|kinesis:Put|firehose:Put|ssmmessages:"
)
READ = re.compile(
    r"(Get|List|Describe|Head|Batch(Get|Check)|Lookup|Search|Query|Scan|Assume|Decrypt|GenerateDataKey|Filter|Invoke|Receive|"
    r"Decode|Simulate|ViewBilling|Check)"
)
_ERRORS = """
AccessDenied  User: {arn} is not authorized to perform: {action} because no identity-based policy allows the
    {action} action
Client.UnauthorizedOperation  You are not authorized to perform this operation.
ThrottlingException  Rate exceeded
Client.RequestLimitExceeded  Request limit exceeded.
NoSuchKey  The specified key does not exist.
Client.VcpuLimitExceeded  You have requested more vCPU capacity than your current vCPU limit allows.
"""
ERRORS = {row[0]: row[1] for row in read_table(_ERRORS, columns=2)}
EVERYDAY_ERRORS = ("AccessDenied", "ResourceNotFoundException", "ThrottlingException", "ValidationException")

# ---------------------------------------------------------------------------------------------------------------- machines


class Machine(NamedTuple):
    """What runs in an account: see the fields of `service_provider.Actor`."""

    name: str
    kind: str
    agent: str
    place: str
    hours: str
    rate: float
    naming: str
    start: str
    pace: float
    tags: list[str]
    scripts: tuple[str, ...]


_SHOP = """
eks-node  role  go  private  busy  40  instance  service:ec2  0.5  ssrf
    ecr:GetAuthorizationToken ecr:BatchGetImage*3 ecr:GetDownloadUrlForLayer*6 | ec2:DescribeInstances
    ec2:DescribeNetworkInterfaces | ssm:UpdateInstanceInformation | ec2:DescribeInstanceTypes
    ec2:DescribeSubnets
karpenter  role  karpenter  private  busy  30  sdk  oidc:eks:karpenter:karpenter  1  -
    ec2:DescribeInstances*2 ec2:DescribeSpotPriceHistory%20 | ec2:DescribeSubnets ec2:DescribeSecurityGroups
    ec2:DescribeImages | ec2:CreateFleet ec2:CreateTags ec2:DescribeInstances*2 | ec2:TerminateInstances |
    sqs:ReceiveMessage*3 sqs:DeleteMessage*2
external-secrets  role  external-secrets  private  steady  48  sdk  oidc:eks:external-secrets:external-secrets  0.3  workload
    secretsmanager:GetSecretValue*3 kms:Decrypt*2 | secretsmanager:DescribeSecret
    secretsmanager:GetSecretValue kms:Decrypt
alb-controller  role  alb  private  steady  24  sdk  oidc:eks:kube-system:alb  0.5  -
    elasticloadbalancing:DescribeLoadBalancers elasticloadbalancing:DescribeTargetGroups
    elasticloadbalancing:DescribeTags | elasticloadbalancing:DescribeTargetHealth*4
    elasticloadbalancing:RegisterTargets%40 elasticloadbalancing:DeregisterTargets%30
orders-app  role  java  private  busy  60  pod  pod  0.4  workload
    s3:GetObject*6 s3:PutObject*3 | dynamodb:GetItem*8 dynamodb:PutItem*3 | sqs:SendMessage*4
    kms:GenerateDataKey | s3:HeadObject*3
catalog-app  role  lambda-js  private  busy  50  sdk  oidc:eks:shop:catalog  0.4  workload
    dynamodb:Query*6 | s3:GetObject*8 | s3:PutObject*2 cloudfront:CreateInvalidation%20
gitlab-deploy  role  cli-linux  gitlab-saas  office:de  6  fixed:gitlab  oidc:gitlab.com  3  ci
    sts:GetCallerIdentity ecr:GetAuthorizationToken ecr:InitiateLayerUpload*4 ecr:CompleteLayerUpload*4
    ecr:PutImage eks:DescribeCluster*2 | sts:GetCallerIdentity eks:DescribeCluster s3:PutObject*15
    cloudfront:CreateInvalidation
AWSServiceRoleForAutoScaling  linked  service  service  busy  8  fixed:AutoScaling  autoscaling  1  -
    ec2:DescribeInstances ec2:DescribeInstanceStatus | ec2:RunInstances ec2:CreateTags |
    ec2:TerminateInstances
"""
_API = """
fn-checkout  role  lambda-js  aws-lambda  busy  60  fixed:checkout  service:lambda  0.3  workload
    dynamodb:GetItem*3 dynamodb:PutItem*2 sqs:SendMessage | logs:CreateLogStream
fn-report  role  lambda-py  aws-lambda  busy  12  fixed:report  service:lambda  0.3  workload
    dynamodb:Query*6 s3:PutObject*2 | athena:StartQueryExecution athena:GetQueryExecution*4
fn-notify  role  lambda-py  aws-lambda  busy  30  fixed:notify  service:lambda  0.3  workload ses
    ses:SendRawEmail*3 | sqs:ReceiveMessage*2 sns:Publish*2 logs:CreateLogStream
fn-auth  role  lambda-js  aws-lambda  busy  40  fixed:auth  service:lambda  0.3  workload
    secretsmanager:GetSecretValue kms:Decrypt | dynamodb:GetItem*4
fn-ingest  role  lambda-py  aws-lambda  busy  40  fixed:ingest  service:lambda  0.3  workload
    s3:GetObject*4 s3:PutObject*3 | kinesis:PutRecords*3 | sqs:ReceiveMessage sqs:DeleteMessage
circleci-deploy  role  circleci  circleci  office:us  5  sdk  oidc:circleci  2  ci
    sts:GetCallerIdentity s3:PutObject*4 cloudformation:DescribeStacks*3 cloudformation:UpdateStack
    lambda:UpdateFunctionCode20150331v2*5 lambda:PublishVersion20150331*4 | sts:GetCallerIdentity
    cloudformation:DescribeStacks*6
pulumi-ci  user  pulumi  circleci  office:us  3  -  -  0.5  ci userkey
    sts:GetCallerIdentity s3:GetObject*2 lambda:GetFunction20150331v2*5 iam:GetRole*5 dynamodb:DescribeTable*3
    lambda:UpdateFunctionCode20150331v2*3 s3:PutObject*2
"""
_LAKE = """
databricks-crossaccount  role  databricks  databricks  busy  30  fixed:databricks  vendor:414351767826  1  vendor
    ec2:DescribeInstances*3 ec2:DescribeVolumes | ec2:RunInstances ec2:CreateTags ec2:DescribeInstances*4 |
    ec2:TerminateInstances ec2:DeleteVolume | ec2:DescribeSpotPriceHistory ec2:RequestSpotInstances
    ec2:DescribeSpotInstanceRequests*3
databricks-instance  role  hadoop  private  busy  50  instance  service:ec2  0.2  ssrf workload
    s3:GetObject*15 s3:PutObject*6 | s3:ListObjects*3 s3:HeadObject*6 s3:GetObject*10 | glue:GetTable*3
    glue:GetPartitions*3
glue-nightly  role  hadoop  aws-lambda  cron:1,2,3,4  4  fixed:GlueJobRunnerSession  service:glue  0.3  workload
    glue:GetTable*5 s3:ListObjects*4 s3:GetObject*60 s3:PutObject*30 glue:BatchCreatePartition*3
airflow  role  boto3  private  steady  40  sdk  service:airflow  0.5  workload
    glue:StartJobRun glue:GetJobRun*5 | s3:ListObjects*2 s3:GetObject*2 | sqs:ReceiveMessage*4 |
    athena:StartQueryExecution athena:GetQueryExecution*3
bi-reader  user  java  customer-office  busy  20  -  -  1  userkey
    athena:StartQueryExecution athena:GetQueryExecution*4 athena:GetQueryResults*3 s3:GetObject*3 |
    glue:GetTable*3
"""
_ML = """
sagemaker-exec  role  sagemaker  aws-lambda  busy  25  fixed:SageMaker  service:sagemaker  1  workload
    s3:GetObject*20 s3:PutObject*4 | sagemaker:CreateTrainingJob sagemaker:DescribeTrainingJob*8
    logs:CreateLogStream | ecr:BatchGetImage ecr:GetDownloadUrlForLayer*4
assistant-api  role  lambda-py  aws-lambda  busy  50  fixed:assistant  service:lambda  0.6  workload llm
    bedrock:InvokeModel*6 | dynamodb:GetItem*3 bedrock:InvokeModel*3 dynamodb:PutItem |
    sagemaker:InvokeEndpoint*4
trainer  user  boto3  us  office:us  5  -  -  3  userkey llm
    s3:ListObjects*3 s3:GetObject*10 | sagemaker:CreateTrainingJob sagemaker:DescribeTrainingJob*6 |
    s3:PutObject*5
gitlab-deploy  role  cli-linux  gitlab-saas  office:us  4  fixed:gitlab  oidc:gitlab.com  3  ci
    sts:GetCallerIdentity ecr:GetAuthorizationToken ecr:InitiateLayerUpload*3 ecr:PutImage
    sagemaker:DescribeEndpoint
"""
_IOT = """
device-role  role  iot-device  fleet  steady  120  device  service:credentials.iot  2  fleet
    iotdata:Publish*4 | s3:PutObject*2 | kinesis:PutRecords*3 | iotdata:GetThingShadow
    iotdata:UpdateThingShadow
provisioner  role  lambda-py  aws-lambda  busy  12  fixed:provision  service:lambda  0.5  workload
    iot:DescribeThing iot:CreateKeysAndCertificate iot:AttachPolicy iot:AttachThingPrincipal |
    iot:DescribeThing*3
firehose-archive  role  service  service  steady  60  fixed:firehose  service:firehose  1  -
    s3:PutObject*4 kms:GenerateDataKey
firmware-publisher  user  cli-linux  customer-office  weekly:2@9  1  -  -  4  userkey
    sts:GetCallerIdentity s3:PutObject*6 iot:CreateJob iot:DescribeJob*4
"""
_LEGACY = """
app-server  role  boto3  private  busy  50  instance  service:ec2  1  ssrf workload
    s3:GetObject*4 s3:PutObject*2 | ssm:GetParameter*2 kms:Decrypt | sqs:ReceiveMessage*3 | s3:ListObjects
backup-svc  user  boto3  customer-office  cron:22  1  -  -  2  userkey
    ec2:DescribeInstances ec2:DescribeVolumes ec2:CreateSnapshot*8 ec2:CreateTags*8 ec2:DescribeSnapshots
    ec2:DeleteSnapshot*6
smtp-user  user  boto3  customer-office  busy  20  -  -  2  userkey ses
    ses:SendRawEmail*6 | ses:GetSendQuota
ftp-sync  user  cli-linux  customer-office  cron:0,6,12,18  4  -  -  1  userkey
    s3:ListObjects*3 s3:GetObject*10 s3:PutObject*8
old-admin  user  cli-win  customer-office  office:us  0.6  -  -  8  userkey
    ec2:DescribeInstances ec2:StartInstances%40 ec2:StopInstances%30 | s3:ListBuckets s3:ListObjects*2 |
    rds:DescribeDBInstances
ansible  user  ansible  hub-nat  cron:5  1  -  -  1  userkey ci
    sts:GetCallerIdentity ec2:DescribeInstances*4 ec2:DescribeTags ssm:SendCommand*5
    ssm:GetCommandInvocation*10
"""
_TOOLING = """
gitlab-runner  role  cli-linux  private  office:de  15  instance  service:ec2  2  ssrf workload
    ecr:GetAuthorizationToken ecr:BatchGetImage*4 | s3:GetObject*4 s3:PutObject*2 | ssm:GetParameter*3
grafana  role  go  private  busy  40  sdk  service:ec2  1  -
    cloudwatch:GetMetricData*5 | logs:StartQuery logs:GetQueryResults*3 | cloudwatch:ListMetrics
renovate  user  boto3  hub-nat  cron:6  1  -  -  2  userkey ci
    ecr:DescribeImages*8 codeartifact:GetPackageVersion*4
cert-bot  user  boto3  hub-nat  weekly:0@3  1  -  -  3  -
    route53:ListHostedZones route53:ChangeResourceRecordSets*2 route53:GetChange*6 acm:ImportCertificate
invoice-export  role  lambda-py  aws-lambda  cron:3  1  fixed:invoice-export  service:lambda  1  workload
    ce:GetCostAndUsage*12 organizations:ListAccounts s3:PutObject*4 ses:SendRawEmail%50
"""
_HUB = """
jumphost  role  cli-linux  hub-nat  shift:in  6  instance  service:ec2  6  ssrf
    ssm:StartSession ssm:TerminateSession | ec2:DescribeInstances ssm:DescribeInstanceInformation |
    ssm:GetParameter
"""
MACHINES = {  # by kind of account
    "shop": read_rows(Machine, _SHOP),
    "api": read_rows(Machine, _API),
    "lake": read_rows(Machine, _LAKE),
    "ml": read_rows(Machine, _ML),
    "iot": read_rows(Machine, _IOT),
    "legacy": read_rows(Machine, _LEGACY),
    "tooling": read_rows(Machine, _TOOLING),
    "hub": read_rows(Machine, _HUB),
}
_AT_CUSTOMERS = """
DatadogIntegrationRole  role  datadog  datadog  steady  20  fixed:DatadogAWSIntegration  vendor:464622532012  0.3  vendor
    cloudwatch:GetMetricData*4 tagging:GetResources | ec2:DescribeInstances ec2:DescribeVolumes
    rds:DescribeDBInstances lambda:ListFunctions20150331 | elasticloadbalancing:DescribeLoadBalancers
    sqs:ListQueues health:DescribeEvents
WizAccess-Role  role  wiz  wiz  cron:3,11,19  3  fixed:WizScanner  vendor:830522659852  0.2  vendor
    iam:ListUsers iam:ListRoles iam:ListAttachedRolePolicies*12 s3:ListBuckets s3:GetBucketPolicy*6
    s3:GetBucketEncryption*6 s3:GetBucketPublicAccessBlock*6 ec2:DescribeInstances ec2:DescribeSecurityGroups
    ec2:DescribeSnapshots kms:ListKeys kms:DescribeKey*4 lambda:ListFunctions20150331 rds:DescribeDBInstances
    eks:ListClusters
vanta-auditor  role  vanta  vanta  cron:7  1  fixed:vanta  vendor:956993596390  0.4  vendor
    iam:GenerateCredentialReport iam:GetCredentialReport iam:ListUsers iam:GetAccountPasswordPolicy
    cloudtrail:DescribeTrails guardduty:ListDetectors s3:ListBuckets s3:GetBucketEncryption*5
    rds:DescribeDBInstances ec2:DescribeVpcs
CloudHealth  role  cloudhealth  cloudhealth  cron:5,17  2  fixed:cloudhealth  vendor:454464851268  0.3  vendor
    ec2:DescribeInstances ec2:DescribeReservedInstances ec2:DescribeVolumes ec2:DescribeSnapshots
    rds:DescribeDBInstances s3:ListBuckets s3:GetBucketLocation*5 cloudwatch:GetMetricStatistics*8
    ce:GetCostAndUsage*2
tfc-agent  role  terraform  tfc  office:de  2  fixed:terraform-run  oidc:tfc  0.2  ci
    sts:GetCallerIdentity s3:GetObject ec2:DescribeVpcs ec2:DescribeSubnets ec2:DescribeSecurityGroups*3
    iam:GetRole*6 iam:ListAttachedRolePolicies*6 s3:GetBucketPolicy*4 s3:GetBucketVersioning*4
    kms:DescribeKey*2 rds:DescribeDBInstances ec2:CreateTags%30 iam:PutRolePolicy%10
    ec2:AuthorizeSecurityGroupIngress%10 s3:PutBucketPolicy%5 s3:PutObject
SSMPatching  role  ssm-agent  private  cron:2  3  instance  service:ec2  2  -
    ssm:UpdateInstanceInformation*2 ssm:GetDeployablePatchSnapshotForInstance ssm:PutInventory
    ssm:PutComplianceItems*2 s3:GetObject*3
"""
AT_CUSTOMERS = read_rows(Machine, _AT_CUSTOMERS)
_AWS_ROLES = """
AWSServiceRoleForConfig  linked  service  service  steady  10  fixed:AWSConfig-Describe  config  0.5  -
    ec2:DescribeInstances ec2:DescribeSecurityGroups s3:ListBuckets s3:GetBucketPolicy*3 iam:ListRoles |
    rds:DescribeDBInstances lambda:ListFunctions20150331
AWSServiceRoleForBackup  linked  service  service  cron:4  1  fixed:AWSBackup-AWSServiceRoleForBackup  backup  2  -
    rds:CreateDBSnapshot*2 ec2:CreateSnapshot*4 ec2:DescribeSnapshots*3 ec2:CreateTags*3
ec2.amazonaws.com  service  service  service  busy  6  -  ec2  1  -
    kms:Decrypt kms:GenerateDataKey%30
"""
AWS_ROLES = read_rows(Machine, _AWS_ROLES)  # in every account

# ------------------------------------------------------------------------------------------------------------------ people


def _scripts(text: str) -> tuple[str, ...]:
    return tuple(script for (script,) in read_table(text, columns=1))


_SUPPORT = """
ec2:DescribeInstances*3 ec2:DescribeInstanceStatus*2 cloudwatch:GetMetricData*4 ssm:StartSession
    ssm:TerminateSession
logs:DescribeLogStreams*2 logs:FilterLogEvents*6
rds:DescribeDBInstances*3 rds:DescribeEvents cloudwatch:GetMetricStatistics*4 rds:ModifyDBInstance%20
s3:ListBuckets s3:GetBucketPolicy*2 s3:ListObjects*3 s3:GetObject*2
lambda:ListFunctions20150331 lambda:GetFunction20150331v2*2 logs:StartQuery*2 logs:GetQueryResults*3
ec2:DescribeSecurityGroups*3 ec2:AuthorizeSecurityGroupIngress%60 ec2:RevokeSecurityGroupIngress%30
autoscaling:DescribeAutoScalingGroups*2 autoscaling:SetDesiredCapacity%50 ec2:DescribeInstances*3
iam:GetUser iam:ListAccessKeys iam:CreateAccessKey%20 iam:UpdateAccessKey%20 iam:ListMFADevices
ec2:StopInstances%50 ec2:StartInstances%50 ec2:DescribeInstances*4 ec2:CreateSnapshot%30
ssm:SendCommand*3 ssm:GetCommandInvocation*6 ssm:DescribeInstanceInformation
"""
SUPPORT = _scripts(_SUPPORT)  # what a ticket asks for, in a customer's account
_PLATFORM = """
eks:DescribeCluster*2 eks:ListNodegroups ec2:DescribeInstances*2 logs:StartQuery logs:GetQueryResults*3
cloudformation:DescribeStacks*3 cloudformation:UpdateStack%40 cloudformation:DescribeStackEvents*4
iam:GetRole*3 iam:ListAttachedRolePolicies*2 iam:PutRolePolicy%25 iam:SimulatePrincipalPolicy%20
secretsmanager:ListSecrets secretsmanager:DescribeSecret*2 secretsmanager:GetSecretValue%30
ec2:DescribeVpcs ec2:DescribeRouteTables*2 ec2:DescribeSubnets*2 ec2:CreateTags%30
s3:ListBuckets s3:GetBucketVersioning*3 s3:PutBucketLifecycle%15 s3:GetBucketPolicy*2
rds:DescribeDBInstances*2 rds:CreateDBSnapshot%30 rds:DescribeDBSnapshots*2
"""
PLATFORM = _scripts(_PLATFORM)
_DEVELOPER = """
logs:DescribeLogStreams*2 logs:FilterLogEvents*5 cloudwatch:GetMetricData*3
s3:ListBuckets s3:ListObjects*4 s3:GetObject*6
dynamodb:DescribeTable*2 dynamodb:Query*4 dynamodb:Scan%20
lambda:ListFunctions20150331 lambda:GetFunction20150331v2*3 lambda:Invoke*2
ecr:DescribeImages*3 eks:DescribeCluster*2
secretsmanager:GetSecretValue%60 ssm:GetParameter*2
sqs:ListQueues sqs:GetQueueAttributes*4 sqs:ReceiveMessage%30
"""
DEVELOPER = _scripts(_DEVELOPER)
_ANALYST = """
athena:StartQueryExecution*3 athena:GetQueryExecution*6 athena:GetQueryResults*4
glue:GetDatabases glue:GetTable*4 glue:GetPartitions*2
s3:ListObjects*3 s3:GetObject*8
sagemaker:ListTrainingJobs sagemaker:DescribeTrainingJob*3 s3:GetObject*4
"""
ANALYST = _scripts(_ANALYST)
_SECURITY = """
guardduty:ListDetectors guardduty:ListFindings*2 guardduty:GetFindings*3
cloudtrail:LookupEvents*6 iam:ListUsers iam:ListRoles
iam:GenerateCredentialReport iam:GetCredentialReport iam:ListAccessKeys*4
securityhub:GetFindings*4 config:DescribeComplianceByConfigRule
"""
SECURITY = _scripts(_SECURITY)
FINANCE = (
    "ce:GetCostAndUsage*6 ce:GetCostForecast",
    "organizations:ListAccounts organizations:DescribeAccount*4",
    "budgets:ViewBudget*3",
)
CONSOLE = "signin:ConsoleLogin health:DescribeEventAggregates notifications:ListNotificationHubs ce:GetCostAndUsage%30"


class Team(NamedTuple):
    """People of the provider: how many, the role they enter by, their zones, what they do, visits a day."""

    name: str
    people: int
    role: str
    zones: tuple[str, ...]
    scripts: tuple[str, ...]
    rate: float


TEAMS = (
    Team("support", 14, "msp-support", ("us", "in", "ph", "gb"), SUPPORT, 4.0),
    Team("platform", 12, "msp-platform", ("de", "gb", "pl"), PLATFORM, 3.0),
    Team("data", 4, "msp-data", ("de", "us"), ANALYST + PLATFORM[5:], 3.0),
    Team("security", 4, "msp-security", ("de", "us"), SECURITY, 2.5),
)
_FIRST_NAMES = """
ana bo carl dee eva finn gita hugo ines jan kavi lena marco nia omar pia quinn rosa sam tara uma vik wen yara
zoe
"""
FIRST_NAMES = _FIRST_NAMES.split()
_LAST_NAMES = """
abreu berg costa dutta evans frank gomez haas iyer jung kumar lopez meyer novak ortiz patel reyes santos
"""
LAST_NAMES = _LAST_NAMES.split()
# ----------------------------------------------------------------------------------------- what is unusual, and harmless

INCIDENT = (
    "cloudtrail:LookupEvents*30 iam:ListUsers iam:ListAccessKeys*8 iam:UpdateAccessKey*2 ec2:DescribeInstances*8 "
    "ec2:CreateSnapshot*3 ec2:ModifyInstanceAttribute*2 ec2:DescribeNetworkInterfaces*4 guardduty:GetFindings*6"
)
AUDIT = " ".join(
    (
        *next(row.scripts for row in AT_CUSTOMERS if row.name == "WizAccess-Role"),
        "iam:ListAttachedUserPolicies*10 ec2:DescribeVpcs cloudtrail:GetTrailStatus*3 kms:GetKeyRotationStatus*6",
    )
)
STORM = (
    "ec2:CreateFleet*60!Client.RequestLimitExceeded ec2:DescribeInstances*120 ec2:CreateFleet*40 ec2:CreateTags*40 "
    "ec2:TerminateInstances*25"
)
BUILD = (  # an account
    "ec2:CreateVpc ec2:CreateSubnet*6 ec2:CreateRouteTable*3 iam:CreateRole*14 iam:AttachRolePolicy*14 iam:PutRolePolicy*8 "
    "s3:CreateBucket*6 s3:PutBucketPolicy*6 s3:PutBucketEncryption*6 kms:CreateKey*3 eks:CreateCluster eks:DescribeCluster*20 "
    "iam:CreateOpenIDConnectProvider rds:CreateDBInstance secretsmanager:CreateSecret*5 cloudtrail:CreateTrail "
    "cloudtrail:StartLogging guardduty:CreateDetector ecr:CreateRepository*5"
)
HAND_OVER = (  # its data to a customer who leaves
    "ec2:CreateSnapshot*4 ec2:ModifySnapshotAttribute*3 rds:CreateDBSnapshot*2 rds:ModifyDBSnapshotAttribute "
    "s3:PutBucketPolicy*2"
)
EMPTY = (  # the account afterwards
    "rds:DeleteDBInstance*2 ec2:TerminateInstances*6 cloudformation:DeleteStack*4 iam:DeleteRole*8 s3:DeleteBucket*5 "
    "logs:DeleteLogGroup*4 kms:ScheduleKeyDeletion*2"
)
ROOT = "signin:ConsoleLogin account:GetContactInformation ce:GetCostAndUsage*3 support:DescribeCases"

# ----------------------------------------------------------------------------------------------------------------- attacks


class Attack(NamedTuple):
    """A kind of attack: how many, whose credentials, tools, networks, pace, and the scripts of which each takes one."""

    kind: str
    how_many: int
    victims: str  # a tag
    agents: list[str]  # `own` is the victim's
    places: list[str]
    pace: float  # seconds between two calls
    spread: str  # regions, days, accounts, console, usual
    scripts: tuple[str, ...]


MINE = (  # coins
    "servicequotas:GetServiceQuota ec2:DescribeInstanceTypeOfferings ec2:DescribeVpcs ec2:DescribeSubnets "
    "ec2:CreateSecurityGroup ec2:AuthorizeSecurityGroupIngress ec2:CreateKeyPair "
    "ec2:RunInstances*4!Client.VcpuLimitExceeded ec2:RunInstances*5"
)
_ATTACKS = """
ci_key_cloud_host  3  ci  trufflehog cli-vps boto3-vps pacu  digitalocean hetzner vultr  3  -
    sts:GetCallerIdentity iam:ListUsers! iam:ListAttachedUserPolicies! s3:ListBuckets ec2:DescribeInstances
    s3:GetBucketLocation*8 s3:ListObjects*10 s3:GetObject*40 secretsmanager:ListSecrets
    secretsmanager:GetSecretValue*5 | sts:GetCallerIdentity iam:GetUser! iam:ListRoles! ses:GetSendQuota!
    ec2:DescribeRegions ec2:DescribeInstances*6 lambda:ListFunctions20150331 lambda:GetFunction20150331v2*8
    ssm:DescribeParameters! dynamodb:ListTables | sts:GetCallerIdentity s3:ListBuckets s3:GetBucketAcl*6
    s3:ListObjects*12 s3:GetObject*25
stolen_laptop  4  laptop  own  residential mullvad  9  -
    sts:GetCallerIdentity s3:ListBuckets s3:ListObjects*8 s3:GetObject*30 secretsmanager:ListSecrets
    secretsmanager:GetSecretValue*4 | sts:GetCallerIdentity iam:ListRoles iam:ListUsers
    ec2:DescribeInstances*3 ssm:DescribeInstanceInformation ssm:SendCommand*4 ssm:GetCommandInvocation*4
    ssm:GetParametersByPath*2
ssrf_instance  3  ssrf  cli-kali boto3-vps cli-vps  mullvad ovh tor  4  -
    sts:GetCallerIdentity s3:ListBuckets s3:ListObjects*12 s3:GetObject*60 | sts:GetCallerIdentity
    iam:ListAttachedRolePolicies! ec2:DescribeInstances ec2:DescribeSnapshots s3:ListBuckets!
    secretsmanager:ListSecrets! ssm:DescribeParameters ssm:GetParameter*10 ecr:DescribeRepositories
phished_sso  3  ssoperson  chrome-win edge-win  residential mullvad  14  console
    signin:ConsoleLogin health:DescribeEventAggregates notifications:ListNotificationHubs
    ce:GetCostAndUsage%30 iam:ListUsers iam:ListRoles ec2:DescribeInstances*3 s3:ListBuckets s3:ListObjects*5
    s3:GetObject*12 secretsmanager:ListSecrets secretsmanager:GetSecretValue*4 cloudshell:CreateEnvironment
    cloudshell:CreateSession | signin:ConsoleLogin health:DescribeEventAggregates
    notifications:ListNotificationHubs ce:GetCostAndUsage%30 iam:ListAccountAliases iam:ListUsers
    iam:CreateUser! iam:CreateAccessKey! rds:DescribeDBInstances*2 rds:DescribeDBSnapshots*2
    rds:CreateDBSnapshot ec2:DescribeSnapshots
vendor_role  2  vendor  boto3-vps go-vps  digitalocean aws-other ovh  2  -
    sts:GetCallerIdentity s3:ListBuckets s3:ListObjects*8! ec2:DescribeSnapshots
    ec2:DescribeInstanceAttribute*15 iam:ListUsers iam:ListRoles lambda:ListFunctions20150331
    lambda:GetFunction20150331v2*10 | ec2:DescribeInstances ec2:DescribeInstanceAttribute*12
    ssm:DescribeParameters ssm:GetParameter*8! s3:ListBuckets s3:GetObject*20 dynamodb:ListTables
insider_bulk  2  insider  own  own  2  -
    s3:ListBuckets s3:ListObjects*15 s3:GetObject*320 | dynamodb:ListTables dynamodb:DescribeTable*6
    dynamodb:Scan*60 s3:GetObject*120 | secretsmanager:ListSecrets secretsmanager:GetSecretValue*30
    ssm:GetParametersByPath*6 ssm:GetParameter*30
insider_leaving  2  insider  own  own  6  -
    ecr:DescribeRepositories ecr:BatchGetImage*12 ecr:GetDownloadUrlForLayer*25 s3:ListObjects*6
    s3:GetObject*80 lambda:GetFunction20150331v2*15 iam:CreateAccessKey | s3:ListObjects*8 s3:GetObject*60
    s3:DeleteObject*40 cloudformation:DeleteStack*2 logs:DeleteLogGroup*3
cryptomining  2  userkey  boto3-vps go-vps cli-vps  hetzner vultr residential  2  regions
    sts:GetCallerIdentity ec2:DescribeRegions ec2:DescribeInstances {mine} | sts:GetCallerIdentity
    iam:CreateServiceLinkedRole ecs:CreateCluster ecs:RegisterTaskDefinition*2 ecs:CreateService*2 {mine} |
    ec2:DescribeAccountAttributes {mine} ec2:ModifyInstanceAttribute*4
ransom  3  workload  s3browser boto3-vps cli-kali  mullvad tor ovh  0.8  -
    s3:ListBuckets s3:ListObjects*6 s3:GetObject*60 s3:CopyObject*120 s3:PutObject*2 | s3:ListBuckets
    s3:GetBucketVersioning*5 s3:PutBucketVersioning*4 s3:ListObjects*6 s3:DeleteObjects*40 s3:PutObject*3 |
    s3:ListBuckets s3:GetBucketPolicy*4 s3:PutBucketLifecycle*5 s3:PutObject*4 | kms:ListKeys
    kms:DescribeKey*4 kms:ScheduleKeyDeletion*3 kms:DisableKey*2 backup:DeleteRecoveryPoint*6! s3:PutObject*2
persistence  3  admin  cli-kali boto3-vps own  mullvad digitalocean residential  7  -
    sts:GetCallerIdentity iam:CreateUser iam:AttachUserPolicy iam:CreateAccessKey iam:CreateLoginProfile |
    iam:ListRoles iam:GetRole*3 iam:UpdateAssumeRolePolicy*2 iam:AttachRolePolicy |
    iam:CreateOpenIDConnectProvider iam:CreateRole iam:AttachRolePolicy lambda:CreateFunction20150331
    lambda:AddPermission20150331v2 events:PutRule events:PutTargets
evasion  2  admin  boto3-vps cli-kali  vultr mullvad  5  -
    cloudtrail:DescribeTrails cloudtrail:GetTrailStatus cloudtrail:StopLogging! cloudtrail:PutEventSelectors
    guardduty:ListDetectors guardduty:CreateFilter config:StopConfigurationRecorder | guardduty:ListDetectors
    guardduty:DeleteDetector! cloudtrail:DeleteTrail! logs:DeleteLogGroup*4 ec2:DeleteFlowLogs*2
secrets  2  workload  own pacu boto3-vps  aws-other private digitalocean  2  -
    secretsmanager:ListSecrets secretsmanager:GetSecretValue*14 kms:Decrypt*10 ssm:DescribeParameters
    ssm:GetParameter*20 | ssm:GetParametersByPath*4 secretsmanager:ListSecrets!
    secretsmanager:GetSecretValue*8 secretsmanager:GetSecretValue*6!
share  2  admin  own cli-vps  residential ovh  10  -
    ec2:DescribeVolumes ec2:CreateSnapshot*3 ec2:DescribeSnapshots*3 ec2:ModifySnapshotAttribute*3 |
    ec2:DescribeInstances ec2:CreateImage*2 ec2:DescribeImages*3 ec2:ModifyImageAttribute*2 |
    rds:DescribeDBInstances rds:CreateDBSnapshot rds:DescribeDBSnapshots*4 rds:ModifyDBSnapshotAttribute
slow_enum  2  userkey  own cli-vps  aws-other digitalocean  14000  days
    sts:GetCallerIdentity iam:ListUsers s3:ListBuckets ec2:DescribeInstances iam:ListRoles
    lambda:ListFunctions20150331 rds:DescribeDBInstances secretsmanager:ListSecrets kms:ListKeys
    iam:GetAccountAuthorizationDetails! dynamodb:ListTables
passrole  2  workload  cli-kali boto3-vps  digitalocean mullvad  8  -
    sts:GetCallerIdentity iam:ListRoles iam:ListAttachedRolePolicies*6 lambda:CreateFunction20150331*2!
    lambda:CreateFunction20150331 lambda:Invoke*2 lambda:DeleteFunction20150331 | iam:ListInstanceProfiles
    ec2:RunInstances*2! ec2:RunInstances ec2:AssociateIamInstanceProfile ssm:SendCommand*3
llm_jacking  2  llm  boto3-vps go-vps  hetzner ovh  4  -
    bedrock:GetModelInvocationLoggingConfiguration bedrock:ListFoundationModels!
    bedrock:InvokeModel*3!ValidationException bedrock:InvokeModelWithResponseStream*90 |
    bedrock:ListFoundationModels bedrock:PutUseCaseForModelAccess bedrock:InvokeModel*5!AccessDenied
    bedrock:InvokeModel*70
ses_abuse  2  ses  boto3-vps  digitalocean ovh  2  -
    ses:GetSendQuota ses:ListIdentities ses:GetAccount ses:SendRawEmail*3!MessageRejected
    ses:CreateEmailIdentity*2 ses:SendRawEmail*90
lateral  2  hub  own cli-kali  mullvad residential  12  accounts
    sts:GetCallerIdentity iam:ListAttachedRolePolicies*2 s3:ListBuckets secretsmanager:ListSecrets
    secretsmanager:GetSecretValue*3
quiet_theft  5  quiet  own  own aws-other residential  20  -
    s3:ListObjects*2 s3:GetObject*8 | s3:GetObject*5 | secretsmanager:GetSecretValue*3 | dynamodb:Scan*3 |
    ec2:DescribeInstances*2 ssm:GetParameter*4
mimic  6  laptop  own  own residential  15  usual
    -
"""
ATTACKS = read_rows(Attack, _ATTACKS.replace("{mine}", MINE))
