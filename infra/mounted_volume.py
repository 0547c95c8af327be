"""What a file system on AWS needs to be a volume of pods: a driver, open ports to the nodes, a static volume and its claim.

Made for a component that owns a file system, as its children. Nothing here is provisioned by a controller in the cluster:
what a controller made would be unknown here, and in the way of a destroy.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi_aws as aws
import pulumi_kubernetes as kubernetes
from pulumi import ComponentResource, CustomTimeouts, Input, Output, Resource, ResourceOptions

_ADDON_MINUTES = CustomTimeouts(create="15m", update="15m", delete="15m")


@dataclass(frozen=True, kw_only=True)
class StoreSite:
    """Where a store on AWS is, and who uses it."""

    region: str
    cluster_name: Input[str]
    vpc_id: Input[str]
    subnet_ids: Mapping[str, Input[str]]  # private, by zone
    gpu_zone: str
    node_security_group_id: Input[str]  # that every node has
    nodes: Sequence[Resource]  # a driver's pods need them
    cluster: Resource | None = None  # when it goes, volume and claim are forgotten with it


@dataclass(frozen=True, kw_only=True)
class Driver:
    """A CSI driver as an add-on. It needs no rights in AWS to mount what is there."""

    addon: str
    version: str
    csi_name: str
    configuration: Mapping[str, Any]


def create_driver(parent: ComponentResource, name: str, driver: Driver, site: StoreSite) -> Resource:
    return aws.eks.Addon(
        f"{name}-driver",
        cluster_name=site.cluster_name,
        addon_name=driver.addon,
        addon_version=driver.version,
        configuration_values=json.dumps(driver.configuration),
        resolve_conflicts_on_create="OVERWRITE",
        resolve_conflicts_on_update="OVERWRITE",
        opts=ResourceOptions(parent=parent, depends_on=list(site.nodes), custom_timeouts=_ADDON_MINUTES),
    )


def create_security_group(
    parent: ComponentResource, name: str, site: StoreSite, ports: Mapping[str, tuple[int, int]], *, to_itself: bool
) -> tuple[aws.ec2.SecurityGroup, list[Resource]]:
    """The file system's group, and the rules that open `ports` both ways between it and the nodes, and nothing else."""
    group = aws.ec2.SecurityGroup(
        f"{name}-security-group",
        description="File system of the checkpoint store",
        vpc_id=site.vpc_id,
        opts=ResourceOptions(parent=parent),
    )
    pairs = [("from-nodes", group.id, site.node_security_group_id), ("to-nodes", site.node_security_group_id, group.id)]
    if to_itself:
        pairs.append(("itself", group.id, group.id))
    rules: list[Resource] = []
    for (way, target, source), (what, (low, high)) in ((pair, port) for pair in pairs for port in ports.items()):
        opts = ResourceOptions(parent=parent)
        rules.append(
            aws.vpc.SecurityGroupIngressRule(
                f"{name}-{way}-{what}-in", security_group_id=target, referenced_security_group_id=source,
                ip_protocol="tcp", from_port=low, to_port=high, opts=opts,
            )
        )  # fmt: skip
        rules.append(
            aws.vpc.SecurityGroupEgressRule(
                f"{name}-{way}-{what}-out", security_group_id=source, referenced_security_group_id=target,
                ip_protocol="tcp", from_port=low, to_port=high, opts=opts,
            )
        )  # fmt: skip
    return group, rules


@dataclass(frozen=True, kw_only=True)
class StaticVolume:
    """An existing file system as Kubernetes mounts it; `capacity` is what a claim must name, not a limit."""

    csi_name: str
    handle: Input[str]
    attributes: Mapping[str, Input[str]]
    mount_options: Sequence[str]
    capacity: str


def create_claim(
    parent: ComponentResource,
    name: str,
    volume: StaticVolume,
    namespace: Input[str],
    after: Sequence[Resource],
    *,
    cluster: Resource | None,
) -> Output[str]:
    """The claim's name. What is in `after` stays until claim and volume are gone, so that nothing hangs in unmounting.

    They are forgotten with the cluster: a claim that pods still use doesn't go, and the pods are forgotten with it too.
    """
    access, no_class = ["ReadWriteMany"], ""
    persistent = kubernetes.core.v1.PersistentVolume(
        f"{name}-volume",
        spec=kubernetes.core.v1.PersistentVolumeSpecArgs(
            capacity={"storage": volume.capacity},
            access_modes=access,
            storage_class_name=no_class,
            persistent_volume_reclaim_policy="Retain",
            mount_options=list(volume.mount_options) or None,
            csi=kubernetes.core.v1.CSIPersistentVolumeSourceArgs(
                driver=volume.csi_name, volume_handle=volume.handle, volume_attributes=dict(volume.attributes) or None
            ),
        ),
        opts=ResourceOptions(parent=parent, depends_on=list(after), deleted_with=cluster),
    )
    claim = kubernetes.core.v1.PersistentVolumeClaim(
        f"{name}-claim",
        metadata=kubernetes.meta.v1.ObjectMetaArgs(name="ray-train-store", namespace=namespace),
        spec=kubernetes.core.v1.PersistentVolumeClaimSpecArgs(
            access_modes=access,
            storage_class_name=no_class,
            volume_name=persistent.metadata.name,
            resources=kubernetes.core.v1.VolumeResourceRequirementsArgs(requests={"storage": volume.capacity}),
        ),
        opts=ResourceOptions(parent=parent, deleted_with=cluster),
    )
    return claim.metadata.apply(lambda metadata: metadata.name or "")
