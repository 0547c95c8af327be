"""What EKS and nodeadm take of a managed node group's launch template and its user data, and what both fill in themselves."""

from __future__ import annotations

import base64
import binascii
import email
from collections.abc import Iterator
from email.message import Message
from typing import Any

import yaml
from jsonschema import Draft202012Validator

from infra import instance_types

CONTENT_TYPE = "application/node.eks.aws"
USER_DATA_LIMIT = 16 * 1024  # before encoding: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/user-data.html


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": properties}


# https://github.com/awslabs/amazon-eks-ami/blob/main/nodeadm/api/v1alpha1/nodeconfig_types.go, without `cluster`: EKS adds
# name, endpoint, authority and service CIDR of the cluster for a group that names no image of its own.
NODE_CONFIG = {
    **_object(
        apiVersion={"const": "node.eks.aws/v1alpha1"},
        kind={"const": "NodeConfig"},
        metadata={"type": "object"},
        spec=_object(
            containerd=_object(config={"type": "string"}, baseRuntimeSpec={"type": "object"}),
            instance=_object(
                localStorage=_object(
                    strategy={"enum": ["RAID0", "RAID10", "Mount"]},
                    mountPath={"type": "string", "pattern": "^/"},
                    disabledMounts={"type": "array", "items": {"enum": ["Containerd", "PodLogs"]}},
                )
            ),
            kubelet=_object(config={"type": "object"}, flags={"type": "array", "items": {"type": "string"}}),
            featureGates={"type": "object", "additionalProperties": {"type": "boolean"}},
        ),
    ),
    "required": ["apiVersion", "kind", "spec"],
}
# What a template may not hold under a managed group: https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html
OF_THE_GROUP = {
    "iamInstanceProfile": "the group's role decides it",
    "hibernationOptions": "refused",
    "instanceInitiatedShutdownBehavior": "EKS controls the life of its instances",
    "imageId": "it would switch off amiType, releaseVersion and what EKS merges into the user data",
    "keyName": "nobody logs in to nodes",
    "disableApiTermination": "it would keep the group from being deleted",
}
# What a group may not name beside a template, for the same reason.
OF_THE_TEMPLATE = ("diskSize", "remoteAccess", "instanceTypes")


def user_data_findings(encoded: str) -> list[str]:
    try:
        raw = base64.b64decode(encoded, validate=True)
    except binascii.Error as error:
        return [f"not base64: {error}"]
    message = email.message_from_bytes(raw)
    if message.get_content_type() != "multipart/mixed" or message.defects:
        return [f"not MIME that EKS can merge: {message.get_content_type()} {message.defects}"]
    too_long = [f"{len(raw)} bytes, where {USER_DATA_LIMIT} are allowed"] if len(raw) > USER_DATA_LIMIT else []
    return too_long + [said for part in message.get_payload() if isinstance(part, Message) for said in _part(part)]


def _part(part: Message) -> Iterator[str]:
    if part.get_content_type() == "text/x-shellscript" and str(part.get_payload()).startswith("#!/"):
        return  # cloud-init runs it before nodeadm does
    if part.get_content_type() != CONTENT_TYPE:
        yield f"a part of type {part.get_content_type()}: nodeadm reads {CONTENT_TYPE}"
        return
    config = yaml.safe_load(str(part.get_payload()))
    for error in Draft202012Validator(NODE_CONFIG).iter_errors(config):
        yield f"{error.json_path}: {error.message}"


def template_findings(template: dict[str, Any], group: dict[str, Any]) -> list[str]:
    found = [f"{key}: {reason}" for key, reason in OF_THE_GROUP.items() if key in template]
    found += [f"{key}: the template has it" for key in OF_THE_TEMPLATE if key in group]
    found += ["amiType is missing, so the group would have an image of EKS's choice"] if "amiType" not in group else []
    interfaces = template.get("networkInterfaces", [])
    if interfaces and "vpcSecurityGroupIds" in template:
        found.append("vpcSecurityGroupIds: the interfaces name their own")
    found += [
        f"networkInterfaces[{i}].subnetId: the group decides it" for i, each in enumerate(interfaces) if "subnetId" in each
    ]
    return found + _storage(template)


def _storage(template: dict[str, Any]) -> list[str]:
    """Disks that nobody mounts are paid for nothing, and a RAID of none keeps a node from joining."""
    kind = instance_types.KNOWN.get(template["instanceType"])
    if bool(kind and kind.local_disk_gb) != ("userData" in template):
        return [f"userData: {template['instanceType']} has {kind.local_disk_gb if kind else 0} GB of local disks"]
    return []
