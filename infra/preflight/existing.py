"""What must be there already, and what must not: the cluster's name, subnets of an own VPC, the pinned image. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from infra.answers import has_tags
from infra.eks_settings import OwnVpc
from infra.preflight.check import Check, result
from workload.errors import Problem


def cluster_check(found: Mapping[str, Any] | None, name: str, tags: Mapping[str, str]) -> Check:
    """`found`: eks describe-cluster, or None. A cluster with this environment's tags is its own, made by an earlier update."""
    if found is None:
        return result("cluster name", f"{name} is free")
    if has_tags(found.get("tags"), tags):
        return result("cluster name", f"{name} stands already ({found.get('status')}), with this environment's tags")
    reason = f"a cluster {name} exists, and its tags are not this environment's ({_shown(tags)})"
    return result("cluster name", "", Problem("stack", tags["environment"], reason, "use another stack name, or remove it"))


def _shown(tags: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in tags.items())


def subnets_check(found: Iterable[Mapping[str, Any]], own: OwnVpc) -> Check:
    """`found`: ec2 describe-subnets, filtered by the ids in the settings."""
    by_id = {subnet["SubnetId"]: subnet for subnet in found}
    problems = [
        problem
        for index, subnet in enumerate(own.private_subnets)
        for problem in _subnet_problems(f"network.ownVpc.privateSubnets[{index}]", subnet.id, subnet.zone, by_id, own.vpc_id)
    ]
    free = ", ".join(f"{one.id} ({by_id[one.id]['AvailableIpAddressCount']} addresses free)" for one in own.private_subnets
                     if one.id in by_id)  # fmt: skip
    return result("subnets of the own VPC", free, *problems)


def _subnet_problems(
    key: str, subnet_id: str, zone: str, found: Mapping[str, Mapping[str, Any]], vpc_id: str
) -> Iterator[Problem]:
    subnet = found.get(subnet_id)
    if subnet is None:
        fix = f"list them: aws ec2 describe-subnets --filters Name=vpc-id,Values={vpc_id}"
        yield Problem(f"{key}.id", subnet_id, "there is no such subnet in this account and region", fix)
        return
    if subnet["VpcId"] != vpc_id:
        yield Problem(f"{key}.id", subnet_id, f"is in {subnet['VpcId']}, not in {vpc_id}", "name a subnet of that VPC")
    if subnet["AvailabilityZone"] != zone:
        actual = subnet["AvailabilityZone"]
        yield Problem(f"{key}.zone", zone, f"{subnet_id} is in {actual}", f"set it to {actual}")


def image_check(problems: Iterable[Problem], reference: str) -> Check:
    """`problems`: what the environment's plan says of the image. The registry itself is asked by `image lock`."""
    return result("training image", f"pinned: {reference}", *problems)
