"""What a node is launched with: interfaces, disks, user data, capacity. Decided without an engine. Pure."""

from __future__ import annotations

import base64
from dataclasses import dataclass

from infra.eks_settings import CapacityBlock, GpuNodesSettings, OnDemand, Reservation, Spot
from infra.eks_versions import release_problems
from workload.errors import Problem

ROOT_DEVICE = "/dev/xvda"  # of AL2023: https://docs.aws.amazon.com/linux/al2023/ug/ec2.html
# IMDSv2 alone, and one hop: pods stay off the node's role, because Pod Identity gives them their own.
# https://docs.aws.amazon.com/eks/latest/best-practices/identity-and-access-management.html
IMDS_TOKENS = "required"
IMDS_HOP_LIMIT = 1
TAGGED = ("instance", "volume")  # what a launch template can tag: EKS doesn't pass a node group's tags on
_BOUNDARY = "ray-train-eks-node-config"
# https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/examples/#configuring-instance-store-volumes: kubelet and
# containerd move to the disks, so that images, /tmp/ray and local checkpoints are on them.
_NODE_CONFIG = """\
apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  instance:
    localStorage:
      strategy: RAID0
"""
# EKS's AMIs come without it, on purpose: https://github.com/awslabs/amazon-eks-ami/issues/2696. The packages are in S3.
_LUSTRE_CLIENT = """\
#!/bin/bash
dnf install -y lustre-client
"""


@dataclass(frozen=True)
class Interface:
    """One network interface of a node."""

    network_card_index: int
    device_index: int
    interface_type: str


def efa_interfaces(count: int) -> list[Interface]:
    """Exactly as many as the type has, one per network card.

    `efa-only` can't be the primary interface, and on further cards it spares an address each:
    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html
    """
    assert count >= 1, "EFA is on for a type that has none"
    first = Interface(network_card_index=0, device_index=0, interface_type="efa")
    return [first, *(Interface(network_card_index=card, device_index=1, interface_type="efa-only") for card in range(1, count))]


def user_data(local_disks: int = 0, *, lustre: bool = False) -> str | None:
    """Base64 of MIME parts that EKS merges with its own: https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html

    None if there is nothing to say: a node without local disks keeps everything on its root volume.
    """
    parts = [("text/x-shellscript", _LUSTRE_CLIENT)] if lustre else []
    if local_disks:
        parts.append(("application/node.eks.aws", _NODE_CONFIG))
    if not parts:
        return None
    lines = ["MIME-Version: 1.0", f'Content-Type: multipart/mixed; boundary="{_BOUNDARY}"', ""]
    for kind, text in parts:
        lines += [f"--{_BOUNDARY}", f"Content-Type: {kind}", "", text]
    return base64.b64encode("\n".join([*lines, f"--{_BOUNDARY}--", ""]).encode()).decode()


@dataclass(frozen=True)
class Capacity:
    """How the node group gets its instances: `capacity_type` is EKS's word, the rest goes into the launch template."""

    capacity_type: str
    reservation_id: str | None = None
    market_type: str | None = None
    placement_group: str | None = None  # one that exists already


def capacity_of(capacity: OnDemand | Spot | Reservation | CapacityBlock) -> Capacity:
    """https://docs.aws.amazon.com/eks/latest/userguide/capacity-blocks-mng.html for the last kind."""
    match capacity:
        case OnDemand():
            return Capacity("ON_DEMAND")
        case Spot():  # EKS refuses market options in the template of a spot group
            return Capacity("SPOT")
        case Reservation():
            return Capacity("ON_DEMAND", capacity.reservation_id, placement_group=capacity.placement_group)
        case CapacityBlock():
            return Capacity("CAPACITY_BLOCK", capacity.reservation_id, market_type="capacity-block")


def gpu_nodes_problems(settings: GpuNodesSettings, kubernetes_version: str) -> list[Problem]:
    """What is wrong with the GPU nodes' image, disk and capacity. Not here: what needs facts about the type."""
    problems = release_problems(kubernetes_version, settings.release_version, "gpuNodes.releaseVersion")
    if settings.placement_group and isinstance(settings.capacity, Reservation | CapacityBlock):
        # https://github.com/terraform-aws-modules/terraform-aws-eks/issues/3730
        reason = f"a {settings.capacity.kind} wasn't bought in the group that this makes: InsufficientInstanceCapacity"
        fix = "set gpuNodes.placementGroup: false; a reservation's own group goes into gpuNodes.capacity.placementGroup"
        problems.append(Problem("gpuNodes.placementGroup", "true", reason, fix))
    if settings.root_volume_throughput * 4 > settings.root_volume_iops:
        # https://docs.aws.amazon.com/ebs/latest/userguide/general-purpose.html: 0.25 MiB/s per provisioned IOPS
        needed = settings.root_volume_throughput * 4
        reason = f"gp3 gives 0.25 MiB/s per IOPS, and rootVolumeIops is {settings.root_volume_iops}"
        fix = f"set gpuNodes.rootVolumeIops to at least {needed}"
        problems.append(Problem("gpuNodes.rootVolumeThroughput", str(settings.root_volume_throughput), reason, fix))
    return problems
