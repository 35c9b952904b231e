"""The tables of `impact`: the effect of each AWS action, its gravity, and its attack technique.

Example:
    >>> EFFECTS[0].gravity, EFFECTS[0].actions.split()[:2]
    ('severe', ['cloudtrail:StopLogging', 'DeleteTrail'])

EFFECTS has gravity and effect of an action with an unknown request. The request can make a call graver, with another effect
(GRAVER_EFFECTS), or milder, with an effect that lacks the harm of the action (MILDER_EFFECTS).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeVar

from fingerprint.core.alert import Gravity

Value = TypeVar("Value")

QUOTA = "asks for a higher quota"
TUNNEL = ("opens a tunnel through a machine to another host", "Command and Control", "T1572")
PROTECTED_MACHINE = ("protects a machine from being stopped or terminated", "Defense Evasion", "T1578")
STARTS_MACHINES = "starts machines or models"
COSTLY_MACHINES = "starts machines that cost much: with GPUs, very large ones, or many"
CODE_OF_OTHERS = "runs other code with the rights of a role that is there"
LAYER_OF_OTHERS = "runs a layer of another account with a function's role"
OUTSIDE_INSTANCE = "with an instance's credentials, outside of its networks"
LETS_OTHERS = ("lets others use a resource", "Exfiltration", "T1537")


def listed_calls(actions: str) -> Iterator[tuple[str, str]]:
    """Yield each (service, action) of `service:Action Action ... service:Action`.

    >>> list(listed_calls("iam:CreateUser CreateRole sts:AssumeRole"))
    [('iam', 'CreateUser'), ('iam', 'CreateRole'), ('sts', 'AssumeRole')]
    """
    service = ""
    for word in actions.split():
        service, action = word.split(":") if ":" in word else (service, word)
        yield service, action


def by_call(table: Mapping[str, Value]) -> dict[tuple[str, str], Value]:
    """Return the values of a table by (service, action); the keys of the table have the form that `listed_calls` reads.

    >>> by_call({"iam:CreateUser CreateRole": "makes an identity"})
    {('iam', 'CreateUser'): 'makes an identity', ('iam', 'CreateRole'): 'makes an identity'}
    """
    return {call: value for actions, value in table.items() for call in listed_calls(actions)}


class Effect(NamedTuple):
    """Actions with one effect; `actions` have the form that `listed_calls` reads."""

    gravity: Gravity
    effect: str
    tactic: str
    technique: str
    actions: str

    def calls(self) -> Iterator[tuple[str, str]]:
        """Yield each (service, action)."""
        return listed_calls(self.actions)


EFFECTS = (
    # --- the defenders' eyes
    Effect(
        "severe", "stops or weakens the audit log", "Defense Evasion", "T1562.008",
        "cloudtrail:StopLogging DeleteTrail UpdateTrail PutEventSelectors DeleteEventDataStore UpdateEventDataStore "
        "StopEventDataStoreIngestion DeleteChannel DeregisterOrganizationDelegatedAdmin securitylake:DeleteDataLake "
        "DeleteAwsLogSource DeleteCustomLogSource",
    ),
    Effect(
        "severe", "switches off threat detection", "Defense Evasion", "T1562.001",
        "guardduty:DeleteDetector UpdateDetector DisassociateFromMasterAccount DisassociateFromAdministratorAccount "
        "DeleteMembers DisassociateMembers StopMonitoringMembers DeletePublishingDestination DisableOrganizationAdminAccount "
        "securityhub:DisableOrganizationAdminAccount DeleteMembers DisassociateMembers DisableSecurityHub "
        "DisableSecurityHubV2 DisassociateFromMasterAccount DisassociateFromAdministratorAccount BatchDisableStandards "
        "DisableImportFindingsForProduct macie2:DisableMacie UpdateMacieSession DeleteMember DisassociateMember "
        "DisableOrganizationAdminAccount DisassociateFromMasterAccount DisassociateFromAdministratorAccount "
        "macie:UpdateMacieSession inspector2:Disable DisableDelegatedAdminAccount detective:DeleteGraph "
        "DisableOrganizationAdminAccount access-analyzer:DeleteAnalyzer shield:DeleteProtection DisassociateDRTRole",
    ),
    Effect(
        "severe", "has threat detection trust addresses or hide findings", "Defense Evasion", "T1562.001",
        "guardduty:CreateIPSet UpdateIPSet CreateFilter UpdateFilter CreateTrustedEntitySet UpdateTrustedEntitySet",
    ),
    Effect(
        "severe", "stops recording of configuration", "Defense Evasion", "T1562.001",
        "config:StopConfigurationRecorder DeleteConfigurationRecorder DeleteDeliveryChannel",
    ),
    Effect(
        "grave", "takes an account, a service or findings out of threat detection", "Defense Evasion", "T1562.001",
        "detective:DeleteMembers DisassociateMembership inspector2:DisassociateMember access-analyzer:CreateArchiveRule "
        "UpdateArchiveRule securityhub:CreateAutomationRule CreateAutomationRuleV2 BatchUpdateAutomationRules "
        "UpdateAutomationRuleV2 DeleteFindingAggregator DeleteAggregatorV2 guardduty:DeleteMalwareProtectionPlan "
        "fms:DisassociateAdminAccount shield:DeleteSubscription config:DisassociateResourceTypes "
        "DeleteServiceLinkedConfigurationRecorder DeleteConfigurationAggregator securitylake:DeleteSubscriber "
        "DeregisterDataLakeDelegatedAdministrator DeleteDataLakeOrganizationConfiguration iot:DeleteAccountAuditConfiguration "
        "DeleteScheduledAudit DeleteSecurityProfile DetachSecurityProfile CreateAuditSuppression",
    ),
    Effect(  # switched off: `GRAVER_EFFECTS`
        "notable", "changes threat detection", "Defense Evasion", "T1562.001",
        "guardduty:UpdateMemberDetectors UpdateOrganizationConfiguration securityhub:UpdateOrganizationConfiguration "
        "BatchUpdateStandardsControlAssociations macie2:UpdateMemberSession CreateFindingsFilter UpdateFindingsFilter "
        "UpdateAutomatedDiscoveryConfiguration inspector2:CreateFilter UpdateFilter config:PutConfigurationRecorder "
        "shield:DisableProactiveEngagement",
    ),
    Effect(  # where it is no account of the organisation: `adjust_gravity`
        "notable", "has another account administer threat detection", "Defense Evasion", "T1562.001",
        "guardduty:AcceptInvitation AcceptAdministratorInvitation securityhub:AcceptInvitation "
        "AcceptAdministratorInvitation macie2:AcceptInvitation",
    ),
    Effect(
        "grave", "removes configuration rules or controls", "Defense Evasion", "T1562.001",
        "config:DeleteConfigRule DeleteConformancePack DeleteOrganizationConfigRule DeleteRetentionConfiguration "
        "DeleteAggregationAuthorization securityhub:UpdateStandardsControl DeleteActionTarget DeleteConfigurationPolicy",
    ),
    Effect(  # an analyst's daily work
        "notable", "changes findings or how they are listed", "Defense Evasion", "T1562.001",
        "securityhub:BatchUpdateFindings BatchUpdateFindingsV2 UpdateFindings UpdateInsight DeleteInsight "
        "guardduty:ArchiveFindings UnarchiveFindings UpdateFindingsFeedback access-analyzer:UpdateFindings "
        "config:DeleteEvaluationResults",
    ),
    Effect(
        "severe", "stops network or access logs", "Defense Evasion", "T1562.008",
        "ec2:DeleteFlowLogs route53resolver:DeleteResolverQueryLogConfig DisassociateResolverQueryLogConfig "
        "bedrock:DeleteModelInvocationLoggingConfiguration rds:StopActivityStream eks:UpdateClusterConfig "
        "wafv2:DeleteLoggingConfiguration network-firewall:UpdateLoggingConfiguration route53:DeleteQueryLoggingConfig "
        "waf:DeleteLoggingConfiguration waf-regional:DeleteLoggingConfiguration",
    ),
    Effect(
        "grave", "deletes logs or alarms", "Defense Evasion", "T1562.008",
        "logs:DeleteLogGroup DeleteLogStream monitoring:DeleteAlarms",
    ),
    Effect(
        "grave", "deletes what watches or forwards logs", "Defense Evasion", "T1562.008",
        "logs:DeleteSubscriptionFilter DeleteMetricFilter DeleteDestination DeleteDelivery DeleteDeliverySource "
        "DeleteDeliveryDestination DeleteAccountPolicy redshift:DisableLogging",
    ),
    Effect(
        "grave", "silences alarms", "Defense Evasion", "T1562.001",
        "monitoring:DisableAlarmActions PutAlarmMuteRule ce:DeleteAnomalyMonitor DeleteAnomalySubscription",
    ),
    Effect(
        "notable", "changes what is told to whom, or in which state it is", "Defense Evasion", "T1562.001",
        "monitoring:SetAlarmState StopMetricStreams DeleteMetricStream budgets:DeleteBudget DeleteBudgetAction "
        "DeleteNotification DeleteSubscriber logs:DeleteDataProtectionPolicy support:ResolveCase",
    ),
    Effect(  # switched off: `GRAVER_EFFECTS`
        "minor", "changes what is logged", "Defense Evasion", "T1562.008",
        "elasticloadbalancing:ModifyLoadBalancerAttributes bedrock:PutModelInvocationLoggingConfiguration "
        "iot:SetLoggingOptions SetV2LoggingOptions SetV2LoggingLevel",
    ),
    Effect("notable", "changes the audit log", "Defense Evasion", "T1562.008", "cloudtrail:PutInsightSelectors"),
    Effect("minor", "sets an alarm, or changes when it rings", "", "", "monitoring:PutMetricAlarm PutCompositeAlarm"),
    Effect("grave", "stops or moves a bucket's access log", "Defense Evasion", "T1562.008", "s3:PutBucketLogging"),
    Effect(
        "grave", "switches off what reacts to events", "Defense Evasion", "T1562.001",
        "events:DeleteRule DisableRule RemoveTargets DeactivateEventSource",
    ),
    Effect("grave", "sets how long logs are kept", "Defense Evasion", "T1562.008", "logs:PutRetentionPolicy"),
    Effect("notable", "ends a subscription to notifications", "Defense Evasion", "T1562.001", "sns:Unsubscribe"),
    Effect(
        "grave", "weakens a firewall or content filter", "Defense Evasion", "T1562.007",
        "wafv2:DisassociateWebACL DeleteWebACL DeleteRuleGroup UpdateWebACL waf:DeleteWebACL UpdateWebACL "
        "waf-regional:DeleteWebACL UpdateWebACL DisassociateWebACL network-firewall:DeleteFirewall DeleteFirewallPolicy "
        "DisassociateSubnets bedrock:DeleteGuardrail UpdateGuardrail DeleteEnforcedGuardrailConfiguration "
        "cloudfront:DisassociateDistributionWebACL route53resolver:DisassociateFirewallRuleGroup DeleteFirewallRule "
        "UpdateFirewallConfig fms:DeletePolicy",
    ),
    Effect(
        "severe", "takes the account out of its organisation", "Defense Evasion", "T1666",
        "organizations:LeaveOrganization RemoveAccountFromOrganization DeleteOrganization CloseAccount account:CloseAccount",
    ),
    Effect(
        "grave", "loosens the organisation's guard rails", "Defense Evasion", "T1484",
        "organizations:DetachPolicy DeletePolicy UpdatePolicy DisablePolicyType DisableAWSServiceAccess "
        "DeregisterDelegatedAdministrator RegisterDelegatedAdministrator InviteAccountToOrganization AcceptHandshake "
        "CreateAccount MoveAccount InviteOrganizationToTransferResponsibility controltower:DisableControl DisableBaseline "
        "DeleteLandingZone",
    ),
    Effect("grave", "switches on a region", "Defense Evasion", "T1535", "account:EnableRegion"),
    Effect(
        "grave", "changes whom AWS warns about the account", "Defense Evasion", "T1562",
        "account:PutAlternateContact DeleteAlternateContact",
    ),
    # --- credentials and rights
    Effect(
        "severe", "creates a credential that lasts", "Persistence", "T1098.001",
        "iam:CreateAccessKey CreateLoginProfile UpdateLoginProfile CreateServiceSpecificCredential "
        "ResetServiceSpecificCredential UploadSSHPublicKey UploadSigningCertificate lightsail:CreateBucketAccessKey "
        "sso-directory:UpdatePassword CreateBearerToken",
    ),
    Effect(
        "severe", "lets another identity provider or certificate authority sign people in", "Privilege Escalation", "T1484.002",
        "iam:CreateSAMLProvider UpdateSAMLProvider CreateOpenIDConnectProvider AddClientIDToOpenIDConnectProvider "
        "UpdateOpenIDConnectProviderThumbprint rolesanywhere:CreateTrustAnchor CreateProfile UpdateTrustAnchor "
        "EnableTrustAnchor UpdateProfile EnableProfile sso-directory:EnableExternalIdPConfigurationForDirectory "
        "sso:CreateTrustedTokenIssuer UpdateTrustedTokenIssuer",
    ),
    Effect(
        "severe", "changes the root user's e-mail address or password", "Persistence", "T1098",
        "account:StartPrimaryEmailUpdate AcceptPrimaryEmailUpdate signin:EmailUpdated PasswordUpdated "
        "PasswordRecoveryCompleted",
    ),
    Effect(
        "severe", "creates a user", "Persistence", "T1136.003",
        "iam:CreateUser identitystore:CreateUser sso-directory:CreateUser",
    ),
    Effect(
        "severe", "changes who may assume a role", "Persistence", "T1098.003", "iam:UpdateAssumeRolePolicy",
    ),
    Effect(
        "severe", "gives rights to a user or group", "Privilege Escalation", "T1098.003",
        "iam:AttachUserPolicy PutUserPolicy AttachGroupPolicy PutGroupPolicy AddUserToGroup "
        "DeleteUserPermissionsBoundary",
    ),
    Effect(
        "severe", "gives rights to all who have a policy", "Privilege Escalation", "T1098.003",
        "iam:CreatePolicyVersion SetDefaultPolicyVersion",
    ),
    Effect(
        "grave", "gives rights to a role", "Privilege Escalation", "T1098.003",
        "iam:AttachRolePolicy PutRolePolicy DeleteRolePermissionsBoundary AddRoleToInstanceProfile "
        "sso:CreateAccountAssignment AttachManagedPolicyToPermissionSet PutInlinePolicyToPermissionSet "
        "AttachCustomerManagedPolicyReferenceToPermissionSet ProvisionPermissionSet CreatePermissionSet "
        "rds:AddRoleToDBCluster AddRoleToDBInstance ec2:AssociateIamInstanceProfile ReplaceIamInstanceProfileAssociation "
        "eks:CreateAccessEntry AssociateAccessPolicy CreatePodIdentityAssociation UpdatePodIdentityAssociation "
        "identitystore:CreateGroupMembership sso-directory:AddMemberToGroup",
    ),
    Effect(
        "grave", "lets machines outside AWS join as managed nodes, with a role's credentials", "Persistence", "T1098.001",
        "ssm:CreateActivation",
    ),
    Effect(
        "grave", "lets others sign in, or revoked ones again", "Persistence", "T1556",
        "iam:EnableOrganizationsRootSessions EnableOrganizationsRootCredentialsManagement "
        "EnableOutboundWebIdentityFederation rolesanywhere:DeleteCrl DisableCrl "
        "sso:DeletePermissionsBoundaryFromPermissionSet eks:AssociateIdentityProviderConfig",
    ),
    Effect(  # to everybody: `GRAVER_EFFECTS`
        "minor", "changes who gets credentials of an application", "Persistence", "T1556",
        "cognito-identity:CreateIdentityPool UpdateIdentityPool",
    ),
    Effect(
        "notable", "changes who signs in to an application, or by which role", "Persistence", "T1556",
        "cognito-idp:CreateIdentityProvider UpdateIdentityProvider cognito-identity:SetIdentityPoolRoles "
        "workmail:CreateImpersonationRole iot:RegisterCACertificate CreateRoleAlias UpdateRoleAlias CreateAuthorizer "
        "UpdateAuthorizer SetDefaultAuthorizer CreateProvisioningTemplate CreateProvisioningTemplateVersion "
        "UpdateProvisioningTemplate cognito-idp:CreateUserPoolClient UpdateUserPoolClient UpdateUserPool "
        "apigateway:UpdateAuthorizer DeleteAuthorizer",
    ),
    Effect(  # of devices, taken out of use: `adjust_gravity`; of users of an application
        "notable", "creates or changes a credential", "Persistence", "T1098",
        "iot:CreateProvisioningClaim CreateCertificateFromCsr RegisterCertificate RegisterCertificateWithoutCA "
        "UpdateCertificate cognito-idp:AdminSetUserPassword",
    ),
    Effect("notable", "creates a user of a service", "Persistence", "T1136", "cognito-idp:AdminCreateUser"),
    Effect(  # all rights of the service: `GRAVER_EFFECTS`
        "notable", "changes who has access", "Privilege Escalation", "T1098",
        "iot:CreatePolicy CreatePolicyVersion cognito-idp:AdminAddUserToGroup connect:CreateSecurityProfile "
        "UpdateSecurityProfile UpdateUserSecurityProfiles",
    ),
    Effect(  # another account: `adjust_gravity`
        "notable", "changes who administers a data lake", "Privilege Escalation", "T1098.003",
        "lakeformation:PutDataLakeSettings",
    ),
    Effect("notable", "asks for rights of another's account", "Privilege Escalation", "T1098.003", "iam:CreateDelegationRequest"),
    Effect("grave", "acts as root of another account", "Privilege Escalation", "T1078.004", "sts:AssumeRoot"),
    Effect(
        "notable", "creates a role or policy", "Persistence", "T1136.003",
        "iam:CreateRole CreatePolicy CreateInstanceProfile CreateGroup CreateServiceLinkedRole",
    ),
    Effect(
        "grave", "weakens sign-in: second factor or password rules", "Persistence", "T1556.006",
        "iam:DeactivateMFADevice DeleteVirtualMFADevice UpdateAccountPasswordPolicy DeleteAccountPasswordPolicy "
        "sso-directory:DeleteMfaDeviceForUser cognito-idp:SetUserPoolMfaConfig account:PutChallengeQuestions "
        "signin:PasswordRecoveryRequested",
    ),
    Effect(
        "grave", "takes rights or access from others", "Impact", "T1531",
        "iam:DeleteUser DeleteLoginProfile DeleteAccessKey DetachUserPolicy DetachRolePolicy DeleteRole DeleteRolePolicy "
        "DeleteUserPolicy RemoveUserFromGroup DeleteGroupPolicy DeletePolicyVersion DeleteSAMLProvider "
        "DeleteOpenIDConnectProvider identitystore:DeleteUser sso:DeleteAccountAssignment DeletePermissionSet",
    ),
    Effect(
        "notable", "adds a second factor", "Persistence", "T1556.006",
        "iam:EnableMFADevice CreateVirtualMFADevice ResyncMFADevice",
    ),
    Effect("notable", "changes a password or key", "Persistence", "T1098.001", "iam:ChangePassword UpdateAccessKey"),
    Effect(
        "notable", "changes a secret", "Impact", "T1565",
        "secretsmanager:PutSecretValue UpdateSecret UpdateSecretVersionStage",
    ),
    Effect("notable", "renames a user", "Persistence", "T1098", "iam:UpdateUser"),
    Effect(
        "grave", "changes what code runs, or who may start it", "Persistence", "T1546",
        "lambda:AddPermission CreateFunctionUrlConfig UpdateFunctionUrlConfig AddLayerVersionPermission",
    ),
    Effect(
        "notable", "changes code or configuration that runs", "Persistence", "T1546",
        "lambda:UpdateFunctionCode UpdateFunctionConfiguration CreateFunction CreateEventSourceMapping PublishLayerVersion "
        "DeleteFunctionCodeSigningConfig UpdateCodeSigningConfig RunMicrovm codebuild:CreateProject "
        "StartBuildBatch CreateWebhook UpdateWebhook StartBuild ecr:PutImage events:PutRule PutTargets "
        "scheduler:CreateSchedule UpdateSchedule pipes:CreatePipe UpdatePipe codepipeline:CreatePipeline UpdatePipeline "
        "datapipeline:PutPipelineDefinition ActivatePipeline imagebuilder:CreateComponent CreateImageRecipe CreateWorkflow "
        "autoscaling:CreateLaunchConfiguration ecs:RegisterTaskDefinition glue:CreateJob UpdateJob UpdateJobFromSourceControl "
        "CreateSession RunStatement sagemaker:CreatePresignedNotebookInstanceUrl CreatePresignedDomainUrl CreateProcessingJob "
        "CreateNotebookInstanceLifecycleConfig CreateStudioLifecycleConfig CreatePipeline UpdatePipeline "
        "cloudformation:CreateStack UpdateStack CreateChangeSet ExecuteChangeSet CreateStackSet CreateStackInstances "
        "UpdateStackSet UpdateStackInstances RegisterType ActivateType UpdateTerminationProtection "
        "ec2:CreateLaunchTemplateVersion ModifyLaunchTemplate ssm:CreateAssociation UpdateAssociation CreateDocument "
        "UpdateDocument UpdateDocumentDefaultVersion RegisterTaskWithMaintenanceWindow UpdateMaintenanceWindowTask "
        "servicecatalog:ProvisionProduct bedrock-agentcore:CreateCodeInterpreter CreateAgentRuntime UpdateAgentRuntime "
        "bedrock:UpdateAgent CreateAgentActionGroup UpdateAgentActionGroup cloud9:CreateEnvironmentMembership "
        "states:CreateStateMachine UpdateStateMachine TestState elasticmapreduce:RunJobFlow AddJobFlowSteps "
        "apprunner:UpdateService amplify:UpdateApp elasticbeanstalk:UpdateEnvironment greengrass:CreateDeployment "
        "airflow:CreateEnvironment UpdateEnvironment kinesisanalytics:CreateApplication UpdateApplication "
        "cloudfront:CreateFunction UpdateFunction PublishFunction iot:CreateOTAUpdate greengrass:CreateComponentVersion "
        "connect:AssociateLambdaFunction UpdateContactFlowContent ecr:PutImageTagMutability",
    ),
    Effect(
        "grave", CODE_OF_OTHERS, "Privilege Escalation", "T1546",
        "codebuild:UpdateProject glue:CreateDevEndpoint UpdateDevEndpoint sagemaker:UpdateNotebookInstanceLifecycleConfig",
    ),
    # --- data that leaves
    Effect(
        "severe", "opens stored data to outsiders", "Exfiltration", "T1537",
        "ec2:ModifySnapshotAttribute ModifyImageAttribute DisableSnapshotBlockPublicAccess DisableImageBlockPublicAccess "
        "rds:ModifyDBSnapshotAttribute ModifyDBClusterSnapshotAttribute redshift:AuthorizeSnapshotAccess s3:PutBucketPolicy "
        "PutBucketAcl PutObjectAcl DeleteBucketPublicAccessBlock PutBucketPublicAccessBlock DeletePublicAccessBlock "
        "PutPublicAccessBlock DeleteAccountPublicAccessBlock PutAccountPublicAccessBlock PutAccessPointPolicy "
        "PutMultiRegionAccessPointPolicy",
    ),
    Effect(
        "grave", "copies stored data away", "Exfiltration", "T1537",
        "s3:PutBucketReplication rds:StartExportTask CopyDBSnapshot CopyDBClusterSnapshot ec2:CreateStoreImageTask "
        "CreateInstanceExportTask ExportImage datasync:CreateTask CreateLocationS3 CreateLocationObjectStorage "
        "CreateLocationAzureBlob dynamodb:ExportTableToPointInTime backup:StartCopyJob ecr:PutReplicationConfiguration "
        "secretsmanager:ReplicateSecretToRegions",
    ),
    Effect(  # who gets it is not known: the bucket need not be the organisation's
        "notable", "sends the account's bills to a bucket", "Exfiltration", "T1537",
        "cur:PutReportDefinition ModifyReportDefinition bcm-data-exports:CreateExport UpdateExport",
    ),
    Effect(
        "grave", "makes a database from a copy", "Collection", "T1530",
        "rds:RestoreDBInstanceFromDBSnapshot RestoreDBInstanceToPointInTime RestoreDBClusterFromSnapshot "
        "RestoreDBClusterToPointInTime",
    ),
    Effect("grave", "reads a copy of a disk, block by block", "Collection", "T1530", "ebs:GetSnapshotBlock"),
    Effect(
        "notable", "changes where data are sent", "Exfiltration", "T1020",
        "athena:UpdateWorkGroup firehose:UpdateDestination logs:PutSubscriptionFilter PutAccountPolicy "
        "medialive:UpdateChannel ses:CreateReceiptRule UpdateReceiptRule SetActiveReceiptRuleSet oam:CreateLink "
        "iot:CreateTopicRule ReplaceTopicRule CreateTopicRuleDestination connect:AssociateInstanceStorageConfig "
        "UpdateInstanceStorageConfig",
    ),
    Effect(
        "grave", *LETS_OTHERS,
        "kms:PutKeyPolicy CreateGrant secretsmanager:PutResourcePolicy ecr:SetRepositoryPolicy PutRegistryPolicy "
        "sqs:SetQueueAttributes AddPermission sns:AddPermission SetTopicAttributes ram:CreateResourceShare "
        "AssociateResourceShare dynamodb:PutResourcePolicy es:UpdateElasticsearchDomainConfig UpdateDomainConfig "
        "CreateElasticsearchDomain codebuild:UpdateProjectVisibility logs:PutResourcePolicy PutDestinationPolicy "
        "lakeformation:GrantPermissions BatchGrantPermissions glacier:SetVaultAccessPolicy "
        "elasticfilesystem:PutFileSystemPolicy backup:PutBackupVaultAccessPolicy ssm:ModifyDocumentPermission "
        "cloudtrail:PutResourcePolicy redshift:AuthorizeDataShare s3:CreateAccessGrant ec2:ModifyFpgaImageAttribute "
        "appstream:UpdateImagePermissions workspaces:UpdateWorkspaceImagePermission securitylake:CreateSubscriber "
        "dataexchange:CreateDataGrant serverlessrepo:PutApplicationPolicy",
    ),
    Effect("notable", "lets others use a directory", "Exfiltration", "T1537", "ds:ShareDirectory"),
    Effect(  # to another account or everybody: `adjust_gravity`
        "notable", "lets others reach a resource, or send to it", "Exfiltration", "T1537",
        "events:PutPermission redshift:AuthorizeEndpointAccess es:AuthorizeVpcEndpointAccess CreateDomain "
        "ec2:ModifyVpcEndpointServicePermissions CreateNetworkInterfacePermission EnableAddressTransfer "
        "servicecatalog:CreatePortfolioShare UpdatePortfolioShare "
        "workspaces:UpdateConnectionAliasPermission signer:AddProfilePermission iot:TransferCertificate "
        "config:PutAggregationAuthorization es:AcceptInboundConnection AcceptInboundCrossClusterSearchConnection",
    ),
    Effect(  # with another account: `GRAVER_EFFECTS`
        "minor", "sets how images or snapshots are made", "Exfiltration", "T1537",
        "imagebuilder:CreateDistributionConfiguration UpdateDistributionConfiguration dlm:CreateLifecyclePolicy",
    ),
    Effect(  # opened: `GRAVER_EFFECTS`
        "minor", "changes who may see or reach data", "Exfiltration", "T1537",
        "quicksight:UpdatePublicSharingSettings elasticmapreduce:PutBlockPublicAccessConfiguration lightsail:UpdateBucket",
    ),
    Effect(  # taking back a single permission only closes, and is minor
        "notable", "deletes a resource's policy, with what it denies", "Defense Evasion", "T1562",
        "s3:DeleteBucketPolicy DeleteAccessPointPolicy ecr:DeleteRepositoryPolicy DeleteRegistryPolicy "
        "secretsmanager:DeleteResourcePolicy dynamodb:DeleteResourcePolicy logs:DeleteResourcePolicy "
        "glacier:DeleteVaultAccessPolicy backup:DeleteBackupVaultAccessPolicy elasticfilesystem:DeleteFileSystemPolicy",
    ),
    Effect(
        "notable", "copies stored data", "Collection", "T1530",
        "ec2:CreateSnapshot CreateSnapshots CopySnapshot CreateImage CopyImage rds:CreateDBSnapshot CreateDBClusterSnapshot "
        "CreateDBInstanceReadReplica StartDBInstanceAutomatedBackupsReplication s3:CopyObject CreateJob "
        "redshift-data:ExecuteStatement dynamodb:CreateBackup EnableKinesisStreamingDestination rds-data:ExecuteStatement "
        "dms:CreateReplicationTask StartReplicationTask StartReplication appflow:CreateFlow StartFlow logs:CreateExportTask "
        "datasync:StartTaskExecution transfer:CreateServer StartFileTransfer elasticache:CopySnapshot memorydb:CopySnapshot "
        "redshift:RestoreFromClusterSnapshot redshift-serverless:RestoreFromSnapshot "
        "elasticfilesystem:CreateReplicationConfiguration snowball:CreateJob workmail:StartMailboxExportJob",
    ),
    Effect("minor", "runs a query on stored data", "Collection", "T1530", "athena:StartQueryExecution"),
    # --- secrets read
    Effect(
        "notable", "reads a secret or password", "Credential Access", "T1555.006",
        "secretsmanager:GetSecretValue BatchGetSecretValue ec2:GetPasswordData lightsail:GetInstanceAccessDetails "
        "DownloadDefaultKeyPair GetRelationalDatabaseMasterUserPassword acm:ExportCertificate "
        "bedrock-agentcore:GetResourceApiKey GetResourceOauth2Token ssm:GetAccessToken "
        "elasticmapreduce:GetClusterSessionCredentials emr-containers:GetManagedEndpointSessionCredentials",
    ),
    Effect(  # unless it asks for none: `adjust_gravity`
        "notable", "reads the password of a connection to a database", "Credential Access", "T1555.006",
        "glue:GetConnection GetConnections",
    ),
    Effect(
        "notable", "reads a database's log, which may hold passwords", "Credential Access", "T1552",
        "rds:DownloadDBLogFilePortion DownloadCompleteDBLogFile",
    ),
    Effect(
        "notable", "fetches a temporary password of a database, or signs in to it", "Credential Access", "T1555.006",
        "redshift:GetClusterCredentials GetClusterCredentialsWithIAM redshift-serverless:GetCredentials dsql:DbConnect "
        "DbConnectAdmin",
    ),
    Effect(  # in plain text: `GRAVER_EFFECTS`
        "minor", "reads a parameter", "Credential Access", "T1555.006",
        "ssm:GetParameter GetParameters GetParametersByPath GetParameterHistory",
    ),
    Effect("minor", "reads what a key encrypts", "Credential Access", "T1555.006", "kms:Decrypt"),
    Effect(
        "minor", "fetches a token that signs in to a registry", "Credential Access", "T1528",
        "ecr:GetAuthorizationToken ecr-public:GetAuthorizationToken codeartifact:GetAuthorizationToken",
    ),
    Effect("minor", "reads a machine's start script", "Credential Access", "T1552", "ec2:DescribeInstanceAttribute"),
    Effect(
        "notable", "makes temporary credentials", "Defense Evasion", "T1550.001",
        "sts:GetFederationToken GetSessionToken signin:GetSigninToken",
    ),
    Effect(  # each sign-in through Identity Center makes them
        "minor", "makes temporary credentials", "Defense Evasion", "T1550.001",
        "sso:GetRoleCredentials Federate CreateToken CreateTokenWithIAM sso-oauth:CreateToken CreateTokenWithIAM "
        "signin:CreateOAuth2Token sts:GetWebIdentityToken GetDelegatedAccessToken GetServiceBearerToken",
    ),
    Effect(
        "minor", "assumes a role", "Privilege Escalation", "T1078.004",
        "sts:AssumeRole AssumeRoleWithSAML AssumeRoleWithWebIdentity cognito-identity:GetCredentialsForIdentity "
        "rolesanywhere:CreateSession iot:AssumeRoleWithCertificate",
    ),
    Effect(
        "minor", "signs in or out", "Initial Access", "T1078.004",
        "signin:ConsoleLogin CredentialChallenge CredentialVerification UserAuthentication SwitchRole sso:Authenticate "
        "Logout RegisterClient StartDeviceAuthorization sso-oauth:RegisterClient StartDeviceAuthorization",
    ),
    # --- machines
    Effect(
        "notable", "runs commands on machines", "Execution", "T1651",
        "ssm:SendCommand StartSession ResumeSession StartAutomationExecution ecs:ExecuteCommand "
        "ec2-instance-connect:SendSSHPublicKey SendSerialConsoleSSHPublicKey OpenTunnel eks:AccessKubernetesApi "
        "batch:SubmitJob ssm-guiconnect:StartConnection codebuild:StartSandbox StartCommandExecution sagemaker:StartSession "
        "bedrock-agentcore:InvokeCodeInterpreter StartCodeInterpreterSession InvokeAgentRuntimeCommand "
        "emr-serverless:StartJobRun emr-containers:StartJobRun CreateManagedEndpoint ssm:StartChangeRequestExecution "
        "athena:StartSession StartCalculationExecution elasticmapreduce:StartNotebookExecution iot:CreateJob "
        "iotsecuredtunneling:OpenTunnel",
    ),
    Effect(
        "notable", STARTS_MACHINES, "Impact", "T1496",
        "ec2:RunInstances RunScheduledInstances RequestSpotInstances RequestSpotFleet ModifySpotFleetRequest CreateFleet "
        "ModifyFleet ecs:CreateCluster CreateCapacityProvider CreateService CreateTaskSet RunTask StartTask "
        "autoscaling:CreateAutoScalingGroup sagemaker:CreateTrainingJob CreateHyperParameterTuningJob CreateTransformJob "
        "CreateAutoMLJob CreateAutoMLJobV2 CreateOptimizationJob CreateInferenceComponent CreateEndpoint CreateApp "
        "StartNotebookInstance UpdateNotebookInstance UpdateCluster lightsail:CreateInstances CreateInstancesFromSnapshot "
        "CreateContainerService CreateContainerServiceDeployment UpdateContainerService eks:CreateCluster CreateNodegroup "
        "CreateFargateProfile elasticmapreduce:AddInstanceFleet AddInstanceGroups amplify:CreateApp StartJob "
        "StartDeployment apprunner:CreateService imagebuilder:CreateImage CreateImagePipeline appstream:CreateImageBuilder "
        "StartFleet UpdateFleet workspaces:CreateWorkspaces workspaces-instances:CreateWorkspaceInstance "
        "cloud9:CreateEnvironmentEC2 elasticbeanstalk:CreateEnvironment gamelift:UpdateFleetCapacity "
        "medialive:CreateChannel StartChannel m2:CreateEnvironment bedrock:InvokeModel InvokeModelWithResponseStream "
        "Converse ConverseStream InvokeAgent InvokeInlineAgent InvokeFlow "
        "CreateModelInvocationJob CreateModelCustomizationJob CreateModelImportJob bedrock-agentcore:InvokeAgentRuntime",
    ),
    Effect(
        "grave", "buys machines or models for months", "Impact", "T1496",
        "ec2:PurchaseReservedInstancesOffering PurchaseHostReservation PurchaseCapacityBlock PurchaseCapacityBlockExtension "
        "PurchaseScheduledInstances savingsplans:CreateSavingsPlan bedrock:CreateProvisionedModelThroughput "
        "rds:PurchaseReservedDBInstancesOffering redshift:PurchaseReservedNodeOffering "
        "elasticache:PurchaseReservedCacheNodesOffering memorydb:PurchaseReservedNodesOffering "
        "es:PurchaseReservedInstanceOffering PurchaseReservedElasticsearchInstanceOffering medialive:PurchaseOffering "
        "sagemaker:CreateTrainingPlan shield:CreateSubscription",
    ),
    Effect(  # of a plain type: `adjust_gravity`
        "grave", COSTLY_MACHINES, "Impact", "T1496",
        "sagemaker:CreateNotebookInstance CreateCluster batch:CreateComputeEnvironment gamelift:CreateFleet "
        "CreateContainerFleet gameliftstreams:CreateStreamGroup appstream:CreateFleet deadline:CreateFleet "
        "codebuild:CreateFleet pcs:CreateComputeNodeGroup workspaces:CreateWorkspacesPool "
        "bedrock:CreateMarketplaceModelEndpoint ec2:AllocateHosts CreateCapacityReservation CreateCapacityReservationFleet",
    ),
    Effect("notable", "registers a domain", "Impact", "T1496", "route53domains:RegisterDomain"),
    Effect(
        "notable", "changes a machine: its start script, network, volumes or metadata service", "Execution", "T1059.009",
        "ec2:ModifyInstanceAttribute CreateReplaceRootVolumeTask DetachVolume AttachVolume ModifyInstanceMetadataOptions",
    ),
    Effect(
        "notable", "makes a key that opens machines started with it", "Persistence", "T1098.004",
        "ec2:ImportKeyPair CreateKeyPair",
    ),
    Effect(
        "notable", "allows serial consoles of machines", "Lateral Movement", "T1021.008", "ec2:EnableSerialConsoleAccess",
    ),
    Effect("minor", "opens a shell", "Execution", "T1059.009", "cloudshell:CreateEnvironment StartEnvironment CreateSession"),
    Effect(
        "grave", "opens a network", "Defense Evasion", "T1562.007",
        "ec2:AuthorizeSecurityGroupIngress ModifySecurityGroupRules CreateNetworkAclEntry ReplaceNetworkAclEntry "
        "ModifyVpcBlockPublicAccessOptions CreateVpcBlockPublicAccessExclusion DisableAllowedImagesSettings "
        "rds:AuthorizeDBSecurityGroupIngress redshift:AuthorizeClusterSecurityGroupIngress ModifyClusterSubnetGroup "
        "lightsail:OpenInstancePublicPorts PutInstancePublicPorts",
    ),
    Effect(
        "notable", "opens the way out of a network", "Defense Evasion", "T1562.007", "ec2:AuthorizeSecurityGroupEgress",
    ),
    Effect(
        "notable", "changes who reaches a network", "Defense Evasion", "T1562.007",
        "network-firewall:UpdateRuleGroup UpdateFirewallPolicy",
    ),
    Effect(
        "grave", "gives a domain away", "Impact", "T1565",
        "route53domains:UpdateDomainNameservers RetrieveDomainAuthCode TransferDomain TransferDomainToAnotherAwsAccount "
        "DisableDomainTransferLock UpdateDomainContact DeleteDomain",
    ),
    Effect(
        "notable", "changes routes between networks", "Command and Control", "T1090",
        "ec2:CreateRoute ReplaceRoute AttachInternetGateway CreateVpcPeeringConnection AcceptVpcPeeringConnection "
        "CreateClientVpnEndpoint AuthorizeClientVpnIngress CreateTransitGatewayVpcAttachment CreateVpnConnection "
        "CreateTransitGatewayPeeringAttachment CreateInstanceConnectEndpoint AcceptTransitGatewayPeeringAttachment "
        "AcceptTransitGatewayVpcAttachment CreateTransitGatewayRoute ReplaceTransitGatewayRoute ModifyVpnConnection "
        "route53resolver:CreateResolverRule directconnect:CreatePrivateVirtualInterface CreatePublicVirtualInterface "
        "CreateTransitVirtualInterface AllocatePrivateVirtualInterface AllocatePublicVirtualInterface "
        "AllocateTransitVirtualInterface CreateDirectConnectGatewayAssociation AcceptDirectConnectGatewayAssociationProposal "
        "networkmanager:PutCoreNetworkPolicy ExecuteCoreNetworkChangeSet",
    ),
    Effect(
        "grave", "copies a network's traffic", "Credential Access", "T1040",
        "ec2:CreateTrafficMirrorSession ModifyTrafficMirrorSession",
    ),
    Effect(
        "notable", "changes where a domain's names lead, or what its visitors get", "Impact", "T1565",
        "route53:ChangeResourceRecordSets cloudfront:UpdateDistribution AssociateAlias",
    ),
    # --- data and keys that are lost
    Effect(
        "severe", "destroys an encryption key", "Impact", "T1486",
        "kms:ScheduleKeyDeletion DeleteImportedKeyMaterial DeleteCustomKeyStore",
    ),
    Effect("severe", "disables an encryption key: what it encrypts cannot be read", "Impact", "T1486", "kms:DisableKey"),
    Effect(
        "severe", "removes backups or the way back", "Impact", "T1490",
        "rds:DeleteDBClusterAutomatedBackup DeleteDBInstanceAutomatedBackup DeleteDBClusterSnapshot DeleteDBSnapshot "
        "backup:DeleteRecoveryPoint DeleteBackupVault DeleteBackupPlan DeleteBackupVaultLockConfiguration "
        "DisassociateRecoveryPoint s3:PutBucketVersioning DeleteBucketReplication dynamodb:DeleteBackup "
        "UpdateContinuousBackups fsx:DeleteBackup elasticfilesystem:DeleteReplicationConfiguration "
        "redshift:DeleteClusterSnapshot BatchDeleteClusterSnapshots redshift-serverless:DeleteSnapshot "
        "elasticache:DeleteSnapshot memorydb:DeleteSnapshot docdb-elastic:DeleteClusterSnapshot "
        "neptune-graph:DeleteGraphSnapshot",
    ),
    Effect(
        "grave", "lets backups go", "Impact", "T1490",
        "ec2:UnlockSnapshot rbin:DeleteRule UpdateRule UnlockRule dlm:DeleteLifecyclePolicy backup:DeleteBackupSelection "
        "UpdateRecoveryPointLifecycle CancelLegalHold DisassociateBackupVaultMpaApprovalTeam",
    ),
    Effect(  # switched off or by-passed: `GRAVER_EFFECTS`
        "minor", "changes how data can be recovered", "Impact", "T1490", "dlm:UpdateLifecyclePolicy s3:PutObjectRetention",
    ),
    Effect(
        "severe", "deletes stored data", "Impact", "T1485",
        "rds:DeleteDBCluster DeleteDBInstance dynamodb:DeleteTable elasticfilesystem:DeleteFileSystem redshift:DeleteCluster "
        "secretsmanager:DeleteSecret fsx:DeleteFileSystem ecr:DeleteRepository es:DeleteDomain DeleteElasticsearchDomain "
        "redshift-serverless:DeleteNamespace dsql:DeleteCluster docdb-elastic:DeleteCluster neptune-graph:DeleteGraph "
        "cassandra:DeleteKeyspace timestream:DeleteDatabase s3tables:DeleteTable s3vectors:DeleteVectorBucket DeleteIndex "
        "aoss:DeleteCollection",
    ),
    Effect(  # what is in it has to go first: by calls that are judged by themselves, and data calls may not be logged
        "grave", "deletes a bucket or vault, which is empty", "Impact", "T1485",
        "s3:DeleteBucket s3tables:DeleteTableBucket glacier:DeleteVault",
    ),
    Effect(
        "notable", "deletes data or machines", "Impact", "T1485",
        "ec2:DeleteSnapshot DeleteVolume DeregisterImage TerminateInstances DeleteVpc s3:DeleteObjects DeleteObject "
        "lambda:DeleteFunction cloudformation:DeleteStack eks:DeleteCluster ecs:DeleteCluster sqs:PurgeQueue DeleteQueue "
        "sns:DeleteTopic codecommit:DeleteRepository route53:DeleteHostedZone kms:DeleteAlias ssm:DeleteParameter "
        "DeleteParameters ecr:BatchDeleteImage glue:BatchDeleteTable",
    ),
    Effect(
        "grave", "sets how long data is kept", "Impact", "T1485",
        "s3:PutBucketLifecycle PutBucketLifecycleConfiguration",
    ),
    Effect(
        "grave", "changes how data is encrypted", "Impact", "T1486",
        "s3:PutBucketEncryption DeleteBucketEncryption ec2:DisableEbsEncryptionByDefault ModifyEbsDefaultKmsKeyId",
    ),
    Effect(
        "notable", "changes a database: its password, who reaches it, or its backups", "Impact", "T1565",
        "rds:ModifyDBInstance ModifyDBCluster",
    ),
    Effect(  # its password or the internet: `GRAVER_EFFECTS`
        "minor", "changes a database", "Impact", "T1565",
        "redshift:ModifyCluster redshift-serverless:UpdateWorkgroup UpdateNamespace dynamodb:UpdateTable",
    ),
    Effect(
        "grave", "takes a key store or certificate authority out of use", "Impact", "T1489",
        "kms:DisconnectCustomKeyStore acm-pca:DeleteCertificateAuthority",
    ),
    Effect("minor", "changes a certificate authority", "Impact", "T1489", "acm-pca:UpdateCertificateAuthority"),
    Effect("minor", "encrypts logs with a key", "Impact", "T1486", "logs:AssociateKmsKey"),
    Effect(
        "minor", "writes an object", "", "", "s3:PutObject CreateMultipartUpload UploadPart CompleteMultipartUpload",
    ),
    # what programs do all day
    Effect(
        "minor", "runs a function or job", "", "",
        "lambda:Invoke glue:StartJobRun states:StartExecution StartSyncExecution",
    ),
    Effect("minor", "takes messages from a queue", "", "", "sqs:ReceiveMessage"),
    Effect("minor", "removes messages that were read", "", "", "sqs:DeleteMessage DeleteMessageBatch"),
    Effect(
        "minor", "puts messages or events into a queue or stream", "", "",
        "sqs:SendMessage SendMessageBatch kinesis:PutRecord PutRecords firehose:PutRecord PutRecordBatch events:PutEvents",
    ),
    Effect(
        "minor", "writes items of a table", "", "",
        "dynamodb:PutItem UpdateItem DeleteItem BatchWriteItem TransactWriteItems",
    ),
    Effect("minor", "reads items of a table", "Collection", "T1530", "dynamodb:TransactGetItems"),
    Effect(
        "minor", "encrypts or signs with a key", "", "",
        "kms:Encrypt GenerateDataKey GenerateDataKeyWithoutPlaintext GenerateDataKeyPair "
        "GenerateDataKeyPairWithoutPlaintext GenerateMac Sign",
    ),
    Effect(
        "minor", "uploads an image in parts", "", "", "ecr:InitiateLayerUpload UploadLayerPart CompleteLayerUpload",
    ),
    Effect(
        "notable", "interrupts a service", "Impact", "T1489",
        "ec2:StopInstances RebootInstances rds:StopDBInstance StopDBCluster RebootDBInstance RebootDBCluster "
        "FailoverDBCluster FailoverGlobalCluster ecs:DeleteService autoscaling:DeleteAutoScalingGroup "
        "lambda:PutFunctionConcurrency fis:StartExperiment directconnect:DeleteConnection DeleteVirtualInterface "
        "StartBgpFailoverTest ec2:DeleteVpnConnection",
    ),
    Effect(
        "notable", "prepares mail or message abuse", "Impact", "T1496",
        "ses:VerifyEmailIdentity VerifyDomainIdentity CreateEmailIdentity UpdateAccountSendingEnabled PutAccountDetails "
        "PutAccountSendingAttributes VerifyDomainDkim DeleteIdentity sns:SetSMSAttributes CreateSMSSandboxPhoneNumber "
        "sms-voice:RequestPhoneNumber SetTextMessageSpendLimitOverride workmail:CreateOrganization RegisterToWorkMail",
    ),
    Effect(
        "notable", "prepares calls or text messages that cost money", "Impact", "T1496",
        "chime:CreateVoiceConnector CreateVoiceConnectorGroup PutVoiceConnectorTermination "
        "PutVoiceConnectorTerminationCredentials CreatePhoneNumberOrder CreateSipMediaApplication "
        "AssociatePhoneNumbersWithVoiceConnector connect:CreateInstance ClaimPhoneNumber",
    ),
    Effect("notable", "makes a telephone call", "Impact", "T1496", "chime:CreateSipMediaApplicationCall"),
    Effect(
        "notable", "sends mail or messages", "Impact", "T1496",
        "ses:SendEmail SendRawEmail SendBulkEmail SendTemplatedEmail SendBulkTemplatedEmail SendCustomVerificationEmail "
        "mobiletargeting:SendMessages SendUsersMessages sms-voice:SendTextMessage SendMediaMessage "
        "social-messaging:SendWhatsAppMessage connect:StartOutboundVoiceContact",
    ),
    Effect("minor", "sends mail or messages", "Impact", "T1496", "sns:Publish"),  # to a topic
    Effect(
        "notable", "gives the account access to models that are paid by use", "Impact", "T1496",
        "bedrock:PutUseCaseForModelAccess CreateFoundationModelAgreement PutFoundationModelEntitlement",
    ),
    Effect("notable", QUOTA, "Impact", "T1496", "servicequotas:RequestServiceQuotaIncrease"),
    # who works on an outage does; for a higher limit: `GRAVER_EFFECTS`
    Effect("minor", "opens a case with AWS Support", "", "", "support:CreateCase"),
    Effect("minor", "writes to AWS Support about a case", "", "", "support:AddCommunicationToCase AddAttachmentsToSet"),
)  # fmt: skip

# Effects of calls that read data or secrets, if the principal reads more than ever: by the amount, not by action or request.
BULK_READS = (
    Effect(
        "severe", "takes stored data, more than ever in the history", "Collection", "T1530",
        "s3:GetObject GetObjectTorrent SelectObjectContent ebs:GetSnapshotBlock glacier:GetJobOutput",
    ),
    Effect(
        "severe", "takes items of databases, more than ever in the history", "Collection", "T1530",
        "dynamodb:GetItem BatchGetItem Query Scan ExecuteStatement BatchExecuteStatement ExecuteTransaction TransactGetItems "
        "athena:StartQueryExecution GetQueryResults redshift-data:ExecuteStatement BatchExecuteStatement GetStatementResult "
        "rds-data:ExecuteStatement BatchExecuteStatement timestream:Query cassandra:Select sagemaker:GetRecord BatchGetRecord",
    ),
    Effect(
        "severe", "takes messages or records of people, more than ever in the history", "Collection", "T1530",
        "kinesis:GetRecords sqs:ReceiveMessage cognito-idp:ListUsers ListUsersInGroup AdminGetUser connect:SearchContacts "
        "DescribeContact GetContactAttributes GetAttachedFile "
        "profile:SearchProfiles BatchGetProfile workmail:StartMailboxExportJob ses:GetArchiveMessageContent "
        "rds:DownloadDBLogFilePortion DownloadCompleteDBLogFile",
    ),
    Effect(  # not severe: people who look for a fault read logs all day
        "grave", "takes logs, more than ever in the history", "Collection", "T1530",
        "logs:FilterLogEvents GetLogEvents GetQueryResults StartQuery cloudtrail:StartQuery GetQueryResults",
    ),
    Effect(  # not severe: a release and a new machine read as much
        "grave", "takes code, images or models, more than ever in the history", "Collection", "T1530",
        "lambda:GetFunction GetLayerVersion codecommit:GitPull GetFile GetBlob GetFolder "
        "codeartifact:GetPackageVersionAsset ecr:BatchGetImage GetDownloadUrlForLayer",
    ),
    Effect(  # in a log without data events this is the only trace of a download of encrypted objects
        "grave", "takes what a key encrypts, more than ever in the history", "Collection", "T1530", "kms:Decrypt",
    ),
    Effect(
        "severe", "reads secrets or parameters, more than ever in the history", "Credential Access", "T1555.006",
        "secretsmanager:GetSecretValue BatchGetSecretValue ssm:GetParameter GetParameters GetParametersByPath "
        "GetParameterHistory ec2:GetPasswordData apigateway:GetApiKey GetApiKeys appsync:ListApiKeys",
    ),
)  # fmt: skip

# Effects of calls that their request made graver, if that is another effect than the action's.
GRAVER_EFFECTS = (
    Effect(
        "grave", CODE_OF_OTHERS, "Privilege Escalation", "T1546",
        "codebuild:StartBuild StartBuildBatch ecs:RunTask StartTask",
    ),
    Effect(
        "grave", LAYER_OF_OTHERS, "Persistence", "T1546", "lambda:UpdateFunctionConfiguration CreateFunction",
    ),
    Effect(
        "grave", "reads all parameters of a region in plain text", "Credential Access", "T1555.006",
        "ssm:GetParametersByPath",
    ),
    Effect("grave", "replaces a machine's start script", "Privilege Escalation", "T1059.009", "ec2:ModifyInstanceAttribute"),
    Effect(
        "grave", COSTLY_MACHINES, "Impact", "T1496",
        "ec2:RunInstances RequestSpotInstances RequestSpotFleet CreateFleet ModifyFleet ModifySpotFleetRequest "
        "ecs:CreateService autoscaling:CreateAutoScalingGroup sagemaker:CreateTrainingJob CreateHyperParameterTuningJob "
        "CreateTransformJob CreateProcessingJob CreateApp UpdateNotebookInstance UpdateCluster lightsail:CreateInstances "
        "CreateInstancesFromSnapshot CreateContainerService UpdateContainerService eks:CreateNodegroup "
        "elasticmapreduce:RunJobFlow AddInstanceFleet AddInstanceGroups appstream:CreateImageBuilder UpdateFleet "
        "workspaces:CreateWorkspaces workspaces-instances:CreateWorkspaceInstance cloud9:CreateEnvironmentEC2 "
        "gamelift:UpdateFleetCapacity",
    ),
    Effect(
        "severe", "encrypts stored data with a key that only the caller has", "Impact", "T1486",
        "s3:PutObject CopyObject CreateMultipartUpload",
    ),
    Effect(
        "grave", "encrypts stored data with a key of another account", "Impact", "T1486",
        "s3:PutObject CopyObject CreateMultipartUpload",
    ),
    Effect("grave", "encrypts logs with a key of another account", "Impact", "T1486", "logs:AssociateKmsKey"),
    Effect(
        "notable", "reads a secret or password", "Credential Access", "T1555.006",
        "ssm:GetParameter GetParameters GetParametersByPath GetParameterHistory",
    ),
    Effect(
        "severe", "switches off threat detection", "Defense Evasion", "T1562.001",
        "guardduty:UpdateMemberDetectors macie2:UpdateMemberSession",
    ),
    Effect("severe", "has threat detection hide findings", "Defense Evasion", "T1562.001", "macie2:CreateFindingsFilter"),
    Effect(
        "grave", "weakens threat detection, or has it hide findings", "Defense Evasion", "T1562.001",
        "guardduty:UpdateOrganizationConfiguration securityhub:UpdateOrganizationConfiguration "
        "BatchUpdateStandardsControlAssociations macie2:UpdateAutomatedDiscoveryConfiguration inspector2:CreateFilter "
        "UpdateFilter",
    ),
    Effect("grave", "records less of the configuration", "Defense Evasion", "T1562.001", "config:PutConfigurationRecorder"),
    Effect("grave", "switches off what reacts to events", "Defense Evasion", "T1562.001", "events:PutRule"),
    Effect(
        "grave", "stops network or access logs", "Defense Evasion", "T1562.008",
        "elasticloadbalancing:ModifyLoadBalancerAttributes bedrock:PutModelInvocationLoggingConfiguration "
        "iot:SetLoggingOptions SetV2LoggingOptions SetV2LoggingLevel",
    ),
    Effect(
        "grave", "sends data to another account", "Exfiltration", "T1537",
        "logs:PutSubscriptionFilter PutAccountPolicy events:PutTargets oam:CreateLink",
    ),
    Effect(
        "grave", "shares images or snapshots with another account", "Exfiltration", "T1537",
        "imagebuilder:CreateDistributionConfiguration UpdateDistributionConfiguration dlm:CreateLifecyclePolicy",
    ),
    Effect("severe", "makes a role that outsiders may assume", "Persistence", "T1098.003", "iam:CreateRole"),
    Effect("grave", "makes a role that outsiders may assume", "Persistence", "T1098.003", "iam:CreateRole"),
    Effect("grave", "makes a policy of all rights", "Privilege Escalation", "T1098.003", "iam:CreatePolicy"),
    Effect(
        "grave", "lets devices read and write what all others send", "Privilege Escalation", "T1098",
        "iot:CreatePolicy CreatePolicyVersion",
    ),
    Effect(
        "grave", "makes a session with all rights, which outlives its key", "Defense Evasion", "T1550.001",
        "sts:GetFederationToken",
    ),
    Effect(
        "grave", "gives everybody credentials of an application", "Persistence", "T1556",
        "cognito-identity:CreateIdentityPool UpdateIdentityPool",
    ),
    Effect(
        "grave", "opens data to the public", "Exfiltration", "T1537",
        "quicksight:UpdatePublicSharingSettings elasticmapreduce:PutBlockPublicAccessConfiguration lightsail:UpdateBucket",
    ),
    Effect("grave", "lets backups or what is locked go", "Impact", "T1490", "dlm:UpdateLifecyclePolicy s3:PutObjectRetention"),
    Effect(
        "grave", "takes a key store or certificate authority out of use", "Impact", "T1489",
        "acm-pca:UpdateCertificateAuthority",
    ),
    Effect("notable", QUOTA, "Impact", "T1496", "support:CreateCase"),
)  # fmt: skip

# Effects of calls that their request made less grave, by the effect of the action, whose harm they did not do.
MILDER_EFFECTS = {
    COSTLY_MACHINES: STARTS_MACHINES,
    CODE_OF_OTHERS: "changes a project that runs code",
    LAYER_OF_OTHERS: "changes code or configuration that runs",
    "opens stored data to outsiders": "changes who may use stored data",
    "lets others use a resource": "changes who may use a resource",
    "lets others use a directory": "changes who may use a directory",
    "lets others reach a resource, or send to it": "changes who reaches a resource",
    "sends data to another account": "changes where data are sent",
    "copies stored data away": "copies stored data",
    "shares images or snapshots with another account": "sets how images or snapshots are made",
    "opens a network": "changes who reaches a network",
    "gives rights to a user or group": "changes rights of a user or group",
    "gives rights to all who have a policy": "changes a policy",
    "gives rights to a role": "changes rights of a role",
    "removes backups or the way back": "changes how data can be recovered",
    "switches off threat detection": "changes threat detection",
    "has threat detection trust addresses or hide findings": "changes threat detection",
    "stops or weakens the audit log": "changes the audit log",
    "stops network or access logs": "changes what is logged, or who reaches it",
    "stops or moves a bucket's access log": "changes what is logged",
    "reads the password of a connection to a database": "reads how a database is reached",
}
