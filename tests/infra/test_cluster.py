"""Cluster: what the control plane, its system nodes and its add-ons are asked to be."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pulumi_aws as aws
import pytest
from pulumi import ResourceOptions, ResourceTransformArgs

from infra.cluster import Cluster, ClusterArgs, _protect_cluster
from infra.cluster_rules import NODE_TRUST, admin_keys, cluster_problems, monitoring_configuration, partition
from infra.eks_versions import ADDONS, AMI_RELEASE, KUBERNETES, kubernetes_problems, release_problems
from infra.node_labels import GPU_TAINTS
from tests.infra.eks_component import KUBECONFIG, REGION, TAGS, attempt, cluster_settings, record_component, tolerates, urns_of
from tests.infra.fake_engine import Recording

ADMINS = ["arn:aws:iam::123456789012:role/platform/admin", "arn:aws:iam::123456789012:user/ann"]


def program(zones: str = "ab", **changes: Any) -> Callable[[], Cluster]:
    settings = cluster_settings(**changes)

    def make() -> Cluster:
        route = aws.ec2.Route("route", route_table_id="rtb-1", destination_cidr_block="0.0.0.0/0")
        subnets = {f"us-west-2{zone}": f"subnet-{zone}" for zone in zones}
        return Cluster("cluster", ClusterArgs(
            settings=settings, cluster_name="ray-train-dev", region=REGION, vpc_id="vpc-1", private_subnet_ids=subnets,
            ready=[route], instance_tags=TAGS,
        ))  # fmt: skip

    return make


@pytest.fixture(scope="module")
def made() -> Recording:
    return record_component(program(admins=ADMINS))


def test_the_cluster_is_exactly_these_resources(made: Recording) -> None:
    assert {request.name for request in made.requests.values()} - {"ray-train-eks-test", "route"} == {
        "cluster", "cluster-key", "cluster-logs", "cluster-control-plane", "cluster-node-role",
        "cluster-node-AmazonEKSWorkerNodePolicy", "cluster-node-AmazonEC2ContainerRegistryPullOnly",
        "cluster-node-AmazonEKS_CNI_Policy", "cluster-system-template", "cluster-system-nodes", "cluster-coredns",
        "cluster-eks-pod-identity-agent", "cluster-eks-node-monitoring-agent", "cluster-provider",
    }  # fmt: skip
    parents = {request.parent.rsplit("::", 1)[-1] for request in made.requests.values() if request.name.startswith("cluster-")}
    assert parents == {"cluster"}


@pytest.mark.case("C017")
def test_a_cluster_with_deletion_protection_is_protected_in_the_plan_and_nothing_else_of_it_is() -> None:
    """By a transform, which the engine applies to what the component makes; whether it does, the engine's tests show."""
    protected = record_component(program(deletionProtection=True)).request("cluster-control-plane")
    ordinary = record_component(program(deletionProtection=False)).request("cluster-control-plane")

    assert (len(protected.transforms), len(ordinary.transforms)) == (1, 0)
    assert not protected.protect  # the component's children would inherit it
    kinds = {"aws:eks/cluster:Cluster": True, "aws:eks/accessEntry:AccessEntry": None, "aws:eks/addon:Addon": None}
    for kind, expected in kinds.items():
        changed = _protect_cluster(ResourceTransformArgs(True, kind, "one", {}, ResourceOptions()))
        assert (changed and changed.opts.protect) is expected, kind


def test_a_preview_shows_the_same_resources(made: Recording) -> None:
    preview = record_component(program(admins=ADMINS), preview=True)

    assert preview.names() == made.names()


def test_the_control_plane_has_no_node_group_no_coredns_and_no_group_of_pulumis(made: Recording) -> None:
    inputs = made.of("cluster-control-plane")

    assert inputs["skipDefaultNodeGroup"] is True
    assert inputs["skipDefaultSecurityGroups"] is True
    assert inputs["authenticationMode"] == "API"
    assert not {"corednsAddonOptions", "instanceRoles", "roleMappings", "createOidcProvider", "autoMode"} & set(inputs)


@pytest.mark.case("C013")
def test_every_version_is_pinned(made: Recording) -> None:
    """C013: nothing is looked up, so nothing changes between two updates of an unchanged configuration."""
    inputs = made.of("cluster-control-plane")

    assert inputs["version"] == KUBERNETES
    assert inputs["upgradePolicy"] == {"supportType": "STANDARD"}
    assert inputs["vpcCniOptions"]["addonVersion"] == ADDONS[KUBERNETES]["vpc-cni"]
    assert inputs["kubeProxyAddonOptions"]["version"] == ADDONS[KUBERNETES]["kube-proxy"]
    for addon in ("coredns", "eks-pod-identity-agent", "eks-node-monitoring-agent"):
        assert made.of(f"cluster-{addon}")["addonVersion"] == ADDONS[KUBERNETES][addon]
    assert made.of("cluster-system-nodes")["releaseVersion"] == AMI_RELEASE


def test_network_policies_are_enforced(made: Recording) -> None:
    assert made.of("cluster-control-plane")["vpcCniOptions"]["configurationValues"] == {"enableNetworkPolicy": "true"}


