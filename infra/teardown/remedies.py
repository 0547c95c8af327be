"""The command that looks at or removes a thing, for whoever decides that it shall go. Pure; nothing here is run."""

from __future__ import annotations

import shlex

from infra.teardown.found import Found

# {name} is quoted for a shell. What AWS or EKS manages is looked at first: it goes with its owner.
_COMMANDS = {
    "autoscaling:autoScalingGroup": "aws autoscaling delete-auto-scaling-group --auto-scaling-group-name {name} --force-delete",
    "ec2:elastic-ip": "aws ec2 release-address --allocation-id {name}",
    "ec2:instance": "aws ec2 terminate-instances --instance-ids {name}",
    "ec2:internet-gateway": "aws ec2 describe-internet-gateways --internet-gateway-ids {name}",
    "ec2:launch-template": "aws ec2 delete-launch-template --launch-template-id {name}",
    "ec2:natgateway": "aws ec2 delete-nat-gateway --nat-gateway-id {name}",
    "ec2:network-interface": "aws ec2 delete-network-interface --network-interface-id {name}",
    "ec2:placement-group": "aws ec2 delete-placement-group --group-name {name}",
    "ec2:route-table": "aws ec2 delete-route-table --route-table-id {name}",
    "ec2:security-group": "aws ec2 delete-security-group --group-id {name}",
    "ec2:security-group-rule": "aws ec2 describe-security-group-rules --security-group-rule-ids {name}",
    "ec2:subnet": "aws ec2 delete-subnet --subnet-id {name}",
    "ec2:volume": "aws ec2 delete-volume --volume-id {name}",
    "ec2:vpc": "aws ec2 delete-vpc --vpc-id {name}",
    "ec2:vpc-endpoint": "aws ec2 delete-vpc-endpoints --vpc-endpoint-ids {name}",
    "ec2:vpc-flow-log": "aws ec2 delete-flow-logs --flow-log-ids {name}",
    "eks:cluster": "aws eks describe-cluster --name {name}",
    "elasticfilesystem:access-point": "aws efs delete-access-point --access-point-id {name}",
    "elasticfilesystem:file-system": "aws efs delete-file-system --file-system-id {name}",
    "elasticloadbalancing:loadbalancer": "aws elbv2 delete-load-balancer --load-balancer-arn {arn}",
    "fsx:file-system": "aws fsx delete-file-system --file-system-id {name}",
    "iam:role": "aws iam list-attached-role-policies --role-name {name}; aws iam list-role-policies --role-name {name};"
    " then detach and delete those, and: aws iam delete-role --role-name {name}",
    "kms:key": "aws kms schedule-key-deletion --key-id {name} --pending-window-in-days 30",
    "logs:log-group": "aws logs delete-log-group --log-group-name {name}",
}
# `aws s3 rb --force` leaves versions, and then the bucket.
_BUCKET = "import boto3; bucket = boto3.resource('s3').Bucket('{name}'); bucket.object_versions.delete(); bucket.delete()"


def remedy(found: Found, region: str) -> str:
    """One line for a shell. Of a kind without a command of its own: the tags that name its owner."""
    if found.kind == "s3:bucket":
        return f'python -c "{_BUCKET.format(name=found.name)}"'
    if found.kind == "elasticloadbalancing:loadbalancer" and "/" not in found.name:
        return f"aws elb delete-load-balancer --load-balancer-name {shlex.quote(found.name)} --region {region}"
    command = _COMMANDS.get(found.kind)
    if command is None:
        return f"aws resourcegroupstaggingapi get-resources --resource-arn-list {shlex.quote(found.arn)} --region {region}"
    filled = command.format(name=shlex.quote(found.name), arn=shlex.quote(found.arn))
    return filled if found.kind == "iam:role" else f"{filled} --region {region}"
