"""JobSpace: the namespace that a run's pods live in on EKS, who they are there, and whom they may talk to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi_kubernetes as kubernetes
from pulumi import ComponentResource, Input, Output, Resource, ResourceOptions

_DNS, _HTTPS, _DASHBOARD = 53, 443, 8265
# Where EKS Pod Identity hands out credentials: https://docs.aws.amazon.com/eks/latest/userguide/pod-id-how-it-works.html
_POD_IDENTITY, _POD_IDENTITY_PORT = "169.254.170.23/32", 80


@dataclass(frozen=True, kw_only=True)
class JobSpaceArgs:
    """`ready`: nodes and add-ons, which must be there before and go after. `cluster`: with it all of this is gone too.

    `store_port`: of the store's endpoint, where it isn't HTTPS's.
    """

    namespace: str
    service_account: str
    operator_namespace: str
    ready: Sequence[Resource]
    cluster: Resource
    store_port: int = _HTTPS


class JobSpace(ComponentResource):
    """Outputs: namespace; policies, which must be in force before a pod starts.

    Ray's dashboard runs whatever it is sent. So nothing from outside the namespace reaches a port of the pods, but the
    operator the dashboard's; and they reach each other, DNS, HTTPS and Pod Identity, nothing else. EFA is not affected:
    it bypasses the kernel, and is bounded by its security group.
    """

    namespace: Output[str]
    ready: list[Resource]

    def __init__(self, name: str, args: JobSpaceArgs, opts: ResourceOptions | None = None) -> None:
        super().__init__("ray-train-eks:index:JobSpace", name, None, opts)
        self._name, self._args = name, args
        self._child = ResourceOptions(parent=self, depends_on=list(args.ready), deleted_with=args.cluster)
        # Baseline forbids host namespaces, host paths and privileged containers.
        levels = {f"pod-security.kubernetes.io/{mode}": "baseline" for mode in ("enforce", "audit", "warn")}
        namespace = kubernetes.core.v1.Namespace(
            f"{name}-namespace",
            metadata=kubernetes.meta.v1.ObjectMetaArgs(
                name=args.namespace, labels={"app.kubernetes.io/managed-by": "pulumi", **levels}
            ),
            opts=self._child,
        )
        self.namespace = namespace.metadata.name
        account = kubernetes.core.v1.ServiceAccount(
            f"{name}-service-account",
            metadata=self._metadata(args.service_account),
            automount_service_account_token=False,  # Pod Identity projects a token of its own
            opts=self._child,
        )
        self.ready = [account, self._create_ingress_policy(), self._create_egress_policy()]
        self.register_outputs({"namespace": self.namespace})

    def _create_ingress_policy(self) -> kubernetes.networking.v1.NetworkPolicy:
        inside = kubernetes.networking.v1.NetworkPolicyIngressRuleArgs(from_=[_pods_of_this_namespace()])
        operator = kubernetes.networking.v1.NetworkPolicyIngressRuleArgs(
            from_=[_namespace(self._args.operator_namespace)], ports=[_port(_DASHBOARD)]
        )
        return self._create_policy("ingress", ["Ingress"], ingress=[inside, operator], egress=None)

    def _create_egress_policy(self) -> kubernetes.networking.v1.NetworkPolicy:
        rule = kubernetes.networking.v1.NetworkPolicyEgressRuleArgs
        address = kubernetes.networking.v1.NetworkPolicyPeerArgs(
            ip_block=kubernetes.networking.v1.IPBlockArgs(cidr=_POD_IDENTITY)
        )
        rules = [
            rule(to=[_pods_of_this_namespace()]),
            rule(to=[_namespace("kube-system")], ports=[_port(_DNS, "UDP"), _port(_DNS)]),
            rule(to=[address], ports=[_port(_POD_IDENTITY_PORT)]),
            # The store, and AWS's own endpoints, whose addresses change.
            rule(ports=[_port(number) for number in sorted({_HTTPS, self._args.store_port})]),
        ]
        return self._create_policy("egress", ["Egress"], ingress=None, egress=rules)

    def _create_policy(
        self,
        role: str,
        types: list[str],
        ingress: list[kubernetes.networking.v1.NetworkPolicyIngressRuleArgs] | None,
        egress: list[kubernetes.networking.v1.NetworkPolicyEgressRuleArgs] | None,
    ) -> kubernetes.networking.v1.NetworkPolicy:
        return kubernetes.networking.v1.NetworkPolicy(
            f"{self._name}-{role}",
            metadata=self._metadata(f"ray-train-{role}"),
            spec=kubernetes.networking.v1.NetworkPolicySpecArgs(
                pod_selector=kubernetes.meta.v1.LabelSelectorArgs(), policy_types=types, ingress=ingress, egress=egress
            ),
            opts=self._child,
        )

    def _metadata(self, name: str) -> kubernetes.meta.v1.ObjectMetaArgs:
        namespace: Input[str] = self.namespace
        return kubernetes.meta.v1.ObjectMetaArgs(name=name, namespace=namespace)


def _pods_of_this_namespace() -> kubernetes.networking.v1.NetworkPolicyPeerArgs:
    return kubernetes.networking.v1.NetworkPolicyPeerArgs(pod_selector=kubernetes.meta.v1.LabelSelectorArgs())


def _namespace(name: str) -> kubernetes.networking.v1.NetworkPolicyPeerArgs:
    """By the label that every namespace has: https://kubernetes.io/docs/reference/labels-annotations-taints/"""
    selector = kubernetes.meta.v1.LabelSelectorArgs(match_labels={"kubernetes.io/metadata.name": name})
    return kubernetes.networking.v1.NetworkPolicyPeerArgs(namespace_selector=selector)


def _port(number: int, protocol: str = "TCP") -> kubernetes.networking.v1.NetworkPolicyPortArgs:
    return kubernetes.networking.v1.NetworkPolicyPortArgs(port=number, protocol=protocol)