def test_the_public_endpoint_is_open_to_the_given_networks_alone(made: Recording) -> None:
    inputs = made.of("cluster-control-plane")

    assert inputs["endpointPrivateAccess"] is True
    assert inputs["publicAccessCidrs"] == ["203.0.113.0/24"]
    assert "endpointPublicAccess" not in inputs  # written out as true, each update would wait for it


def test_without_networks_there_is_no_public_endpoint() -> None:
    inputs = record_component(program(publicAccessCidrs=[])).of("cluster-control-plane")

    assert (inputs["endpointPrivateAccess"], inputs["endpointPublicAccess"]) == (True, False)
    assert "publicAccessCidrs" not in inputs


def test_secrets_are_encrypted_with_a_key_that_rotates(made: Recording) -> None:
    key = made.of("cluster-key")

    assert (key["enableKeyRotation"], key["deletionWindowInDays"]) == (True, 30)
    assert made.of("cluster-control-plane")["encryptionConfigKeyArn"].endswith(":key/cluster-key")


def test_the_log_group_has_an_end_of_retention_and_is_there_before_the_cluster(made: Recording) -> None:
    assert made.of("cluster-logs") == {"name": "/aws/eks/ray-train-dev/cluster", "retentionInDays": 30}
    assert "cluster-logs" in made.comes_after("cluster-control-plane")
    assert made.of("cluster-control-plane")["enabledClusterLogTypes"] == ["api", "audit"]


def test_without_log_types_there_is_no_log_group() -> None:
    recording = record_component(program(logTypes=[]))

    assert not urns_of(recording, "aws:cloudwatch/logGroup:LogGroup")


def test_admins_get_an_access_entry_each_under_a_key_that_stays_theirs(made: Recording) -> None:
    entries = made.of("cluster-control-plane")["accessEntries"]

    assert set(entries) == {"123456789012-role-platform-admin", "123456789012-user-ann"}
    assert admin_keys(tuple(reversed(ADMINS))) == admin_keys(tuple(ADMINS))
    policy = entries["123456789012-user-ann"]["accessPolicies"]["admin"]
    assert policy["policyArn"] == "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
    assert policy["accessScope"] == {"type": "cluster"}


@pytest.mark.parametrize("on", [True, False])
def test_deletion_protection_is_the_settings_decision(on: bool) -> None:
    assert record_component(program(deletionProtection=on)).of("cluster-control-plane")["deletionProtection"] is on


