"""The cluster, instances, networks, load balancers: asked by tag, or listed and told apart by their tags."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from infra.answers import NotAsked
from infra.sweep.search import Search
from infra.teardown.found import Found

_TAGS_AT_ONCE = 20  # load balancers in one describe-tags
_UNPAGED = ("describe_addresses", "describe_placement_groups")
_SINGULAR_FILTER = ("describe_nat_gateways", "describe_flow_logs")


@dataclass(frozen=True)
class Ec2Kind:
    """How EC2 lists one resource type: operation, key of the answer, fields of name and state."""

    resource_type: str
    operation: str
    key: str
    name: str
    state: str = ""
    of_cluster: bool = False  # also made by EKS and by controllers in the cluster

    @property
    def permission(self) -> str:
        return "ec2:" + "".join(word.capitalize() for word in self.operation.split("_"))


_INSTANCES = Ec2Kind("instance", "describe_instances", "Reservations", "InstanceId", "State", of_cluster=True)
EC2_KINDS = (
    Ec2Kind("volume", "describe_volumes", "Volumes", "VolumeId", "State", of_cluster=True),
    Ec2Kind(
        "network-interface", "describe_network_interfaces", "NetworkInterfaces", "NetworkInterfaceId", "Status", of_cluster=True
    ),
    Ec2Kind("security-group", "describe_security_groups", "SecurityGroups", "GroupId", of_cluster=True),
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


def instances(search: Search) -> list[Found] | NotAsked:
    groups = _tagged(search, _INSTANCES)
    if isinstance(groups, NotAsked):
        return groups
    states = {one["InstanceId"]: one["State"]["Name"] for group in groups for one in group["Instances"]}
    return [Found(kind="ec2:instance", name=name, state=state) for name, state in states.items()]


def of_ec2(search: Search, kind: Ec2Kind) -> list[Found] | NotAsked:
    items = _tagged(search, kind)
    if not isinstance(items, NotAsked) and kind.resource_type == "network-interface":
        # The control plane's have no tag: https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html
        more = _filtered(search, kind, "description", f"Amazon EKS {search.cluster_name}")
        items = more if isinstance(more, NotAsked) else items + more
    if isinstance(items, NotAsked):
        return items
    states = {one[kind.name]: one.get(kind.state, "") for one in items}
    return [Found(kind=f"ec2:{kind.resource_type}", name=name, state=state) for name, state in states.items()]


def _tagged(search: Search, kind: Ec2Kind) -> Any:
    items: list[Any] = []
    for query in search.tag_queries(of_cluster=kind.of_cluster):
        found = _filtered(search, kind, *(text for key, value in query for text in (f"tag:{key}", value)))
        if isinstance(found, NotAsked):
            return found
        items += found
    return items


def _filtered(search: Search, kind: Ec2Kind, *names_and_values: str) -> Any:
    pairs = zip(names_and_values[::2], names_and_values[1::2], strict=True)
    filters = [{"Name": name, "Values": [value]} for name, value in pairs]
    wanted = {"Filter" if kind.operation in _SINGULAR_FILTER else "Filters": filters}
    if kind.operation in _UNPAGED:
        call = getattr(search.account.client("ec2"), kind.operation)
        return search.account.ask(kind.permission, lambda: call(**wanted)[kind.key])
    return search.account.ask_pages(kind.permission, "ec2", kind.operation, kind.key, **wanted)


def scaling_groups(search: Search) -> list[Found] | NotAsked:
    """EKS makes one for each node group. Its tags are no filter's business: the list is short."""
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
