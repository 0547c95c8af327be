"""Both node groups of every environment on EKS: what nodeadm reads, and what a template must leave to its group."""

from __future__ import annotations

import base64
import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.infra.node_rules import template_findings, user_data_findings
from tests.infra.recordings import recorded, run

GROUPS = {"gpu-nodes-nodes": "gpu-nodes-template", "cluster-system-nodes": "cluster-system-template"}


@pytest.mark.parametrize("name", ["dev", "prod"])
def test_every_node_group_has_a_template_of_its_own(name: str) -> None:
    recording = recorded(name)
    templates = {
        request.name: {each.rsplit("::", 1)[-1] for each in request.propertyDependencies["launchTemplate"].urns}
        for request in recording.requests.values()
        if request.type == "aws:eks/nodeGroup:NodeGroup"
    }

    assert templates == {group: {template} for group, template in GROUPS.items()}


@pytest.mark.parametrize("name", ["dev", "prod"])
@pytest.mark.parametrize("group", GROUPS)
def test_a_template_leaves_to_its_group_what_is_the_groups(name: str, group: str) -> None:
    recording = recorded(name)

    assert template_findings(recording.of(GROUPS[group]), recording.of(group)) == []


@pytest.mark.parametrize("name", ["dev", "prod"])
def test_the_gpu_nodes_user_data_is_what_nodeadm_takes(name: str) -> None:
    assert user_data_findings(recorded(name).of("gpu-nodes-template")["userData"]) == []


@pytest.mark.case("C029")
def test_user_data_with_lustres_client_is_what_eks_merges() -> None:
    lustre = run(store={"kind": "fsx"})

    for name in ("gpu-nodes-template", "cluster-system-template"):
        assert user_data_findings(lustre.of(name)["userData"]) == []


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("RAID0", "RAID1", "'RAID1' is not one of"),
        ("localStorage", "localStorages", "'localStorages' was unexpected"),
        ("v1alpha1", "v1alpha2", "was expected"),
        ("kind: NodeConfig", "kind: Nodeconfig", "was expected"),
        ("  instance:", "  cluster:\n    name: dev\n  instance:", "'cluster' was unexpected"),
        ("application/node.eks.aws", "text/x-shellscript", "a part of type text/x-shellscript"),
        ("multipart/mixed", "text/plain", "not MIME"),
        ("--ray-train-eks-node-config\n", "--another-boundary\n", "not MIME"),
        ("RAID0", "RAID0" + " " * 16384, "bytes, where 16384 are allowed"),
    ],
)
def test_user_data_with_a_mistake_is_refused(old: str, new: str, said: str) -> None:
    text = base64.b64decode(recorded("dev").of("gpu-nodes-template")["userData"]).decode()
    assert old in text

    found = user_data_findings(base64.b64encode(text.replace(old, new).encode()).decode())
    assert any(said in each for each in found), found


def test_user_data_that_is_not_base64_is_refused() -> None:
    assert user_data_findings("apiVersion: node.eks.aws/v1alpha1")[0].startswith("not base64")


Mistake = Callable[[dict[str, Any], dict[str, Any]], Any]
MISTAKES: list[tuple[Mistake, str]] = [
    (lambda template, group: template.update(imageId="ami-1"), "imageId"),
    (lambda template, group: template.update(iamInstanceProfile={"name": "n"}), "iamInstanceProfile"),
    (lambda template, group: template.update(vpcSecurityGroupIds=["sg-1"]), "vpcSecurityGroupIds"),
    (lambda template, group: template["networkInterfaces"][0].update(subnetId="subnet-1"), "subnetId"),
    (lambda template, group: template.pop("userData"), "GB of local disks"),
    (lambda template, group: template.update(instanceType="m7i.xlarge"), "has 0 GB"),
    (lambda template, group: group.update(diskSize=100), "diskSize"),
    (lambda template, group: group.update(instanceTypes=["g6.12xlarge"]), "instanceTypes"),
    (lambda template, group: group.pop("amiType"), "amiType"),
]


@pytest.mark.parametrize(("mistake", "said"), MISTAKES, ids=[said for _, said in MISTAKES])
def test_a_template_that_eks_would_refuse_is_found(mistake: Mistake, said: str) -> None:
    recording = recorded("dev")
    template = copy.deepcopy(recording.of("gpu-nodes-template"))
    group = copy.deepcopy(recording.of("gpu-nodes-nodes"))
    mistake(template, group)

    (found,) = template_findings(template, group)
    assert said in found
