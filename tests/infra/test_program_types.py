"""No input that the SDK doesn't know: every resource of every environment against the classes of its inputs."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.infra.recordings import ALL, recorded
from tests.infra.sdk_types import findings

# What the SDK has no class for, by the beginning of its type, and who judges it instead.
ELSEWHERE = {
    "pulumi:pulumi:Stack": "takes no inputs",
    "ray-train-eks:index:": "components of this project take none",
    "kubernetes:ray.io/": "the operator's own schema: test_eks_program.py",
    "pulumi-python:dynamic:": "classes of this project: test_live_job.py, test_operator_crds.py",
}


@pytest.mark.parametrize("name", ALL)
def test_every_input_is_one_that_the_sdk_knows(name: str) -> None:
    recording = recorded(name)
    found = {
        request.name: findings(request.type, recording.inputs[urn])
        for urn, request in recording.requests.items()
        if not request.type.startswith(tuple(ELSEWHERE))
    }

    assert {each: said for each, said in found.items() if said} == {}
    assert len(found) >= 4


@pytest.mark.parametrize("name", ALL)
def test_what_is_judged_elsewhere_takes_no_inputs_unless_its_judge_is_named(name: str) -> None:
    recording = recorded(name)
    silent = ("pulumi:pulumi:Stack", "ray-train-eks:index:")
    given = [
        request.name for urn, request in recording.requests.items() if request.type.startswith(silent) and recording.inputs[urn]
    ]

    assert given == []


Mistake = Callable[[dict[str, Any]], Any]
MISTAKES: list[tuple[str, Mistake, str]] = [
    ("gpu-nodes-nodes", lambda inputs: inputs["scalingConfig"].update(desiredSise=1), "desiredSise: not a key"),
    ("gpu-nodes-nodes", lambda inputs: inputs["scalingConfig"].pop("minSize"), "minSize: missing"),
    ("gpu-nodes-nodes", lambda inputs: inputs.update(subnetIds="subnet-1"), "where a list belongs"),
    ("gpu-nodes-nodes", lambda inputs: inputs.update(labels=["gpu"]), "where a map belongs"),
    ("gpu-nodes-template", lambda inputs: inputs["networkInterfaces"][0].update(deviceIndex="one"), "where int belongs"),
    ("gpu-nodes-template", lambda inputs: inputs["networkInterfaces"][0].update(efa=True), "efa: not a key"),
    ("cluster-node-AmazonEKS_CNI_Policy", lambda inputs: inputs.pop("role"), "role: missing"),
    ("cluster-control-plane", lambda inputs: inputs.update(authenticationMode="BOTH"), "is no AuthenticationMode"),
    ("store-s3-encryption", lambda inputs: inputs["rules"][0].update(bucketKey=True), "bucketKey: not a key"),
    ("job-space-egress", lambda inputs: inputs["spec"]["egress"][1].update(port=53), "port: not a key"),
    ("job-space-service-account", lambda inputs: inputs.update(automountServiceAccountToken=1), "where bool belongs"),
    ("ray-operator-release", lambda inputs: inputs.update(skipCRDs=True), "skipCRDs: not a key"),
    ("aws", lambda inputs: inputs.update(regoin="us-east-2"), "regoin: not a key"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "mistake", "said"), MISTAKES, ids=[f"{name}: {said}" for name, _, said in MISTAKES])
def test_a_mistake_that_would_be_sent_is_found(name: str, mistake: Mistake, said: str) -> None:
    recording = recorded("dev")
    inputs = copy.deepcopy(recording.of(name))
    mistake(inputs)

    found = findings(recording.request(name).type, inputs)
    assert len(found) == 1, found
    assert said in found[0]


def test_a_type_that_the_sdk_has_no_class_for_is_not_passed_over() -> None:
    with pytest.raises(LookupError, match="no package"):
        findings("random:index/randomId:RandomId", {})
