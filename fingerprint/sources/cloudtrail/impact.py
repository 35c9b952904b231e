"""What AWS actions can do: stop the audit log, create credentials, open data, delete it ...; by a table, then by the verb.

Example:
    >>> impact_of("cloudtrail", "StopLogging", "")
    CallImpact(gravity='severe', effect='stops or weakens the audit log', tactic='Defense Evasion', technique='T1562.008')
    >>> impact_of("s3", "GetBucketPolicy", "").gravity, impact_of("newservice", "PutResourcePolicy", "").gravity
    ('none', 'notable')

Four degrees, each by what undoing it takes:

- severe: blinds the defenders, or hands credentials, data or the account to an outsider;
- grave: makes it easy to stay, to become more, to lose data or to spend money;
- notable: one step of that which everyday work knows too: reading a secret, running a command, changing a policy;
- minor: any other write. Reads that only look around are none.

Techniques are MITRE ATT&CK's (v15), chosen by hand from its descriptions of Cloud techniques and from data/attack_tactics. An
action that no line names is judged by the words of its name (`_by_name`), so a service that AWS makes tomorrow is judged too.
What the request says can lower or raise an action (`impact_requests`): a bucket policy for everybody is severe, one that names
no outsider is not.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from fingerprint.core.alert import GRAVITIES, Gravity
from fingerprint.sources.base import NO_IMPACT, CallImpact
from fingerprint.sources.cloudtrail.action_verbs import changes_something, without_batch
from fingerprint.sources.cloudtrail.attack_mappings import mapped_tactics, without_api_version
from fingerprint.sources.cloudtrail.impact_requests import adjust_gravity, quota_of, reads_only

_QUOTA = "asks for a higher quota"


class _Effect(NamedTuple):
    """Actions with one effect; `actions` are `service:Action Action ... service:Action`."""

    gravity: Gravity
    effect: str
    tactic: str
    technique: str
    actions: str


_EFFECTS = (
    # --- the defenders' eyes
    _Effect(
        "severe", "stops or weakens the audit log", "Defense Evasion", "T1562.008",
        "cloudtrail:StopLogging DeleteTrail UpdateTrail PutEventSelectors DeleteEventDataStore UpdateEventDataStore "
        "StopEventDataStoreIngestion DeleteChannel DeregisterOrganizationDelegatedAdmin "
        "securitylake:DeleteDataLake DeleteAwsLogSource DeleteCustomLogSource",
    ),
    _Effect(
        "severe", "switches off threat detection", "Defense Evasion", "T1562.001",
        "guardduty:DeleteDetector UpdateDetector DisassociateFromMasterAccount DisassociateFromAdministratorAccount "
        "DeleteMembers DisassociateMembers StopMonitoringMembers DeletePublishingDestination DisableOrganizationAdminAccount "
        "securityhub:DisableOrganizationAdminAccount DisableSecurityHub DisableSecurityHubV2 DisassociateFromMasterAccount "
        "DisassociateFromAdministratorAccount BatchDisableStandards DisableImportFindingsForProduct "
        "macie2:DisableMacie UpdateMacieSession macie:UpdateMacieSession inspector2:Disable detective:DeleteGraph "
        "access-analyzer:DeleteAnalyzer shield:DeleteProtection DisassociateDRTRole",
    ),
    _Effect(
        "severe", "has threat detection trust addresses or hide findings", "Defense Evasion", "T1562.001",
        "guardduty:CreateIPSet UpdateIPSet CreateFilter UpdateFilter CreateTrustedEntitySet UpdateTrustedEntitySet",
    ),
    _Effect(
        "severe", "stops recording of configuration", "Defense Evasion", "T1562.001",
        "config:StopConfigurationRecorder DeleteConfigurationRecorder DeleteDeliveryChannel",
    ),
    _Effect(
        "grave", "removes configuration rules or controls", "Defense Evasion", "T1562.001",
        "config:DeleteConfigRule DeleteConformancePack DeleteOrganizationConfigRule DeleteRetentionConfiguration "
        "DeleteAggregationAuthorization securityhub:UpdateStandardsControl DeleteActionTarget",
    ),
    _Effect(  # an analyst's daily work
        "notable", "changes findings or how they are listed", "Defense Evasion", "T1562.001",
        "securityhub:BatchUpdateFindings BatchUpdateFindingsV2 UpdateFindings UpdateInsight DeleteInsight "
        "guardduty:ArchiveFindings UnarchiveFindings UpdateFindingsFeedback access-analyzer:UpdateFindings "
        "config:DeleteEvaluationResults",
    ),
    _Effect(
        "severe", "stops network or access logs", "Defense Evasion", "T1562.008",
        "ec2:DeleteFlowLogs route53resolver:DeleteResolverQueryLogConfig DisassociateResolverQueryLogConfig "
        "bedrock:DeleteModelInvocationLoggingConfiguration rds:StopActivityStream "
        "eks:UpdateClusterConfig wafv2:DeleteLoggingConfiguration network-firewall:UpdateLoggingConfiguration",
    ),
    _Effect(
        "grave", "deletes logs or alarms", "Defense Evasion", "T1562.008",
        "logs:DeleteLogGroup DeleteLogStream monitoring:DeleteAlarms",
    ),
    _Effect(
        "grave", "deletes what watches or forwards logs", "Defense Evasion", "T1562.008",
        "logs:DeleteSubscriptionFilter DeleteMetricFilter DeleteDestination",
    ),
    _Effect("grave", "silences alarms", "Defense Evasion", "T1562.001", "monitoring:DisableAlarmActions"),
    _Effect("minor", "sets an alarm, or changes when it rings", "", "", "monitoring:PutMetricAlarm PutCompositeAlarm"),
    _Effect("grave", "stops or moves a bucket's access log", "Defense Evasion", "T1562.008", "s3:PutBucketLogging"),
    _Effect(
        "grave", "switches off what reacts to events", "Defense Evasion", "T1562.001",
        "events:DeleteRule DisableRule RemoveTargets",
    ),
    _Effect("grave", "sets how long logs are kept", "Defense Evasion", "T1562.008", "logs:PutRetentionPolicy"),
    _Effect("notable", "ends a subscription to notifications", "Defense Evasion", "T1562.001", "sns:Unsubscribe"),
    _Effect(
        "grave", "weakens a firewall or content filter", "Defense Evasion", "T1562.007",
        "wafv2:DisassociateWebACL DeleteWebACL DeleteRuleGroup UpdateWebACL waf:DeleteWebACL waf-regional:DeleteWebACL "
        "network-firewall:DeleteFirewall DeleteFirewallPolicy DisassociateSubnets bedrock:DeleteGuardrail UpdateGuardrail "
        "cloudfront:DisassociateDistributionWebACL waf-regional:DisassociateWebACL "
        "route53resolver:DisassociateFirewallRuleGroup fms:DeletePolicy",
    ),
    _Effect(
        "severe", "takes the account out of its organisation", "Defense Evasion", "T1666",
        "organizations:LeaveOrganization RemoveAccountFromOrganization DeleteOrganization CloseAccount "
        "account:CloseAccount",
    ),
    _Effect(
        "grave", "loosens the organisation's guard rails", "Defense Evasion", "T1484",
        "organizations:DetachPolicy DeletePolicy UpdatePolicy DisablePolicyType DisableAWSServiceAccess "
        "DeregisterDelegatedAdministrator RegisterDelegatedAdministrator InviteAccountToOrganization AcceptHandshake "
        "CreateAccount MoveAccount controltower:DisableControl DisableBaseline DeleteLandingZone",
    ),
    _Effect("grave", "switches on a region", "Defense Evasion", "T1535", "account:EnableRegion"),
    _Effect(
        "grave", "changes whom AWS warns about the account", "Defense Evasion", "T1562",
        "account:PutAlternateContact DeleteAlternateContact",
    ),
    # --- credentials and rights
    _Effect(
        "severe", "creates a credential that lasts", "Persistence", "T1098.001",
        "iam:CreateAccessKey CreateLoginProfile UpdateLoginProfile CreateServiceSpecificCredential "
        "ResetServiceSpecificCredential UploadSSHPublicKey UploadSigningCertificate "
        "lightsail:CreateBucketAccessKey bedrock:CreateApiKey sso-directory:UpdatePassword CreateBearerToken",
    ),
    _Effect(
        "severe", "lets another identity provider or certificate authority sign people in", "Privilege Escalation", "T1484.002",
        "iam:CreateSAMLProvider UpdateSAMLProvider CreateOpenIDConnectProvider AddClientIDToOpenIDConnectProvider "
        "UpdateOpenIDConnectProviderThumbprint rolesanywhere:CreateTrustAnchor CreateProfile UpdateTrustAnchor "
        "EnableTrustAnchor sso-directory:EnableExternalIdPConfigurationForDirectory sso:CreateTrustedTokenIssuer",
    ),
    _Effect(
        "severe", "changes the root user's e-mail address or password", "Persistence", "T1098",
        "account:StartPrimaryEmailUpdate AcceptPrimaryEmailUpdate signin:EmailUpdated PasswordUpdated "
        "PasswordRecoveryCompleted",
    ),
    _Effect(
        "severe", "creates a user", "Persistence", "T1136.003",
        "iam:CreateUser identitystore:CreateUser sso-directory:CreateUser",
    ),
    _Effect(
        "severe", "changes who may assume a role", "Persistence", "T1098.003", "iam:UpdateAssumeRolePolicy",
    ),
    _Effect(
        "severe", "gives rights to a user or group", "Privilege Escalation", "T1098.003",
        "iam:AttachUserPolicy PutUserPolicy AttachGroupPolicy PutGroupPolicy AddUserToGroup CreatePolicyVersion "
        "SetDefaultPolicyVersion DeleteUserPermissionsBoundary",
    ),
    _Effect(
        "grave", "gives rights to a role", "Privilege Escalation", "T1098.003",
        "iam:AttachRolePolicy PutRolePolicy DeleteRolePermissionsBoundary AddRoleToInstanceProfile "
        "sso:CreateAccountAssignment AttachManagedPolicyToPermissionSet PutInlinePolicyToPermissionSet "
        "AttachCustomerManagedPolicyReferenceToPermissionSet ProvisionPermissionSet CreatePermissionSet "
        "rds:AddRoleToDBCluster AddRoleToDBInstance ec2:AssociateIamInstanceProfile ReplaceIamInstanceProfileAssociation "
        "eks:CreateAccessEntry AssociateAccessPolicy CreatePodIdentityAssociation identitystore:CreateGroupMembership "
        "sso-directory:AddMemberToGroup ssm:CreateActivation",
    ),
    _Effect("grave", "acts as root of another account", "Privilege Escalation", "T1078.004", "sts:AssumeRoot"),
    _Effect(
        "notable", "creates a role or policy", "Persistence", "T1136.003",
        "iam:CreateRole CreatePolicy CreateInstanceProfile CreateGroup CreateServiceLinkedRole",
    ),
    _Effect(
        "grave", "weakens sign-in: second factor or password rules", "Persistence", "T1556.006",
        "iam:DeactivateMFADevice DeleteVirtualMFADevice UpdateAccountPasswordPolicy DeleteAccountPasswordPolicy "
        "sso-directory:DeleteMfaDeviceForUser "
        "cognito-idp:SetUserPoolMfaConfig account:PutChallengeQuestions signin:PasswordRecoveryRequested",
    ),
    _Effect(
        "grave", "takes rights or access from others", "Impact", "T1531",
        "iam:DeleteUser DeleteLoginProfile DeleteAccessKey DetachUserPolicy DetachRolePolicy DeleteRole DeleteRolePolicy "
        "DeleteUserPolicy RemoveUserFromGroup DeleteGroupPolicy DeletePolicyVersion DeleteSAMLProvider "
        "DeleteOpenIDConnectProvider identitystore:DeleteUser sso:DeleteAccountAssignment DeletePermissionSet",
    ),
    _Effect(
        "notable", "adds a second factor", "Persistence", "T1556.006",
        "iam:EnableMFADevice CreateVirtualMFADevice ResyncMFADevice",
    ),
    _Effect("notable", "changes a password or key", "Persistence", "T1098.001", "iam:ChangePassword UpdateAccessKey"),
    _Effect("notable", "renames a user", "Persistence", "T1098", "iam:UpdateUser"),
    _Effect(
        "grave", "changes what code runs, or who may start it", "Persistence", "T1546",
        "lambda:AddPermission CreateFunctionUrlConfig UpdateFunctionUrlConfig AddLayerVersionPermission",
    ),
    _Effect(
        "notable", "changes code or configuration that runs", "Persistence", "T1546",
        "lambda:UpdateFunctionCode UpdateFunctionConfiguration CreateFunction CreateEventSourceMapping PublishLayerVersion "
        "codebuild:CreateProject UpdateProject ecr:PutImage events:PutRule PutTargets scheduler:CreateSchedule "
        "ecs:RegisterTaskDefinition glue:CreateJob UpdateJob CreateDevEndpoint UpdateDevEndpoint "
        "sagemaker:CreateNotebookInstance CreatePresignedNotebookInstanceUrl cloudformation:CreateStack UpdateStack "
        "ec2:CreateLaunchTemplateVersion ssm:CreateAssociation CreateDocument UpdateDocument codebuild:StartBuild "
        "cloudformation:CreateChangeSet ExecuteChangeSet CreateStackSet CreateStackInstances glue:CreateSession "
        "sagemaker:CreatePresignedDomainUrl CreateProcessingJob bedrock-agentcore:CreateCodeInterpreter "
        "states:UpdateStateMachine elasticmapreduce:RunJobFlow cloudfront:CreateFunction UpdateFunction PublishFunction",
    ),
    # --- data that leaves
    _Effect(
        "severe", "opens stored data to outsiders", "Exfiltration", "T1537",
        "ec2:ModifySnapshotAttribute ModifyImageAttribute rds:ModifyDBSnapshotAttribute ModifyDBClusterSnapshotAttribute "
        "redshift:AuthorizeSnapshotAccess s3:PutBucketPolicy PutBucketAcl PutObjectAcl DeleteBucketPublicAccessBlock "
        "PutBucketPublicAccessBlock DeletePublicAccessBlock PutPublicAccessBlock DeleteAccountPublicAccessBlock "
        "PutAccountPublicAccessBlock PutAccessPointPolicy DeleteAccessPointPublicAccessBlock "
        "ec2:DisableSnapshotBlockPublicAccess DisableImageBlockPublicAccess",
    ),
    _Effect(
        "grave", "copies stored data away", "Exfiltration", "T1537",
        "s3:PutBucketReplication rds:StartExportTask CopyDBSnapshot CopyDBClusterSnapshot "
        "ec2:CreateStoreImageTask CreateInstanceExportTask ExportImage datasync:CreateTask CreateLocationS3 "
        "dynamodb:ExportTableToPointInTime backup:StartCopyJob ecr:PutReplicationConfiguration "
        "secretsmanager:ReplicateSecretToRegions",
    ),
    _Effect(
        "grave", "makes a database from a copy", "Collection", "T1530",
        "rds:RestoreDBInstanceFromDBSnapshot RestoreDBInstanceToPointInTime RestoreDBClusterFromSnapshot "
        "RestoreDBClusterToPointInTime",
    ),
    _Effect("grave", "reads a copy of a disk, block by block", "Collection", "T1530", "ebs:GetSnapshotBlock"),
    _Effect(
        "notable", "changes where data are sent", "Exfiltration", "T1020",
        "athena:UpdateWorkGroup firehose:UpdateDestination logs:PutSubscriptionFilter medialive:UpdateChannel",
    ),
    _Effect(
        "grave", "lets others use a resource", "Exfiltration", "T1537",
        "kms:PutKeyPolicy CreateGrant secretsmanager:PutResourcePolicy ecr:SetRepositoryPolicy PutRegistryPolicy "
        "sqs:SetQueueAttributes AddPermission sns:AddPermission SetTopicAttributes ram:CreateResourceShare "
        "AssociateResourceShare dynamodb:PutResourcePolicy es:UpdateElasticsearchDomainConfig UpdateDomainConfig "
        "CreateElasticsearchDomain codebuild:UpdateProjectVisibility logs:PutResourcePolicy PutDestinationPolicy "
        "lakeformation:GrantPermissions BatchGrantPermissions glacier:SetVaultAccessPolicy elasticfilesystem:PutFileSystemPolicy "
        "backup:PutBackupVaultAccessPolicy ssm:ModifyDocumentPermission cloudtrail:PutResourcePolicy",
    ),
    _Effect(  # taking back a single permission only closes, and is minor
        "notable", "deletes a resource's policy, with what it denies", "Defense Evasion", "T1562",
        "s3:DeleteBucketPolicy DeleteAccessPointPolicy ecr:DeleteRepositoryPolicy DeleteRegistryPolicy "
        "secretsmanager:DeleteResourcePolicy dynamodb:DeleteResourcePolicy logs:DeleteResourcePolicy "
        "glacier:DeleteVaultAccessPolicy backup:DeleteBackupVaultAccessPolicy elasticfilesystem:DeleteFileSystemPolicy",
    ),
    _Effect(
        "notable", "copies stored data", "Collection", "T1530",
        "ec2:CreateSnapshot CreateSnapshots CopySnapshot CreateImage CopyImage rds:CreateDBSnapshot CreateDBClusterSnapshot "
        "s3:CopyObject redshift-data:ExecuteStatement dynamodb:CreateBackup rds-data:ExecuteStatement",
    ),
    _Effect("minor", "runs a query on stored data", "Collection", "T1530", "athena:StartQueryExecution"),
    # --- secrets read
    _Effect(
        "notable", "reads a secret or password", "Credential Access", "T1555.006",
        "secretsmanager:GetSecretValue BatchGetSecretValue ec2:GetPasswordData "
        "lightsail:GetInstanceAccessDetails DownloadDefaultKeyPair GetRelationalDatabaseMasterUserPassword",
    ),
    _Effect(
        "notable", "reads a database's log, which may hold passwords", "Credential Access", "T1552",
        "rds:DownloadDBLogFilePortion DownloadCompleteDBLogFile",
    ),
    _Effect(
        "notable", "fetches a temporary password of a database, or signs in to it", "Credential Access", "T1555.006",
        "redshift:GetClusterCredentials GetClusterCredentialsWithIAM redshift-serverless:GetCredentials rds-db:connect",
    ),
    _Effect(  # in plain text: `_IF_GRAVER`
        "minor", "reads a parameter", "Credential Access", "T1555.006",
        "ssm:GetParameter GetParameters GetParametersByPath GetParameterHistory",
    ),
    _Effect("minor", "reads what a key encrypts", "Credential Access", "T1555.006", "kms:Decrypt"),
    _Effect(
        "minor", "fetches a token that signs in to a registry", "Credential Access", "T1528",
        "ecr:GetAuthorizationToken ecr-public:GetAuthorizationToken codeartifact:GetAuthorizationToken",
    ),
    _Effect("minor", "reads a machine's start script", "Credential Access", "T1552", "ec2:DescribeInstanceAttribute"),
    _Effect(
        "notable", "makes temporary credentials", "Defense Evasion", "T1550.001",
        "sts:GetFederationToken GetSessionToken signin:GetSigninToken",
    ),
    _Effect(  # each sign-in through Identity Center makes them
        "minor", "makes temporary credentials", "Defense Evasion", "T1550.001",
        "sso:GetRoleCredentials Federate CreateToken CreateTokenWithIAM sso-oauth:CreateToken CreateTokenWithIAM "
        "signin:CreateOAuth2Token sts:GetWebIdentityToken GetDelegatedAccessToken GetServiceBearerToken",
    ),
    _Effect(
        "minor", "assumes a role", "Privilege Escalation", "T1078.004",
        "sts:AssumeRole AssumeRoleWithSAML AssumeRoleWithWebIdentity cognito-identity:GetCredentialsForIdentity "
        "rolesanywhere:CreateSession iot:AssumeRoleWithCertificate",
    ),
    _Effect(
        "minor", "signs in or out", "Initial Access", "T1078.004",
        "signin:ConsoleLogin CredentialChallenge CredentialVerification UserAuthentication SwitchRole "
        "sso:Authenticate Logout RegisterClient StartDeviceAuthorization sso-oauth:RegisterClient StartDeviceAuthorization",
    ),
    # --- machines
    _Effect(
        "notable", "runs commands on machines", "Execution", "T1651",
        "ssm:SendCommand StartSession ResumeSession StartAutomationExecution ecs:ExecuteCommand "
        "ec2-instance-connect:SendSSHPublicKey SendSerialConsoleSSHPublicKey OpenTunnel "
        "eks:AccessKubernetesApi batch:SubmitJob",
    ),
    _Effect(
        "notable", "starts machines or models", "Impact", "T1496",
        "ec2:RunInstances RequestSpotInstances RequestSpotFleet CreateFleet ecs:CreateCluster CreateService RunTask StartTask "
        "autoscaling:CreateAutoScalingGroup "
        "sagemaker:CreateTrainingJob lightsail:CreateInstances batch:CreateComputeEnvironment gamelift:CreateFleet "
        "bedrock:InvokeModel InvokeModelWithResponseStream Converse",
    ),
    _Effect(
        "notable", "changes a machine: its start script, network, volumes or metadata service", "Execution", "T1059.009",
        "ec2:ModifyInstanceAttribute ReplaceRootVolume CreateReplaceRootVolumeTask DetachVolume AttachVolume "
        "ModifyInstanceMetadataOptions",
    ),
    _Effect(
        "notable", "makes a key that opens machines started with it", "Persistence", "T1098.004",
        "ec2:ImportKeyPair CreateKeyPair",
    ),
    _Effect(
        "notable", "allows serial consoles of machines", "Lateral Movement", "T1021.008", "ec2:EnableSerialConsoleAccess",
    ),
    _Effect("minor", "opens a shell", "Execution", "T1059.009", "cloudshell:CreateEnvironment StartEnvironment CreateSession"),
    _Effect(
        "grave", "opens a network", "Defense Evasion", "T1562.007",
        "ec2:AuthorizeSecurityGroupIngress ModifySecurityGroupRules CreateNetworkAclEntry ReplaceNetworkAclEntry "
        "rds:AuthorizeDBSecurityGroupIngress redshift:AuthorizeClusterSecurityGroupIngress ModifyClusterSubnetGroup",
    ),
    _Effect(
        "notable", "opens the way out of a network", "Defense Evasion", "T1562.007", "ec2:AuthorizeSecurityGroupEgress",
    ),
    _Effect(
        "grave", "gives a domain away", "Impact", "T1565",
        "route53domains:UpdateDomainNameservers RetrieveDomainAuthCode TransferDomain TransferDomainToAnotherAwsAccount "
        "DisableDomainTransferLock",
    ),
    _Effect(
        "notable", "changes routes between networks", "Command and Control", "T1090",
        "ec2:CreateRoute ReplaceRoute AttachInternetGateway CreateVpcPeeringConnection AcceptVpcPeeringConnection "
        "CreateClientVpnEndpoint CreateTrafficMirrorSession CreateTransitGatewayVpcAttachment",
    ),
    _Effect(
        "notable", "changes where a domain's names lead, or what its visitors get", "Impact", "T1565",
        "route53:ChangeResourceRecordSets cloudfront:UpdateDistribution AssociateAlias",
    ),
    # --- data and keys that are lost
    _Effect(
        "severe", "destroys an encryption key", "Impact", "T1486",
        "kms:ScheduleKeyDeletion DeleteImportedKeyMaterial DeleteCustomKeyStore",
    ),
    _Effect("severe", "disables an encryption key: what it encrypts cannot be read", "Impact", "T1486", "kms:DisableKey"),
    _Effect(
        "severe", "removes backups or the way back", "Impact", "T1490",
        "rds:DeleteDBClusterAutomatedBackup DeleteDBInstanceAutomatedBackup DeleteDBClusterSnapshot DeleteDBSnapshot "
        "backup:DeleteRecoveryPoint DeleteBackupVault DeleteBackupPlan DeleteBackupVaultLockConfiguration "
        "DisassociateRecoveryPoint s3:PutBucketVersioning DeleteBucketReplication dynamodb:DeleteBackup "
        "UpdateContinuousBackups fsx:DeleteBackup elasticfilesystem:DeleteReplicationConfiguration "
        "redshift:DeleteClusterSnapshot BatchDeleteClusterSnapshots",
    ),
    _Effect(
        "severe", "deletes stored data", "Impact", "T1485",
        "rds:DeleteDBCluster DeleteDBInstance dynamodb:DeleteTable efs:DeleteFileSystem "
        "elasticfilesystem:DeleteFileSystem redshift:DeleteCluster secretsmanager:DeleteSecret fsx:DeleteFileSystem "
        "ecr:DeleteRepository es:DeleteDomain DeleteElasticsearchDomain",
    ),
    _Effect(  # what is in it has to go first: by calls that are judged by themselves, and data calls may not be logged
        "grave", "deletes a bucket or vault, which is empty", "Impact", "T1485",
        "s3:DeleteBucket s3tables:DeleteTableBucket glacier:DeleteVault",
    ),
    _Effect(
        "notable", "deletes data or machines", "Impact", "T1485",
        "ec2:DeleteSnapshot DeleteVolume DeregisterImage TerminateInstances DeleteVpc s3:DeleteObjects DeleteObject "
        "lambda:DeleteFunction cloudformation:DeleteStack eks:DeleteCluster ecs:DeleteCluster sqs:PurgeQueue DeleteQueue "
        "sns:DeleteTopic codecommit:DeleteRepository route53:DeleteHostedZone kms:DeleteAlias ssm:DeleteParameter "
        "ecr:BatchDeleteImage glue:BatchDeleteTable",
    ),
    _Effect(
        "grave", "sets how long data is kept", "Impact", "T1485",
        "s3:PutBucketLifecycle PutBucketLifecycleConfiguration PutLifecycleConfiguration",
    ),
    _Effect(
        "grave", "changes how data is encrypted", "Impact", "T1486",
        "s3:PutBucketEncryption DeleteBucketEncryption ec2:DisableEbsEncryptionByDefault ModifyEbsDefaultKmsKeyId",
    ),
    _Effect(
        "notable", "changes a database: its password, who reaches it, or its backups", "Impact", "T1565",
        "rds:ModifyDBInstance ModifyDBCluster",
    ),
    _Effect("minor", "writes an object", "", "", "s3:PutObject CreateMultipartUpload"),
    _Effect(
        "notable", "interrupts a service", "Impact", "T1489",
        "ec2:StopInstances RebootInstances rds:StopDBInstance StopDBCluster RebootDBInstance RebootDBCluster "
        "FailoverDBCluster FailoverGlobalCluster ecs:DeleteService autoscaling:DeleteAutoScalingGroup",
    ),
    _Effect(
        "notable", "prepares mail or message abuse", "Impact", "T1496",
        "ses:VerifyEmailIdentity VerifyDomainIdentity CreateEmailIdentity UpdateAccountSendingEnabled PutAccountDetails "
        "DeleteIdentity sns:SetSMSAttributes CreateSMSSandboxPhoneNumber",
    ),
    _Effect(
        "notable", "sends mail or messages", "Impact", "T1496",
        "ses:SendEmail SendRawEmail SendBulkEmail SendTemplatedEmail SendBulkTemplatedEmail SendCustomVerificationEmail "
        "mobiletargeting:SendMessages SendUsersMessages",
    ),
    _Effect("minor", "sends mail or messages", "Impact", "T1496", "sns:Publish"),  # to a topic
    _Effect(
        "notable", "gives the account access to models that are paid by use", "Impact", "T1496",
        "bedrock:PutUseCaseForModelAccess CreateFoundationModelAgreement PutFoundationModelEntitlement",
    ),
    _Effect("notable", _QUOTA, "Impact", "T1496", "servicequotas:RequestServiceQuotaIncrease"),
)  # fmt: skip

# What a call does that its request made graver, where that is another thing than what the action does.
_RANSOM = CallImpact("severe", "encrypts stored data with a key that only the caller has", "Impact", "T1486")
_FOREIGN_KEY = CallImpact("grave", "encrypts stored data with a key of another account", "Impact", "T1486")
_IN_PLAIN_TEXT = CallImpact("notable", "reads a secret or password", "Credential Access", "T1555.006")
_IF_GRAVER = {
    ("s3", action, impact.gravity): impact
    for action in ("PutObject", "CopyObject", "CreateMultipartUpload")
    for impact in (_RANSOM, _FOREIGN_KEY)
} | {
    ("ssm", action, "notable"): _IN_PLAIN_TEXT
    for action in ("GetParameter", "GetParameters", "GetParametersByPath", "GetParameterHistory")
}

# What a call does that its request made less grave, where the harm that the action can do is none that it did.
_IF_MILDER = {
    "opens stored data to outsiders": "changes who may use stored data",
    "lets others use a resource": "changes who may use a resource",
    "opens a network": "changes who reaches a network",
    "removes backups or the way back": "changes how data can be recovered",
    "switches off threat detection": "changes threat detection",
    "has threat detection trust addresses or hide findings": "changes threat detection",
    "stops or weakens the audit log": "changes the audit log",
    "stops network or access logs": "changes what is logged, or who reaches it",
    "stops or moves a bucket's access log": "changes what is logged",
}

_GUARDED_SERVICES = frozenset(
    (
        "iam",
        "organizations",
        "cloudtrail",
        "guardduty",
        "config",
        "securityhub",
        "kms",
        "backup",
        "sso",
        "sso-directory",
        "identitystore",
        "account",
        "access-analyzer",
        "macie2",
        "detective",
        "inspector2",
        "secretsmanager",
        "rolesanywhere",
        "ram",
        "sts",
    )
)
_WATCHING = ("Logging", "LogConfig", "FlowLog", "Detector", "Alarm", "Trail", "Recorder", "Monitoring")
_RECOVERY = ("Backup", "Snapshot", "Recovery", "Replication")
_CREDENTIAL = ("AccessKey", "Credential", "Password", "ApiKey", "LoginProfile", "SSHPublicKey", "AuthToken")
_SHARING = ("Policy", "Permission", "PublicAccess", "Acl", "Grant", "Share", "Access")
_NO_RIGHTS = (
    "ScalingPolicy",
    "LifecyclePolicy",
    "CachePolicy",
    "RequestPolicy",
    "HeadersPolicy",
)  # policies of other things
# What holds data or serves others: the last words of the names of things that are missed where they are deleted.
_SERVES = (
    "Api",
    "App",
    "Application",
    "Broker",
    "Bucket",
    "Channel",
    "Cluster",
    "Database",
    "DBInstance",
    "Distribution",
    "Domain",
    "Endpoint",
    "Environment",
    "FileSystem",
    "Fleet",
    "Function",
    "Gateway",
    "Index",
    "Instance",
    "Instances",
    "Keyspace",
    "LoadBalancer",
    "Queue",
    "Repository",
    "Server",
    "Service",
    "StateMachine",
    "Stream",
    "Table",
    "Volume",
)
_TAKES_AWAY = (
    "Delete",
    "Disable",
    "Stop",
    "Remove",
    "Terminate",
    "Deregister",
    "Disassociate",
    "Purge",
    "Cancel",
)
_GIVES = (
    "Put",
    "Set",
    "Add",
    "Attach",
    "Modify",
    "Update",
    "Create",
    "Authorize",
    "Grant",
    "Share",
    "Import",
    "Reset",
)


def impact_of(service: str, action: str, record: str) -> CallImpact:
    """Return what a call of an action can do; `record` is its JSON text, empty where it is not at hand.

    The verb says whether an unlisted action writes, and the record's own flag that it does not.
    """
    action = without_api_version(action)
    found = listed_actions().get((service, action))
    if found is None:
        found = (
            _by_name(service, without_batch(action)) if action and changes_something(action) else NO_IMPACT
        )
        return NO_IMPACT if found != NO_IMPACT and reads_only(record) else found
    if found.effect == _QUOTA and (more := quota_of(record)):
        return found._replace(effect=f"{_QUOTA} of {more}")
    gravity = adjust_gravity(service, action, found.gravity, record)
    found = _IF_GRAVER.get((service, action, gravity), found)
    if GRAVITIES.index(gravity) < GRAVITIES.index(found.gravity):
        found = found._replace(effect=_IF_MILDER.get(found.effect, found.effect))
    return found if gravity == found.gravity else found._replace(gravity=gravity)


@cache
def listed_actions() -> dict[tuple[str, str], CallImpact]:
    """Return the impact of each (service, action) of the table."""
    found = {}
    for effect in _EFFECTS:
        service = ""
        for word in effect.actions.split():
            service, action = word.split(":") if ":" in word else (service, word)
            found[service, action] = CallImpact(*effect[:4])
    return found


def _by_name(service: str, action: str) -> CallImpact:
    """Return the impact of a write that no line names, by the words of its name and by its service."""
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
    elif (
        action.startswith(_GIVES)
        and any(word in action for word in _SHARING)
        and not action.endswith(_NO_RIGHTS)
    ):
        return CallImpact("notable", "changes who has access", listed or "Privilege Escalation", "T1098")
    if service in _GUARDED_SERVICES:
        return CallImpact("notable", "changes identities, keys or guards", listed, "")
    return CallImpact("minor", "changes something", listed, "")
