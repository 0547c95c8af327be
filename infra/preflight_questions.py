"""The questions that `preflight` asks an account: each call, and the decision over its answer from `infra/preflight`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from infra.account_site import AccountSite
from infra.answers import NotAsked, has_tags
from infra.aws_account import Account
from infra.eks_settings import CapacityBlock, Reservation
from infra.eks_versions import ADDONS, STORE_DRIVERS
from infra.instance_types import KNOWN
from infra.preflight import quotas, versions
from infra.preflight.check import Check, Status, decide
from infra.preflight.existing import cluster_check, subnets_check
from infra.preflight.offerings import facts_check, offering_check, zones_check
from infra.preflight.quotas import Need, Quota, Usage, quota_check, vcpu_usage
from infra.preflight.reservation import NAME as RESERVATION
from infra.preflight.reservation import reservation_check

_COUNTED = ("pending", "running")  # instance states that count against quotas


class Questions:
    """The questions of one environment to one account."""

    def __init__(self, account: Account, site: AccountSite) -> None:
        self._account, self._site, self._eks = account, site, site.eks
        self._ec2 = account.client("ec2")

    def checks(self) -> Iterator[Check]:
        yield from self._types()
        yield from self._quotas()
        yield from self._reservation()
        yield from self._versions()
        yield from self._existing()

    def _types(self) -> Iterator[Check]:
        zones = self._account.ask(
            "ec2:DescribeAvailabilityZones", lambda: self._ec2.describe_availability_zones()["AvailabilityZones"]
        )
        yield decide("zones", zones, lambda found: zones_check(found, self._eks.network))
        offered = self._account.ask_pages(
            "ec2:DescribeInstanceTypeOfferings", "ec2", "describe_instance_type_offerings", "InstanceTypeOfferings",
            LocationType="availability-zone", Filters=self._of_our_types,
        )  # fmt: skip
        yield decide("instance types offered", offered, lambda found: offering_check(found, self._eks))
        yield decide("facts about the types", self._facts, lambda found: facts_check(found, self._eks))

    @property
    def _of_our_types(self) -> list[dict[str, Any]]:
        """A filter: a type that AWS doesn't know is then missing in the answer, not an error."""
        names = [self._eks.gpu_nodes.instance_type, self._eks.cluster.system_nodes.instance_type]
        return [{"Name": "instance-type", "Values": names}]

    @cached_property
    def _facts(self) -> Any:
        return self._account.ask_pages(
            "ec2:DescribeInstanceTypes", "ec2", "describe_instance_types", "InstanceTypes", Filters=self._of_our_types
        )

    def _quotas(self) -> Iterator[Check]:
        said = () if isinstance(self._facts, NotAsked) else self._facts
        system = self._eks.cluster.system_nodes.instance_type
        if isinstance(self._facts, NotAsked) and system not in KNOWN:
            yield Check(f"quota for {system}", Status.NOT_ASKED, f"how many vCPUs it has isn't known: {self._facts}")
        instances: Any = self._running
        by_quota: dict[Quota, list[Need]] = {}
        for need in (*quotas.vcpu_needs(self._eks, said), *quotas.network_needs(self._eks.network)):
            by_quota.setdefault(need.quota, []).append(need)
        for quota, needs in by_quota.items():
            if quota == quotas.ADDRESSES:
                usage = self._counted("ec2:DescribeAddresses", "describe_addresses", "Addresses")
            elif quota == quotas.VPCS:
                usage = self._counted("ec2:DescribeVpcs", "describe_vpcs", "Vpcs")
            else:
                usage = instances if isinstance(instances, NotAsked) else vcpu_usage(instances, quota, self._site.tags)
            yield decide(
                f"quota: {quota.name}",
                self._allowed(quota),
                lambda allowed, needs=needs, usage=usage: quota_check(needs, allowed[0], usage, self._account.region),
            )

    @cached_property
    def _running(self) -> Any:
        """Instances of the whole region, or why they can't be seen."""
        only = [{"Name": "instance-state-name", "Values": list(_COUNTED)}]
        found = self._account.ask_pages("ec2:DescribeInstances", "ec2", "describe_instances", "Reservations", Filters=only)
        return found if isinstance(found, NotAsked) else [one for group in found for one in group["Instances"]]

    def _counted(self, permission: str, operation: str, key: str) -> Usage | NotAsked:
        found = self._account.ask(permission, lambda: getattr(self._ec2, operation)()[key])
        return found if isinstance(found, NotAsked) else quotas.counted(found, self._site.tags)

    def _allowed(self, quota: Quota) -> Any:
        """In a tuple: the value applied to the account, else AWS's default, else None."""
        client = self._account.client("service-quotas")
        names = {"ServiceCode": quota.service, "QuotaCode": quota.code}
        gone = ("NoSuchResourceException",)
        found = self._account.ask("servicequotas:GetServiceQuota", lambda: client.get_service_quota(**names), gone)
        if found is None:
            permission = "servicequotas:GetAWSDefaultServiceQuota"
            found = self._account.ask(permission, lambda: client.get_aws_default_service_quota(**names), gone)
        return found if isinstance(found, NotAsked) else (found["Quota"]["Value"] if found else None,)

    def _reservation(self) -> Iterator[Check]:
        capacity = self._eks.gpu_nodes.capacity
        if not isinstance(capacity, Reservation | CapacityBlock):
            return
        missing = ("InvalidCapacityReservationId.NotFound", "InvalidCapacityReservationId.Malformed")
        ids = [capacity.reservation_id]
        found = self._account.ask(
            "ec2:DescribeCapacityReservations",
            lambda: self._ec2.describe_capacity_reservations(CapacityReservationIds=ids)["CapacityReservations"],
            missing,
        )
        instances = self._running
        running = [] if isinstance(instances, NotAsked) else instances
        in_it = [one for one in running if one.get("CapacityReservationId") == capacity.reservation_id]
        used = sum(has_tags(one.get("Tags"), self._site.tags) for one in in_it)
        gpu = self._eks.gpu_nodes
        yield decide(RESERVATION, found, lambda some: reservation_check(some[0] if some else None, gpu, capacity, used))

    def _versions(self) -> Iterator[Check]:
        version, client = self._eks.cluster.kubernetes_version, self._account.client("eks")
        offered = self._account.ask(
            "eks:DescribeClusterVersions",
            lambda: client.describe_cluster_versions(clusterVersions=[version])["clusterVersions"],
            ("InvalidParameterException", "ResourceNotFoundException"),
        )
        today = datetime.now(UTC).date()
        yield decide(f"Kubernetes {version}", offered, lambda found: versions.kubernetes_check(found or (), version, today))
        pinned = dict(ADDONS[version])
        driver = STORE_DRIVERS.get(self._site.settings.store.kind)
        pinned |= dict([driver]) if driver else {}
        yield decide("add-ons", self._addons(pinned, version), lambda found: versions.addons_check(found, pinned, version))
        images = versions.node_images(self._eks)
        yield decide("node images", self._images(images), lambda found: versions.images_check(found, images))

    def _addons(self, pinned: dict[str, str], version: str) -> Any:
        offered: dict[str, list[str]] = {}
        for name in pinned:
            found = self._account.ask_pages(
                "eks:DescribeAddonVersions", "eks", "describe_addon_versions", "addons",
                missing=("ResourceNotFoundException", "InvalidParameterException"), addonName=name, kubernetesVersion=version,
            )  # fmt: skip
            if isinstance(found, NotAsked):
                return found
            offered[name] = [one["addonVersion"] for addon in found or () for one in addon["addonVersions"]]
        return offered

    def _images(self, images: tuple[versions.NodeImage, ...]) -> Any:
        names = [name for one in images for name in (one.id_parameter, one.release_parameter)]
        client = self._account.client("ssm")
        found = self._account.ask("ssm:GetParameters", lambda: client.get_parameters(Names=names)["Parameters"])
        return found if isinstance(found, NotAsked) else {one["Name"]: one["Value"] for one in found}

    def _existing(self) -> Iterator[Check]:
        name, own = self._site.cluster_name, self._eks.network.own_vpc
        found = self._account.ask(
            "eks:DescribeCluster",
            lambda: self._account.client("eks").describe_cluster(name=name)["cluster"],
            ("ResourceNotFoundException",),
        )
        yield decide("cluster name", found, lambda one: cluster_check(one, name, self._site.tags))
        if own is None:
            return
        only = [{"Name": "subnet-id", "Values": [subnet.id for subnet in own.private_subnets]}]
        subnets = self._account.ask_pages("ec2:DescribeSubnets", "ec2", "describe_subnets", "Subnets", Filters=only)
        yield decide("subnets of the own VPC", subnets, lambda found: subnets_check(found, own))
