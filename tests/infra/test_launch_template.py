"""What GPU nodes are launched with: interfaces, user data, capacity, and which settings contradict each other."""

from __future__ import annotations

import base64
import email
from typing import Any

import pytest
import yaml

from infra.launch_template import Capacity, capacity_of, efa_interfaces, gpu_nodes_problems, user_data
from infra.node_labels import Taint, gpu_node_labels, required_affinity, tolerations
from tests.infra.eks_component import KUBERNETES, gpu_settings, tolerates

RESERVATION = "cr-0123456789abcdef0"


@pytest.mark.parametrize("count", [1, 4, 32])
def test_a_type_gets_one_interface_per_card_and_only_the_first_is_an_ordinary_one_too(count: int) -> None:
    first, *others = efa_interfaces(count)

    assert (first.network_card_index, first.device_index, first.interface_type) == (0, 0, "efa")
    assert [other.network_card_index for other in others] == list(range(1, count))
    assert {(other.device_index, other.interface_type) for other in others} <= {(1, "efa-only")}


def test_interfaces_of_a_type_without_efa_are_nobodys_request() -> None:
    with pytest.raises(AssertionError, match="has none"):
        efa_interfaces(0)


def test_user_data_is_mime_whose_only_part_is_a_node_config() -> None:
    encoded = user_data(4)
    assert encoded is not None
    message = email.message_from_bytes(base64.b64decode(encoded))
    (part,) = [part for part in message.walk() if not part.is_multipart()]

    assert message.get_content_type() == "multipart/mixed"
    assert part.get_content_type() == "application/node.eks.aws"
    assert yaml.safe_load(str(part.get_payload())) == {
        "apiVersion": "node.eks.aws/v1alpha1",
        "kind": "NodeConfig",
        "spec": {"instance": {"localStorage": {"strategy": "RAID0"}}},
    }


def test_user_data_says_nothing_of_the_cluster_because_eks_adds_that() -> None:
    text = base64.b64decode(user_data(1) or "").decode()

    assert not {"apiServerEndpoint", "certificateAuthority", "cidr"} & set(text.replace(":", " ").split())


def test_a_type_without_local_disks_has_no_user_data() -> None:
    assert user_data(0) is None


@pytest.mark.case("C029")
@pytest.mark.parametrize(
    ("disks", "kinds"), [(0, ["text/x-shellscript"]), (1, ["text/x-shellscript", "application/node.eks.aws"])]
)
def test_nodes_of_a_lustre_store_install_its_client(disks: int, kinds: list[str]) -> None:
    message = email.message_from_bytes(base64.b64decode(user_data(disks, lustre=True) or ""))
    parts = [part for part in message.walk() if not part.is_multipart()]

    assert [part.get_content_type() for part in parts] == kinds
    script = str(parts[0].get_payload())
    assert script.startswith("#!/bin/bash\n")
    assert "dnf install -y lustre-client" in script


def test_the_number_of_disks_does_not_change_the_user_data() -> None:
    assert user_data(1) == user_data(8)


@pytest.mark.parametrize(
    ("capacity", "expected"),
    [
        ({"kind": "on-demand"}, Capacity("ON_DEMAND")),
        ({"kind": "spot"}, Capacity("SPOT")),
        ({"kind": "reservation", "reservationId": RESERVATION}, Capacity("ON_DEMAND", RESERVATION)),
        (
            {"kind": "reservation", "reservationId": RESERVATION, "placementGroup": "ours"},
            Capacity("ON_DEMAND", RESERVATION, placement_group="ours"),
        ),
        ({"kind": "capacity-block", "reservationId": RESERVATION}, Capacity("CAPACITY_BLOCK", RESERVATION, "capacity-block")),
    ],
)
def test_each_kind_of_capacity_is_asked_for_in_its_own_way(capacity: dict[str, Any], expected: Capacity) -> None:
    assert capacity_of(gpu_settings(capacity=capacity, placementGroup=False).capacity) == expected


@pytest.mark.case("C005")
@pytest.mark.parametrize("kind", ["reservation", "capacity-block"])
def test_a_new_placement_group_with_capacity_bought_elsewhere_is_refused(kind: str) -> None:
    """C005: such a pair ends in InsufficientInstanceCapacity; without the group it is fine, with EFA still on."""
    capacity = {"kind": kind, "reservationId": RESERVATION}

    (problem,) = gpu_nodes_problems(gpu_settings(capacity=capacity), KUBERNETES)
    assert problem.where == "gpuNodes.placementGroup"
    assert "InsufficientInstanceCapacity" in problem.reason
    assert gpu_nodes_problems(gpu_settings(capacity=capacity, placementGroup=False, efa=True), KUBERNETES) == []


@pytest.mark.parametrize(
    ("changes", "key", "reason"),
    [
        ({"rootVolumeIops": 3000, "rootVolumeThroughput": 1000}, "gpuNodes.rootVolumeThroughput", "0.25 MiB/s per IOPS"),
        ({"releaseVersion": "1.35.8-20260930"}, "gpuNodes.releaseVersion", "panics"),
        ({"releaseVersion": "1.36.4-20261012"}, "gpuNodes.releaseVersion", "the cluster has 1.35"),
    ],
)
def test_what_a_node_cannot_have_is_named_with_its_reason(changes: dict[str, Any], key: str, reason: str) -> None:
    (problem,) = gpu_nodes_problems(gpu_settings(**changes), KUBERNETES)

    assert problem.where == key
    assert reason in problem.reason
    assert problem.fix


def test_a_disk_may_be_as_fast_as_its_operations_allow() -> None:
    assert gpu_nodes_problems(gpu_settings(rootVolumeIops=4000, rootVolumeThroughput=1000), KUBERNETES) == []


@pytest.mark.parametrize(
    ("effect", "written"),
    [("NoSchedule", "NO_SCHEDULE"), ("NoExecute", "NO_EXECUTE"), ("PreferNoSchedule", "PREFER_NO_SCHEDULE")],
)
def test_a_taints_effect_is_written_as_eks_writes_it(effect: Any, written: str) -> None:
    assert Taint("key", "value", effect).eks_effect == written


@pytest.mark.case("C008")
def test_a_new_taint_reaches_everyone_who_tolerates() -> None:
    """C008"""
    taints = (Taint("nvidia.com/gpu", "true", "NoSchedule"), Taint("team", "a", "NoExecute"))

    for taint in taints:
        assert tolerates(tolerations(taints), vars(taint))
    assert not tolerates(tolerations(taints[:1]), vars(taints[1]))


@pytest.mark.case("C009")
def test_only_nodes_with_efa_carry_its_label() -> None:
    """C009"""
    assert gpu_node_labels(efa=False) == {"ray-train-eks/gpu": "true"}
    assert gpu_node_labels(efa=True) == {"ray-train-eks/gpu": "true", "ray-train-eks/efa": "true"}


def test_an_affinity_asks_for_all_labels_at_once() -> None:
    (term,) = required_affinity({"a": "1", "b": "2"})["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][  # type: ignore[index]
        "nodeSelectorTerms"
    ]

    assert [item["key"] for item in term["matchExpressions"]] == ["a", "b"]
