"""Network: the VPC and what nodes need in it. Whose address range is which, is decided in `subnets.py`.

Tags: only Name and what Kubernetes reads; the provider adds the rest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import pulumi_aws as aws
from pulumi import ComponentResource, Input, Resource, ResourceOptions

from infra import subnets
from infra.eks_settings import NetworkSettings

# Where load balancers may go: https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html
_PUBLIC_ROLE = {"kubernetes.io/role/elb": "1"}
_PRIVATE_ROLE = {"kubernetes.io/role/internal-elb": "1"}
_ANYWHERE = "0.0.0.0/0"


class Network(ComponentResource):
    """Outputs: vpc_id; private_subnet_ids and public_subnet_ids by zone; ready, what nodes must wait for.

    In a VPC that exists already nothing is made: its subnets must reach the internet, or mirrors of it, already.
    """

    vpc_id: Input[str]
    private_subnet_ids: Mapping[str, Input[str]]
    public_subnet_ids: Mapping[str, Input[str]]
    ready: list[Resource]

    def __init__(self, name: str, settings: NetworkSettings, opts: ResourceOptions | None = None) -> None:
        super().__init__("ray-train-eks:index:Network", name, None, opts)
        self._name, self._settings, self._child = name, settings, ResourceOptions(parent=self)
        self.ready = []
        if settings.own_vpc:
            self.vpc_id = settings.own_vpc.vpc_id
            self.private_subnet_ids = {subnet.zone: subnet.id for subnet in settings.own_vpc.private_subnets}
            self.public_subnet_ids = {}
        else:
            self._create()
        outputs = {"vpcId": self.vpc_id, "privateSubnetIds": self.private_subnet_ids, "publicSubnetIds": self.public_subnet_ids}
        self.register_outputs(outputs)

    def private_subnet_id(self, zone: str) -> Input[str]:
        return self.private_subnet_ids[zone]

    def _create(self) -> None:
        plan = subnets.plan(self._settings.cidr, self._settings.zones)
        vpc = self._create_vpc()
        self.vpc_id = vpc.id
        public = {zone: self._create_subnet(vpc, "public", zone, cidr) for zone, cidr in plan.public.items()}
        private = {zone: self._create_subnet(vpc, "private", zone, cidr) for zone, cidr in plan.private.items()}
        self.public_subnet_ids = {zone: subnet.id for zone, subnet in public.items()}
        self.private_subnet_ids = {zone: subnet.id for zone, subnet in private.items()}
        gateways = self._create_nat(public, self._create_public_route(vpc, public))
        tables = self._create_private_routes(vpc, private, gateways)
        self._create_s3_endpoint(vpc, tables)
        if self._settings.interface_endpoints:
            self._create_interface_endpoints(vpc)
        if self._settings.flow_logs:
            self._create_flow_logs(vpc)

    def _tags(self, role: str, more: Mapping[str, str] | None = None) -> dict[str, str]:
        return {"Name": f"{self._name}-{role}", **(more or {})}

    def _create_vpc(self) -> aws.ec2.Vpc:
        vpc = aws.ec2.Vpc(
            f"{self._name}-vpc",
            cidr_block=self._settings.cidr,
            enable_dns_support=True,
            enable_dns_hostnames=True,  # a private endpoint of the cluster needs both
            tags=self._tags("vpc"),
            opts=self._child,
        )
        # Adopted, and emptied: what names no security group of its own can then reach nothing.
        aws.ec2.DefaultSecurityGroup(
            f"{self._name}-default-security-group",
            vpc_id=vpc.id,
            ingress=[],
            egress=[],
            tags=self._tags("default-closed"),
            opts=self._child,
        )
        return vpc

    def _create_subnet(self, vpc: aws.ec2.Vpc, kind: str, zone: str, cidr: str) -> aws.ec2.Subnet:
        return aws.ec2.Subnet(
            f"{self._name}-{kind}-{zone}",
            vpc_id=vpc.id,
            availability_zone=zone,
            cidr_block=cidr,
            map_public_ip_on_launch=False,  # only NAT gateways are in public subnets, and they bring their address
            tags=self._tags(f"{kind}-{zone}", _PUBLIC_ROLE if kind == "public" else _PRIVATE_ROLE),
            opts=self._child,
        )

    def _create_public_route(self, vpc: aws.ec2.Vpc, public: Mapping[str, aws.ec2.Subnet]) -> aws.ec2.Route:
        internet = aws.ec2.InternetGateway(
            f"{self._name}-internet", vpc_id=vpc.id, tags=self._tags("internet"), opts=self._child
        )
        table = aws.ec2.RouteTable(f"{self._name}-public-routes", vpc_id=vpc.id, tags=self._tags("public"), opts=self._child)
        route = aws.ec2.Route(
            f"{self._name}-public-internet",
            route_table_id=table.id,
            destination_cidr_block=_ANYWHERE,
            gateway_id=internet.id,
            opts=self._child,
        )
        self.ready += [route, *(self._associate("public", zone, subnet, table) for zone, subnet in public.items())]
        return route

    def _associate(
        self, kind: str, zone: str, subnet: aws.ec2.Subnet, table: aws.ec2.RouteTable
    ) -> aws.ec2.RouteTableAssociation:
        return aws.ec2.RouteTableAssociation(
            f"{self._name}-{kind}-{zone}-association", subnet_id=subnet.id, route_table_id=table.id, opts=self._child
        )

    def _create_nat(self, public: Mapping[str, aws.ec2.Subnet], internet: aws.ec2.Route) -> dict[str, aws.ec2.NatGateway]:
        """The gateway that each zone uses: its own, or the one in the first zone."""
        zones = list(public)
        made = {zone: self._create_gateway(zone, public[zone], internet) for zone in zones[: self._gateway_count(zones)]}
        return {zone: made.get(zone, made[zones[0]]) for zone in zones}

    def _gateway_count(self, zones: list[str]) -> int:
        return len(zones) if self._settings.nat == "per-zone" else 1

    def _create_gateway(self, zone: str, subnet: aws.ec2.Subnet, internet: aws.ec2.Route) -> aws.ec2.NatGateway:
        after = ResourceOptions(parent=self, depends_on=[internet])  # AWS makes neither before there is a way out
        address = aws.ec2.Eip(f"{self._name}-nat-{zone}-address", domain="vpc", tags=self._tags(f"nat-{zone}"), opts=after)
        return aws.ec2.NatGateway(
            f"{self._name}-nat-{zone}",
            subnet_id=subnet.id,
            allocation_id=address.id,
            tags=self._tags(f"nat-{zone}"),
            opts=after,
        )

    def _create_private_routes(
        self, vpc: aws.ec2.Vpc, private: Mapping[str, aws.ec2.Subnet], gateways: Mapping[str, aws.ec2.NatGateway]
    ) -> list[aws.ec2.RouteTable]:
        """One table for each zone, also with one gateway: going from one to one per zone then changes routes, not tables."""
        tables = []
        for zone, subnet in private.items():
            role = f"private-{zone}"
            table = aws.ec2.RouteTable(f"{self._name}-{role}-routes", vpc_id=vpc.id, tags=self._tags(role), opts=self._child)
            route = aws.ec2.Route(
                f"{self._name}-{role}-nat",
                route_table_id=table.id,
                destination_cidr_block=_ANYWHERE,
                nat_gateway_id=gateways[zone].id,
                opts=self._child,
            )
            self.ready += [route, self._associate("private", zone, subnet, table)]
            tables.append(table)
        return tables

    @property
    def _region(self) -> str:
        return self._settings.zones[0][:-1]

    def _create_s3_endpoint(self, vpc: aws.ec2.Vpc, tables: list[aws.ec2.RouteTable]) -> None:
        """Checkpoints and image layers come and go by it: past the NAT gateway, which costs by the byte."""
        endpoint = aws.ec2.VpcEndpoint(
            f"{self._name}-s3",
            vpc_id=vpc.id,
            service_name=f"com.amazonaws.{self._region}.s3",
            vpc_endpoint_type="Gateway",
            route_table_ids=[table.id for table in tables],
            tags=self._tags("s3"),
            opts=self._child,
        )
        self.ready.append(endpoint)

    def _create_interface_endpoints(self, vpc: aws.ec2.Vpc) -> None:
        group = aws.ec2.SecurityGroup(
            f"{self._name}-endpoints",
            description="Interface endpoints: HTTPS from the VPC",
            vpc_id=vpc.id,
            tags=self._tags("endpoints"),
            opts=self._child,
        )
        rule = aws.vpc.SecurityGroupIngressRule(
            f"{self._name}-endpoints-https",
            security_group_id=group.id,
            description="HTTPS from the VPC",
            cidr_ipv4=self._settings.cidr,
            ip_protocol="tcp",
            from_port=443,
            to_port=443,
            opts=self._child,
        )
        self.ready.append(rule)
        for service in self._settings.interface_endpoints:
            role = service.replace(".", "-")
            endpoint = aws.ec2.VpcEndpoint(
                f"{self._name}-{role}",
                vpc_id=vpc.id,
                service_name=f"com.amazonaws.{self._region}.{service}",
                vpc_endpoint_type="Interface",
                private_dns_enabled=True,
                subnet_ids=list(self.private_subnet_ids.values()),
                security_group_ids=[group.id],
                tags=self._tags(role),
                opts=self._child,
            )
            self.ready.append(endpoint)

    def _create_flow_logs(self, vpc: aws.ec2.Vpc) -> None:
        group = aws.cloudwatch.LogGroup(
            f"{self._name}-flow-logs-group",
            retention_in_days=self._settings.flow_log_retention_days,
            tags=self._tags("flow-logs"),
            opts=self._child,
        )
        role = aws.iam.Role(
            f"{self._name}-flow-logs-role",
            assume_role_policy=group.arn.apply(flow_log_trust),
            tags=self._tags("flow-logs"),
            opts=self._child,
        )
        rights = aws.iam.RolePolicy(
            f"{self._name}-flow-logs-rights", role=role.name, policy=group.arn.apply(flow_log_rights), opts=self._child
        )
        aws.ec2.FlowLog(
            f"{self._name}-flow-logs",
            vpc_id=vpc.id,
            traffic_type="ALL",
            log_destination_type="cloud-watch-logs",
            log_destination=group.arn,
            iam_role_arn=role.arn,
            tags=self._tags("flow-logs"),
            opts=ResourceOptions(parent=self, depends_on=[rights]),
        )


def flow_log_trust(group_arn: str) -> str:
    """Only flow logs of this account and region may take the role:
    https://docs.aws.amazon.com/vpc/latest/userguide/flow-logs-iam-role.html
    """
    _, partition, _, region, account, *_ = group_arn.split(":")
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": "vpc-flow-logs.amazonaws.com"},
        "Action": "sts:AssumeRole",
        "Condition": {
            "StringEquals": {"aws:SourceAccount": account},
            "ArnLike": {"aws:SourceArn": f"arn:{partition}:ec2:{region}:{account}:vpc-flow-log/*"},
        },
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def flow_log_rights(group_arn: str) -> str:
    """Writing to this log group, which exists already: not making others, as AWS's own example allows.

    Listing groups is asked of all of them, whatever name is looked for, so naming one grants nothing
    (https://github.com/hashicorp/terraform-provider-aws/issues/8804).
    """
    every_group = f"{group_arn.split(':log-group:', 1)[0]}:log-group:*"
    write = ["logs:CreateLogStream", "logs:PutLogEvents", "logs:DescribeLogStreams"]
    statements = [
        {"Sid": "WriteToTheGroup", "Effect": "Allow", "Action": write, "Resource": [group_arn, f"{group_arn}:*"]},
        {"Sid": "FindTheGroup", "Effect": "Allow", "Action": ["logs:DescribeLogGroups"], "Resource": [every_group]},
    ]
    return json.dumps({"Version": "2012-10-17", "Statement": statements})
