"""What a cluster's settings mean: who may reach it, who may change it, what its nodes may do. Pure."""

from __future__ import annotations

import ipaddress
import json
import re

from infra.eks_settings import ClusterSettings
from infra.eks_versions import kubernetes_problems, release_problems
from infra.node_labels import tolerations
from workload.errors import Problem

SYSTEM_ZONES = 2  # the first ones: a group whose subnets change is replaced, and a zone that is added later would do that
# What a node needs and no more: https://docs.aws.amazon.com/eks/latest/userguide/create-node-role.html
NODE_POLICIES = ("AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly", "AmazonEKS_CNI_Policy")
NODE_TRUST = json.dumps({
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}],
})  # fmt: skip
# https://datatracker.ietf.org/doc/html/rfc1918, and https://datatracker.ietf.org/doc/html/rfc6598 for the last
_PRIVATE = tuple(map(ipaddress.IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10")))
_PARTITIONS = {"cn-": "aws-cn", "us-gov-": "aws-us-gov"}


def cluster_problems(settings: ClusterSettings) -> list[Problem]:
    """What is wrong with the control plane and the system nodes' image. Not here: what needs facts about instance types."""
    release = settings.system_nodes.release_version
    return [
        *kubernetes_problems(settings.kubernetes_version),
        *_endpoint_problems(settings),
        *release_problems(settings.kubernetes_version, release, "cluster.systemNodes.releaseVersion"),
    ]


def cluster_notes(settings: ClusterSettings) -> list[str]:
    """What a preview says of settings that only work from the right place."""
    if settings.public_access_cidrs:
        return []
    reach = "only the VPC reaches the API server, so pulumi up must run where the VPC is reached (a machine in it, a VPN)"
    fix = "elsewhere it ends once the cluster stands. Name your address, such as 203.0.113.7/32, to run it from there"
    return [f"cluster.publicAccessCidrs is empty: {reach}; {fix}"]


def _endpoint_problems(settings: ClusterSettings) -> list[Problem]:
    problems: list[Problem] = []
    for index, cidr in enumerate(settings.public_access_cidrs):
        key = f"cluster.publicAccessCidrs[{index}]"
        try:
            network = ipaddress.IPv4Network(cidr)
        except ValueError as error:
            problems.append(Problem(key, cidr, str(error), "write the network's own address, such as 203.0.113.0/24"))
            continue
        if network.prefixlen == 0 and not settings.open_to_the_internet:
            fix = "name the networks that need it, or set cluster.openToTheInternet: true"
            problems.append(Problem(key, cidr, "opens the cluster's endpoint to the whole internet", fix))
        elif any(network.subnet_of(private) for private in _PRIVATE):
            reason = "is a private network, which never reaches the public endpoint"
            problems.append(
                Problem(key, cidr, reason, "remove it: private networks use the private endpoint, which is always on")
            )
    if settings.open_to_the_internet and "0.0.0.0/0" not in settings.public_access_cidrs:
        reason = "has no effect: publicAccessCidrs doesn't hold 0.0.0.0/0"
        problems.append(Problem("cluster.openToTheInternet", "true", reason, "set it to false"))
    return problems


def admin_keys(arns: tuple[str, ...]) -> dict[str, str]:
    """Key -> ARN. Keys come from the ARN, not from its place in the list: removing one admin leaves the others alone."""
    return {re.sub(r"[^A-Za-z0-9]+", "-", arn.split("::", 1)[1]).strip("-"): arn for arn in arns}


def partition(region: str) -> str:
    """https://docs.aws.amazon.com/whitepapers/latest/aws-fault-isolation-boundaries/partitions.html"""
    special = (name for prefix, name in _PARTITIONS.items() if region.startswith(prefix))
    return next(special, "aws")


def monitoring_configuration() -> str:
    """The node monitoring agent's settings, as an add-on takes them.

    The agent tolerates everything, but its DCGM part tolerates nothing: it would stay off the tainted GPU nodes, leave
    AcceleratedHardwareReady false, and node repair would replace healthy nodes in the middle of a run
    (https://github.com/aws/eks-node-monitoring-agent, charts/eks-node-monitoring-agent/values.yaml).
    """
    return json.dumps({"dcgmAgent": {"tolerations": tolerations()}}, separators=(",", ":"), sort_keys=True)
