"""What AWS would refuse of a resource: the models of its APIs, and the few rules that they leave open."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.infra import aws_model
from tests.infra.aws_calls import CALLS, OF_THE_PROVIDER
from tests.infra.eks_component import CONTROL_PLANE

# What the models leave open, with where it is written.
# https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutRetentionPolicy.html
RETENTION_DAYS = {
    1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653,
}  # fmt: skip
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html, and
# https://docs.aws.amazon.com/eks/latest/APIReference/API_Nodegroup.html
NAME_LENGTHS = {
    "CreateBucket": ("Bucket", 63),
    "CreateNodegroup": ("nodegroupName", 63),
    "CreateSecurityGroup": ("GroupName", 255),
}
# https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_LaunchTemplateInstanceNetworkInterfaceSpecificationRequest.html
INTERFACE_TYPES = {"interface", "efa", "efa-only"}
# https://docs.aws.amazon.com/kms/latest/APIReference/API_ScheduleKeyDeletion.html
DELETION_DAYS = range(7, 31)


def findings(kind: str, name: str, inputs: dict[str, Any]) -> list[str]:
    """What AWS would refuse of a resource. Raises LookupError for a type that this table doesn't have."""
    return [said for part, values in _parts(kind, inputs) for said in _of_part(part, name, values)]


def _of_part(kind: str, name: str, inputs: dict[str, Any]) -> Iterator[str]:
    if kind not in CALLS:
        raise LookupError(f"{kind}: no request of AWS's APIs is known for it; add it to CALLS or to WITHOUT_A_REQUEST")
    lost = [key for key in inputs if not any(call.place(key) for call in CALLS[kind]) and (kind, key) not in OF_THE_PROVIDER]
    yield from (f"{name}.{key}: no request takes it" for key in lost)
    for call in CALLS[kind]:
        request = call.request(name, inputs)
        yield from aws_model.findings(request, call.service, call.operation, dict(call.names))
        yield from _more(call.operation, request)


def _parts(kind: str, inputs: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """A resource as it is; the component of the control plane also as what it makes beside the cluster."""
    if kind != CONTROL_PLANE:
        yield kind, inputs
        return
    beside = ("accessEntries", "vpcCniOptions", "kubeProxyAddonOptions")
    yield kind, {key: value for key, value in inputs.items() if key not in beside}
    cluster = {"clusterName": inputs["name"]}
    for entry in inputs["accessEntries"].values():
        who = {**cluster, "principalArn": entry["principalArn"]}
        yield "aws:eks/accessEntry:AccessEntry", {**who, **{k: v for k, v in entry.items() if k != "accessPolicies"}}
        for policy in entry["accessPolicies"].values():
            yield "aws:eks/accessPolicyAssociation:AccessPolicyAssociation", {**who, **policy}
    for addon, options in (("vpc-cni", inputs["vpcCniOptions"]), ("kube-proxy", inputs["kubeProxyAddonOptions"])):
        content = {k: v for k, v in options.items() if k not in ("version", "configurationValues")}
        version = {"addonVersion": options["version"]} if "version" in options else {}
        yield "aws:eks/addon:Addon", {**cluster, "addonName": addon, **content, **version}


def _more(operation: str, request: dict[str, Any]) -> Iterator[str]:
    if operation == "PutRetentionPolicy" and request["retentionInDays"] not in RETENTION_DAYS:
        yield f"{operation}: {request['retentionInDays']:g} is no retention that CloudWatch has"
    if operation == "ScheduleKeyDeletion" and request.get("PendingWindowInDays", 30) not in DELETION_DAYS:
        yield f"{operation}: {request['PendingWindowInDays']:g} days are not within 7 and 30"
    member, longest = NAME_LENGTHS.get(operation, ("", 0))
    if member and len(request[member]) > longest:
        yield f"{operation}: {request[member]} is longer than {longest} characters"
    if operation == "CreateBucket" and request["Bucket"] != request["Bucket"].lower():
        yield f"{operation}: {request['Bucket']} has capital letters"
    for interface in request.get("LaunchTemplateData", {}).get("NetworkInterfaces", []):
        if interface.get("interfaceType", "interface") not in INTERFACE_TYPES:
            yield f"{operation}: {interface['interfaceType']} is no type of a network interface"
