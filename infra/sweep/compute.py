"""The cluster, instances, networks, load balancers: all of a kind are listed, and told apart by their tags here.

EC2's own filters can't say "with one of these tags": one list is less than a question for each tag.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from infra.answers import NotAsked
from infra.sweep.search import Search
from infra.teardown.found import Found

_TAGS_AT_ONCE = 20  # load balancers in one describe-tags
_UNPAGED = ("describe_addresses", "describe_placement_groups")


@dataclass(frozen=True)
class Ec2Kind:
    """How EC2 lists one resource type: operation, key of the answer, fields of name and state."""

    resource_type: str
    operation: str
    key: str
    name: str
    state: str = ""

    @property
    def permission(self) -> str:
        return "ec2:" + "".join(word.capitalize() for word in self.operation.split("_"))


EC2_KINDS = (
    Ec2Kind("instance", "describe_instances", "Reservations", "InstanceId", "State"),
    Ec2Kind("volume", "describe_volumes", "Volumes", "VolumeId", "State"),
    Ec2Kind("network-interface", "describe_network_interfaces", "NetworkInterfaces", "NetworkInterfaceId", "Status"),
    Ec2Kind("security-group", "describe_security_groups", "SecurityGroups", "GroupId"),
    Ec2Kind("security-group-rule", "describe_security_group_rules", "SecurityGroupRules", "SecurityGroupRuleId"),
    Ec2Kind("natgateway", "describe_nat_gateways", "NatGateways", "NatGatewayId", "State"),
    Ec2Kind("elastic-ip", "describe_addresses", "Addresses", "AllocationId"),
    Ec2Kind("vpc-endpoint", "describe_vpc_endpoints", "VpcEndpoints", "VpcEndpointId", "State"),
    Ec2Kind("route-table", "describe_route_tables", "RouteTables", "RouteTableId"),
    Ec2Kind("internet-gateway", "describe_internet_gateways", "InternetGateways", "InternetGatewayId"),
    Ec2Kind("subnet", "describe_subnets", "Subnets", "SubnetId"),
    Ec2Kind("vpc", "describe_vpcs", "Vpcs", "VpcId"),
    Ec2Kind("vpc-flow-log", "describe_flow_logs", "FlowLogs", "FlowLogId"),
    Ec2Kind("launch-template", "describe_launch_templates", "LaunchTemplates", "LaunchTemplateId"),
    Ec2Kind("placement-group", "describe_placement_groups", "PlacementGroups", "GroupName", "State"),
)


def cluster(search: Search) -> list[Found] | NotAsked:
    name = search.cluster_name
    found = search.account.ask(
        "eks:DescribeCluster",
        lambda: search.account.client("eks").describe_cluster(name=name)["cluster"],
        ("ResourceNotFoundException",),
    )
    if found is None or isinstance(found, NotAsked):
        return found or []
    return [Found(kind="eks:cluster", name=name, arn=found["arn"], state=found["status"])]


def of_ec2(search: Search, kind: Ec2Kind) -> list[Found] | NotAsked:
    items = _every(search, kind)
    if isinstance(items, NotAsked):
        return items
    # The interfaces of the control plane have no tag: https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html
    untagged = f"Amazon EKS {search.cluster_name}"
    return [
        Found(kind=f"ec2:{kind.resource_type}", name=one[kind.name], state=_state(one.get(kind.state, "")))
        for one in items
        if search.is_of_cluster(one.get("Tags") or one.get("TagSet")) or one.get("Description") == untagged
    ]


def _every(search: Search, kind: Ec2Kind) -> Any:
    if kind.operation in _UNPAGED:
        call = getattr(search.account.client("ec2"), kind.operation)
        return search.account.ask(kind.permission, lambda: call()[kind.key])
    found = search.account.ask_pages(kind.permission, "ec2", kind.operation, kind.key)
    if isinstance(found, NotAsked) or kind.key != "Reservations":
        return found
    return [one for group in found for one in group["Instances"]]


def _state(found: Any) -> str:
    """An instance's state is an object, a network interface's is a word."""
    return found["Name"] if isinstance(found, dict) else found


def scaling_groups(search: Search) -> list[Found] | NotAsked:
    """EKS makes one for each node group, and the tagging API doesn't list them."""
    found = search.account.ask_pages(
        "autoscaling:DescribeAutoScalingGroups", "autoscaling", "describe_auto_scaling_groups", "AutoScalingGroups"
    )
    if isinstance(found, NotAsked):
        return found
    ours = [one["AutoScalingGroupName"] for one in found if search.is_of_cluster(one.get("Tags"))]
    return [Found(kind="autoscaling:autoScalingGroup", name=name) for name in ours]


def load_balancers(search: Search) -> list[Found] | NotAsked:
    """Of both generations; a classic one's name has no slash. What a Service in the cluster made is here, not in the stack."""
    found: list[Found] = []
    for generation in (_NEW, _CLASSIC):
        names = _balancers(search, generation)
        if isinstance(names, NotAsked):
            return names
        found += names
    return found


@dataclass(frozen=True)
class _Generation:
    service: str
    key: str
    name: str
    ask_tags_by: str
    tags_of: str


_NEW = _Generation("elbv2", "LoadBalancers", "LoadBalancerArn", "ResourceArns", "ResourceArn")
_CLASSIC = _Generation("elb", "LoadBalancerDescriptions", "LoadBalancerName", "LoadBalancerNames", "LoadBalancerName")


def _balancers(search: Search, kind: _Generation) -> list[Found] | NotAsked:
    permission = "elasticloadbalancing:DescribeLoadBalancers"
    found = search.account.ask_pages(permission, kind.service, "describe_load_balancers", kind.key)
    if isinstance(found, NotAsked):
        return found
    ours: list[str] = []
    for some in _parts([one[kind.name] for one in found]):
        tagged = search.account.ask(
            "elasticloadbalancing:DescribeTags",
            lambda some=some: search.account.client(kind.service).describe_tags(**{kind.ask_tags_by: some})["TagDescriptions"],
        )
        if isinstance(tagged, NotAsked):
            return tagged
        ours += [one[kind.tags_of] for one in tagged if search.is_of_cluster(one["Tags"])]
    return [Found(kind="elasticloadbalancing:loadbalancer", name=name.split(":loadbalancer/")[-1],
                  arn=name if kind is _NEW else "") for name in ours]  # fmt: skip


def _parts(names: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(names), _TAGS_AT_ONCE):
        yield names[start : start + _TAGS_AT_ONCE]
