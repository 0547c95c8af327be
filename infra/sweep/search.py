"""What is looked for: the marks that things of one environment carry, whoever made them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from infra.account_site import AccountSite
from infra.answers import has_tags, plain_tags
from infra.aws_account import Account
from infra.teardown.found import of_arn

# Tags whose value is the cluster's name: EKS's own, the CNI's, the load balancer controller's.
# https://docs.aws.amazon.com/eks/latest/userguide/eks-using-tags.html,
# https://github.com/aws/amazon-vpc-cni-k8s (README, CLUSTER_NAME), https://kubernetes-sigs.github.io/aws-load-balancer-controller
_CLUSTER_NAME_TAGS = ("aws:eks:cluster-name", "eks:cluster-name", "cluster.k8s.amazonaws.com/name", "elbv2.k8s.aws/cluster")


@dataclass(frozen=True)
class Search:
    """One environment in one account. `listed`: ARNs that the tagging API has for it."""

    account: Account
    site: AccountSite
    listed: tuple[str, ...] = ()

    @property
    def cluster_name(self) -> str:
        return self.site.cluster_name

    def is_ours(self, tags: Any) -> bool:
        """Made by this program, in whatever spelling the service has its tags."""
        return has_tags(tags, self.site.tags)

    def is_of_cluster(self, tags: Any) -> bool:
        """Made by this program, by EKS, or by a controller inside the cluster."""
        plain = plain_tags(tags)
        named = any(plain.get(key) == self.cluster_name for key in _CLUSTER_NAME_TAGS)
        return self.is_ours(tags) or named or plain.get(self._owned_tag) == "owned"

    @property
    def _owned_tag(self) -> str:
        """`owned` goes with the cluster; `shared`, as on subnets of an own VPC, doesn't."""
        return f"kubernetes.io/cluster/{self.cluster_name}"

    def tag_queries(self) -> Iterator[list[tuple[str, str]]]:
        """Key and value of the tags that a thing must all have, one list for each way to be marked."""
        yield list(self.site.tags.items())
        yield [(self._owned_tag, "owned")]
        yield from ([(key, self.cluster_name)] for key in _CLUSTER_NAME_TAGS)

    def hinted(self, kind: str) -> list[str]:
        """Names that the tagging API lists: a thing with our tags may have any name."""
        return [one.name for one in map(of_arn, self.listed) if one.kind == kind]
