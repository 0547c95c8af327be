"""Which requests each type of resource becomes: the link between what a program asks for and the models of the APIs.

An input goes to the member of the same name, or where its call says; one that no request takes is a finding, unless it is
the provider's own business and listed here with its reason.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.infra.aws_request import Call
from tests.infra.eks_component import CONTROL_PLANE

_TAGS = {"tags": "TagSpecifications[].Tags"}
_PERMISSION = {
    "securityGroupId": "GroupId", "ipProtocol": "IpPermissions[].IpProtocol", "fromPort": "IpPermissions[].FromPort",
    "toPort": "IpPermissions[].ToPort", "cidrIpv4": "IpPermissions[].IpRanges[].CidrIp",
    "referencedSecurityGroupId": "IpPermissions[].UserIdGroupPairs[].GroupId",
    "description": "IpPermissions[].UserIdGroupPairs[].Description",
}  # fmt: skip
_SOME_ID = "made-by-the-request-before"

CALLS: Mapping[str, tuple[Call, ...]] = {
    "aws:cloudwatch/logGroup:LogGroup": (
        Call("logs", "CreateLogGroup", named="logGroupName"),
        Call("logs", "PutRetentionPolicy", named="logGroupName"),
    ),
    "aws:ec2/eip:Eip": (Call("ec2", "AllocateAddress", _TAGS),),
    "aws:ec2/flowLog:FlowLog": (
        Call(
            "ec2", "CreateFlowLogs", {**_TAGS, "vpcId": "ResourceIds[]", "iamRoleArn": "DeliverLogsPermissionArn"},
            given={"ResourceType": "VPC"},
        ),
    ),
    "aws:ec2/internetGateway:InternetGateway": (
        Call("ec2", "CreateInternetGateway", _TAGS),
        Call("ec2", "AttachInternetGateway", given={"InternetGatewayId": _SOME_ID}),
    ),
    "aws:ec2/launchTemplate:LaunchTemplate": (
        Call(
            "ec2", "CreateLaunchTemplate", named="LaunchTemplateName", within="LaunchTemplateData",
            names={"securityGroups": "Groups"},
        ),
    ),
    "aws:ec2/natGateway:NatGateway": (Call("ec2", "CreateNatGateway", _TAGS),),
    "aws:ec2/placementGroup:PlacementGroup": (Call("ec2", "CreatePlacementGroup", _TAGS, named="GroupName"),),
    "aws:ec2/route:Route": (Call("ec2", "CreateRoute"),),
    "aws:ec2/routeTable:RouteTable": (Call("ec2", "CreateRouteTable", _TAGS),),
    "aws:ec2/routeTableAssociation:RouteTableAssociation": (Call("ec2", "AssociateRouteTable"),),
    "aws:ec2/securityGroup:SecurityGroup": (Call("ec2", "CreateSecurityGroup", _TAGS, named="GroupName"),),
    "aws:ec2/subnet:Subnet": (
        Call("ec2", "CreateSubnet", _TAGS),
        Call(
            "ec2", "ModifySubnetAttribute", {"mapPublicIpOnLaunch": "MapPublicIpOnLaunch.Value"}, given={"SubnetId": _SOME_ID}
        ),
    ),
    "aws:ec2/vpc:Vpc": (
        Call("ec2", "CreateVpc", _TAGS),
        Call(
            "ec2", "ModifyVpcAttribute",
            {"enableDnsSupport": "EnableDnsSupport.Value", "enableDnsHostnames": "EnableDnsHostnames.Value"},
            given={"VpcId": _SOME_ID},
        ),
    ),
    "aws:ec2/vpcEndpoint:VpcEndpoint": (Call("ec2", "CreateVpcEndpoint", _TAGS),),
    "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule": (Call("ec2", "AuthorizeSecurityGroupEgress", _PERMISSION),),
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": (Call("ec2", "AuthorizeSecurityGroupIngress", _PERMISSION),),
    "aws:efs/accessPoint:AccessPoint": (Call("efs", "CreateAccessPoint", given={"ClientToken": "token"}),),
    "aws:efs/backupPolicy:BackupPolicy": (Call("efs", "PutBackupPolicy"),),
    "aws:efs/fileSystem:FileSystem": (Call("efs", "CreateFileSystem", given={"CreationToken": "token"}),),
    "aws:efs/mountTarget:MountTarget": (Call("efs", "CreateMountTarget"),),
    "aws:eks/accessEntry:AccessEntry": (Call("eks", "CreateAccessEntry"),),
    "aws:eks/accessPolicyAssociation:AccessPolicyAssociation": (Call("eks", "AssociateAccessPolicy"),),
    "aws:eks/addon:Addon": (
        Call("eks", "CreateAddon", {"resolveConflictsOnCreate": "resolveConflicts"}),
        Call("eks", "UpdateAddon", {"resolveConflictsOnUpdate": "resolveConflicts"}),
    ),
    "aws:eks/nodeGroup:NodeGroup": (
        Call("eks", "CreateNodegroup", {"nodeRoleArn": "nodeRole", "subnetIds": "subnets"}, named="nodegroupName"),
    ),
    "aws:eks/podIdentityAssociation:PodIdentityAssociation": (Call("eks", "CreatePodIdentityAssociation"),),
    CONTROL_PLANE: (
        Call(
            "eks", "CreateCluster",
            {
                "privateSubnetIds": "resourcesVpcConfig.subnetIds",
                "endpointPrivateAccess": "resourcesVpcConfig.endpointPrivateAccess",
                "endpointPublicAccess": "resourcesVpcConfig.endpointPublicAccess",
                "publicAccessCidrs": "resourcesVpcConfig.publicAccessCidrs",
                "encryptionConfigKeyArn": "encryptionConfig[].provider.keyArn",
                "enabledClusterLogTypes": "logging.clusterLogging[].types",
                "authenticationMode": "accessConfig.authenticationMode",
                "kubernetesServiceIpAddressRange": "kubernetesNetworkConfig.serviceIpv4Cidr",
            },
            given={"roleArn": _SOME_ID},
        ),
    ),
    "aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation": (Call("fsx", "CreateDataRepositoryAssociation"),),
    "aws:fsx/lustreFileSystem:LustreFileSystem": (
        Call(
            "fsx", "CreateFileSystem",
            {
                "subnetIds": "SubnetIds[]", "securityGroupIds": "SecurityGroupIds", "storageCapacity": "StorageCapacity",
                "fileSystemTypeVersion": "FileSystemTypeVersion",
            },
            within="LustreConfiguration", given={"FileSystemType": "LUSTRE"},
        ),
    ),
    "aws:iam/role:Role": (Call("iam", "CreateRole", {"assumeRolePolicy": "AssumeRolePolicyDocument"}, named="RoleName"),),
    "aws:iam/rolePolicy:RolePolicy": (
        Call("iam", "PutRolePolicy", {"role": "RoleName", "policy": "PolicyDocument"}, named="PolicyName"),
    ),
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment": (Call("iam", "AttachRolePolicy", {"role": "RoleName"}),),
    "aws:kms/key:Key": (
        Call("kms", "CreateKey"),
        Call("kms", "ScheduleKeyDeletion", {"deletionWindowInDays": "PendingWindowInDays"}, given={"KeyId": _SOME_ID}),
    ),
    "aws:kms/keyPolicy:KeyPolicy": (Call("kms", "PutKeyPolicy"),),
    "aws:s3/bucket:Bucket": (Call("s3", "CreateBucket", named="Bucket"),),
    "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration": (
        Call("s3", "PutBucketLifecycleConfiguration", {"rules": "LifecycleConfiguration.Rules"}),
    ),
    "aws:s3/bucketOwnershipControls:BucketOwnershipControls": (
        Call("s3", "PutBucketOwnershipControls", {"rule": "OwnershipControls.Rules[]"}),
    ),
    "aws:s3/bucketPolicy:BucketPolicy": (Call("s3", "PutBucketPolicy"),),
    "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock": (
        Call("s3", "PutPublicAccessBlock", {"bucket": "Bucket"}, within="PublicAccessBlockConfiguration"),
    ),
    "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration": (
        Call("s3", "PutBucketEncryption", {"rules": "ServerSideEncryptionConfiguration.Rules"}),
    ),
    "aws:s3/bucketVersioning:BucketVersioning": (Call("s3", "PutBucketVersioning"),),
}  # fmt: skip
# Types that become no request with values of ours.
WITHOUT_A_REQUEST: Mapping[str, str] = {
    "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup": "adopts the group that AWS made and takes its rules away",
}
# Inputs that tell the provider what to do, and become no value in a request.
OF_THE_PROVIDER: Mapping[tuple[str, str], str] = {
    ("aws:ec2/securityGroup:SecurityGroup", "revokeRulesOnDelete"): "what a destroy does first",
    ("aws:kms/key:Key", "enableKeyRotation"): "whether EnableKeyRotation is called at all",
    ("aws:s3/bucket:Bucket", "forceDestroy"): "whether a destroy empties the bucket",
    (CONTROL_PLANE, "vpcId"): "follows from the subnets; the component needs it for groups that are not made",
    (CONTROL_PLANE, "skipDefaultNodeGroup"): "what the component leaves out",
    (CONTROL_PLANE, "skipDefaultSecurityGroups"): "what the component leaves out",
}
