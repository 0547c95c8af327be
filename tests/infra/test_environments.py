"""All three environments, whole, against the recording engine: what holds for each of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pulumi
import pytest

from infra.quantities import amount
from tests.infra.eks_component import attempt, texts
from tests.infra.fake_engine import Recording
from tests.infra.recordings import ENVIRONMENTS, recorded, run


@pytest.fixture(params=ENVIRONMENTS)
def made(request: pytest.FixtureRequest) -> Recording:
    return recorded(request.param)


def pods(recording: Recording) -> list[dict[str, Any]]:
    spec = recording.of("job-ray-job")["spec"]
    cluster = spec["rayClusterSpec"]
    templates = [cluster["headGroupSpec"]["template"], *(group["template"] for group in cluster["workerGroupSpecs"])]
    return [template["spec"] for template in [*templates, spec["submitterPodTemplate"]]]


def containers(recording: Recording) -> Iterator[dict[str, Any]]:
    for pod in pods(recording):
        yield from (*pod.get("initContainers", ()), *pod["containers"])


@pytest.mark.case("C167")
def test_no_input_and_no_export_holds_what_an_output_becomes_inside_a_text(made: Recording) -> None:
    """Texts that somebody else made; of our own a recording would not have come to its end."""
    sent = [text for inputs in (*made.inputs.values(), *made.outputs.values()) for text in texts(inputs)]

    assert len(sent) > 50
    assert [text for text in sent if "Calling __str__" in text or "<pulumi.output" in text] == []


@pytest.mark.case("C167")
def test_an_output_inside_a_text_ends_a_recording() -> None:
    recording = attempt(lambda: pulumi.export("address", f"{pulumi.Output.from_input('x')}:80"))

    assert "__str__" in recording.error + " ".join(recording.logs)


@pytest.mark.case("C173", "C171")
def test_no_environment_holds_a_secret_in_its_state(made: Recording) -> None:
    """The token of Ray is the operator's: nothing here knows it."""
    assert [request.name for request in made.requests.values() if request.type.endswith(":Secret")] == []
    names = {variable["name"] for container in containers(made) for variable in container.get("env", ())}
    assert not {name for name in names if "TOKEN" in name or "SECRET" in name or "PASSWORD" in name}


@pytest.mark.case("C030", "C170")
def test_nothing_is_reached_from_outside_and_no_controller_makes_what_the_stack_does_not_know(made: Recording) -> None:
    kinds = {request.type.rsplit(":", 1)[-1] for request in made.requests.values()}

    assert not kinds & {"Service", "Ingress", "Gateway", "StorageClass", "LoadBalancer"}
    assert made.of("job-ray-job")["spec"]["rayClusterSpec"]["headGroupSpec"]["serviceType"] == "ClusterIP"


@pytest.mark.case("C022")
def test_no_pod_requests_more_than_its_limit(made: Recording) -> None:
    for container in containers(made):
        requests, limits = container["resources"]["requests"], container["resources"]["limits"]
        assert {name for name in limits if amount(str(requests[name])) > amount(str(limits[name]))} == set()


@pytest.mark.case("C011")
def test_every_pod_asks_for_cpu_and_memory_and_none_for_huge_pages(made: Recording) -> None:
    """With huge pages the API server would want both; EFA is told to do without."""
    for container in containers(made):
        assert {"cpu", "memory"} <= set(container["resources"]["requests"])
        assert not [name for name in container["resources"]["limits"] if name.startswith("hugepages")]


@pytest.mark.case("C175", "C143")
def test_no_pod_opens_a_port_or_reaches_for_its_node(made: Recording) -> None:
    on_node = {"hostNetwork", "hostPID", "hostIPC"}
    for pod in pods(made):
        assert not on_node & set(pod)
        folders = [volume["hostPath"]["path"] for volume in pod.get("volumes", ()) if "hostPath" in volume]
        assert folders in ([], ["/var/lib/ray-train-eks"])  # the store of a cluster that is there already
    for container in containers(made):
        assert "ports" not in container
        assert container["securityContext"]["allowPrivilegeEscalation"] is False


@pytest.mark.case("C004")
def test_another_zone_replaces_the_gpu_nodes_and_touches_nothing_else() -> None:
    before, after = recorded("dev"), run("dev", gpuNodes__zone="us-east-2b")
    assert not after.error, after.logs
    changed = {before.requests[urn].name for urn in before.inputs if before.inputs[urn] != after.inputs[urn]}

    assert changed == {"gpu-nodes-nodes"}
    assert before.names() == after.names()
