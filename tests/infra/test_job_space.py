"""JobSpace: the namespace of a run, and whom its pods may talk to."""

from __future__ import annotations

from typing import Any

import pulumi_aws as aws
import pytest

from infra.job_space import JobSpace, JobSpaceArgs
from tests.infra.component import build
from tests.infra.fake_engine import Recording


def program() -> JobSpace:
    nodes = aws.ec2.PlacementGroup("nodes", strategy="cluster")
    args = JobSpaceArgs(
        namespace="ray-train", service_account="ray-train", operator_namespace="ray-system", ready=[nodes], cluster=nodes
    )
    return JobSpace("space", args)


@pytest.fixture(scope="module")
def made() -> Recording:
    return build(program)


def ports(rule: dict[str, Any]) -> set[int]:
    return {int(one["port"]) for one in rule.get("ports", ())}


@pytest.mark.case("C170")
def test_only_the_namespace_itself_reaches_a_pod_and_the_operator_its_dashboard(made: Recording) -> None:
    """Whoever reaches 8265, 10001 or 6379 runs code."""
    spec = made.of("space-ingress")["spec"]
    inside, operator = spec["ingress"]

    assert spec["podSelector"] == {}
    assert spec["policyTypes"] == ["Ingress"]
    assert inside == {"from": [{"podSelector": {}}]}
    assert operator["from"] == [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ray-system"}}}]
    assert ports(operator) == {8265}


@pytest.mark.case("C170")
def test_pods_reach_each_other_dns_https_and_their_credentials_and_nothing_else(made: Recording) -> None:
    spec = made.of("space-egress")["spec"]
    inside, dns, credentials, https = spec["egress"]

    assert spec["policyTypes"] == ["Egress"]
    assert inside == {"to": [{"podSelector": {}}]}
    assert (ports(dns), ports(credentials), ports(https)) == ({53}, {80}, {443})
    assert credentials["to"] == [{"ipBlock": {"cidr": "169.254.170.23/32"}}]


@pytest.mark.case("C175")
def test_the_namespace_refuses_privileged_pods_and_the_account_has_no_token(made: Recording) -> None:
    labels = made.of("space-namespace")["metadata"]["labels"]

    assert labels["pod-security.kubernetes.io/enforce"] == "baseline"
    assert made.of("space-service-account")["automountServiceAccountToken"] is False


@pytest.mark.case("C153", "C155")
def test_the_namespace_goes_before_the_nodes_and_is_forgotten_with_the_cluster(made: Recording) -> None:
    for name in ("space-namespace", "space-ingress", "space-egress", "space-service-account"):
        assert "nodes" in made.comes_after(name)
        assert made.request(name).deletedWith == made.urn("nodes")