def test_a_nodes_role_may_be_taken_by_ec2_alone_and_has_three_policies(made: Recording) -> None:
    (statement,) = json.loads(made.of("cluster-node-role")["assumeRolePolicy"])["Statement"]

    assert statement == {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
    assert json.loads(NODE_TRUST)["Version"] == "2012-10-17"
    attached = urns_of(made, "aws:iam/rolePolicyAttachment:RolePolicyAttachment")
    assert sorted(made.of(name)["policyArn"] for name in attached) == [
        "arn:aws:iam::aws:policy/AmazonEC2ContainerRegistryPullOnly",
        "arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy",
        "arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy",
    ]
    assert {made.of(name)["role"] for name in attached} == {"cluster-node-role"}


@pytest.mark.parametrize(("region", "name"), [("us-west-2", "aws"), ("us-gov-west-1", "aws-us-gov"), ("cn-north-1", "aws-cn")])
def test_policies_are_those_of_the_regions_partition(region: str, name: str) -> None:
    assert partition(region) == name


def test_system_nodes_have_imdsv2_one_hop_and_an_encrypted_disk(made: Recording) -> None:
    template = made.of("cluster-system-template")

    assert template["metadataOptions"] == {"httpEndpoint": "enabled", "httpTokens": "required", "httpPutResponseHopLimit": 1}
    (disk,) = template["blockDeviceMappings"]
    assert disk["deviceName"] == "/dev/xvda"
    assert disk["ebs"] == {"volumeSize": 100, "volumeType": "gp3", "encrypted": "true", "deleteOnTermination": "true"}
    assert [item["resourceType"] for item in template["tagSpecifications"]] == ["instance", "volume"]


def test_system_nodes_are_as_many_as_asked_in_two_zones_and_untainted(made: Recording) -> None:
    nodes = made.of("cluster-system-nodes")

    assert nodes["scalingConfig"] == {"desiredSize": 2, "minSize": 2, "maxSize": 2}
    assert nodes["subnetIds"] == ["subnet-a", "subnet-b"]
    assert nodes["labels"] == {"ray-train-eks/system": "true"}
    assert nodes["launchTemplate"] == {"id": "cluster-system-template-id", "version": "1"}
    assert "taints" not in nodes


@pytest.mark.case("C152")
def test_routes_policies_and_the_network_add_on_outlive_the_nodes(made: Recording) -> None:
    """C152: what nodes need to clean up after themselves is deleted after them."""
    before = made.comes_after("cluster-system-nodes")

    assert {
        "route",
        "cluster-control-plane",
        "cluster-node-AmazonEKS_CNI_Policy",
        "cluster-node-AmazonEKSWorkerNodePolicy",
    } <= before
    assert "cluster-system-nodes" not in made.comes_after("cluster-control-plane")


@pytest.mark.parametrize("addon", ["coredns", "eks-pod-identity-agent", "eks-node-monitoring-agent"])
def test_add_ons_that_need_a_node_come_after_the_nodes(made: Recording, addon: str) -> None:
    assert "cluster-system-nodes" in made.comes_after(f"cluster-{addon}")
    assert made.of(f"cluster-{addon}")["resolveConflictsOnCreate"] == "OVERWRITE"


@pytest.mark.case("C008")
def test_the_gpu_part_of_node_monitoring_tolerates_every_taint_of_the_gpu_nodes(made: Recording) -> None:
    """C008: without it node repair replaces healthy GPU nodes, whose hardware nobody reports on."""
    configuration = json.loads(made.of("cluster-eks-node-monitoring-agent")["configurationValues"])

    for taint in GPU_TAINTS:
        assert tolerates(configuration["dcgmAgent"]["tolerations"], vars(taint))
    assert monitoring_configuration() == json.dumps(configuration, separators=(",", ":"), sort_keys=True)


@pytest.mark.case("C153")
def test_what_runs_inside_goes_before_the_nodes_and_forgets_a_dead_cluster(made: Recording) -> None:
    """C153: with the API server gone, objects in it are dropped."""
    provider = made.of("cluster-provider")

    assert provider["deleteUnreachable"] == "true"
    assert provider["kubeconfig"] == KUBECONFIG
    assert {"cluster-system-nodes", "cluster-coredns"} <= made.comes_after("cluster-provider")


@pytest.mark.case("C016")
def test_a_third_zone_or_another_network_changes_lists_and_nothing_that_replaces_the_cluster(made: Recording) -> None:
    """C016: name, role and key stay as they are, and so do the system nodes' subnets, whose change replaces the group."""
    changed = record_component(program("abc", admins=ADMINS, publicAccessCidrs=["198.51.100.0/24"]))
    before, after = made.of("cluster-control-plane"), changed.of("cluster-control-plane")

    assert {key for key in before | after if before.get(key) != after.get(key)} == {"privateSubnetIds", "publicAccessCidrs"}
    assert after["privateSubnetIds"] == [*before["privateSubnetIds"], "subnet-c"]
    assert "serviceRole" not in after
    assert changed.of("cluster-system-nodes") == made.of("cluster-system-nodes")


@pytest.mark.parametrize(
    ("changes", "key", "reason"),
    [
        ({"publicAccessCidrs": ["0.0.0.0/0"]}, "cluster.publicAccessCidrs[0]", "whole internet"),
        ({"publicAccessCidrs": ["203.0.113.7/24"]}, "cluster.publicAccessCidrs[0]", "host bits"),
        ({"publicAccessCidrs": ["203.0.113.0/24", "10.0.0.0/8"]}, "cluster.publicAccessCidrs[1]", "private network"),
        ({"publicAccessCidrs": ["300.0.0.0/8"]}, "cluster.publicAccessCidrs[0]", "not permitted"),
        ({"openToTheInternet": True}, "cluster.openToTheInternet", "has no effect"),
        ({"kubernetesVersion": "1.31"}, "cluster.kubernetesVersion", "no pinned add-ons"),
        ({"systemNodes": {"releaseVersion": "1.35.8-20261003"}}, "cluster.systemNodes.releaseVersion", "panics"),
        ({"systemNodes": {"releaseVersion": "1.34.2-20261012"}}, "cluster.systemNodes.releaseVersion", "for Kubernetes 1.34"),
    ],
)  # fmt: skip
def test_a_bad_setting_is_named_with_its_reason(changes: dict[str, Any], key: str, reason: str) -> None:
    found = {problem.where: problem for problem in cluster_problems(cluster_settings(**changes))}

    assert key in found
    assert reason in found[key].reason.replace("Octet 300 (> 255) not permitted", "not permitted")
    assert found[key].fix


@pytest.mark.parametrize("cidrs", [["0.0.0.0/0"], ["203.0.113.0/24", "0.0.0.0/0"]])
def test_the_internet_may_be_let_in_by_saying_so(cidrs: list[str]) -> None:
    assert cluster_problems(cluster_settings(publicAccessCidrs=cidrs, openToTheInternet=True)) == []


def test_nothing_is_made_of_settings_that_are_refused() -> None:
    recording = attempt(program(publicAccessCidrs=["0.0.0.0/0"]))

    assert "whole internet" in recording.error + " ".join(recording.logs)
    assert not {"cluster", "cluster-control-plane"} & {request.name for request in recording.requests.values()}


def test_the_pins_fit_together() -> None:
    assert kubernetes_problems(KUBERNETES) == []
    assert release_problems(KUBERNETES, AMI_RELEASE, "key") == []
    assert release_problems("1.36", "1.36.4-20261003", "key") == []  # has another kernel
    assert len(release_problems("1.34", "1.35.8-20260930", "key")) == 2
