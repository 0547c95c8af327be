"""DevicePlugins: which releases there are, where their pods go, and that nothing depends on what a chart guesses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pulumi_aws as aws
import pulumi_kubernetes as kubernetes
import pytest

from infra.device_plugin_values import EFA_IMAGE, NVIDIA_IMAGE, efa_values, nvidia_values
from infra.device_plugins import DevicePlugins, DevicePluginsArgs
from infra.eks_settings import RegistriesSettings
from infra.node_labels import GPU_TAINTS, gpu_node_labels
from tests.infra.eks_component import record_component, tolerates
from tests.infra.fake_engine import Recording

RELEASE = "kubernetes:helm.sh/v3:Release"
MIRROR = RegistriesSettings(charts="https://charts.example.org/", images="registry.example.org/mirror/")


def program(efa: bool = True, registries: RegistriesSettings | None = None) -> Callable[[], DevicePlugins]:
    def make() -> DevicePlugins:
        nodes = aws.ec2.PlacementGroup("nodes", strategy="cluster")  # anything that is there first
        cluster = aws.ec2.PlacementGroup("control-plane", strategy="cluster")
        provider = kubernetes.Provider("provider", kubeconfig="{}")
        return DevicePlugins("plugins", DevicePluginsArgs(
            efa=efa, registries=registries or RegistriesSettings(), provider=provider, kubeconfig="{}", nodes=[nodes],
            cluster=cluster,
        ))  # fmt: skip

    return make


@pytest.fixture(scope="module")
def made() -> Recording:
    return record_component(program())


def selects(values: dict[str, Any], labels: dict[str, str]) -> bool:
    """Whether the chart's pods may go to a node with these labels."""
    if "supportedInstanceLabels" in values:
        chosen = values["supportedInstanceLabels"]
        return any(labels.get(key) in chosen["values"] for key in chosen["keys"])
    terms = values["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    return any(all(labels.get(item["key"]) in item["values"] for item in term["matchExpressions"]) for term in terms)


@pytest.mark.case("C007")
def test_both_plugins_are_pinned_and_in_kube_system(made: Recording) -> None:
    nvidia, efa = made.of("plugins-nvidia"), made.of("plugins-efa")

    assert (nvidia["chart"], nvidia["version"]) == ("nvidia-device-plugin", "0.20.0")
    assert nvidia["repositoryOpts"] == {"repo": "https://nvidia.github.io/k8s-device-plugin"}
    assert (efa["chart"], efa["version"]) == ("aws-efa-k8s-device-plugin", "v0.5.32")
    assert efa["repositoryOpts"] == {"repo": "https://aws.github.io/eks-charts"}
    assert {nvidia["namespace"], efa["namespace"]} == {"kube-system"}


@pytest.mark.case("C009")
def test_without_efa_there_is_no_efa_plugin() -> None:
    """C009: it crashes in a loop on nodes of an EFA-able type that have no EFA interface."""
    names = {request.name for request in record_component(program(efa=False)).requests.values() if request.type == RELEASE}

    assert names == {"plugins-nvidia"}


@pytest.mark.case("C008")
@pytest.mark.parametrize("name", ["plugins-nvidia", "plugins-efa"])
def test_a_plugin_tolerates_every_taint_of_the_gpu_nodes(made: Recording, name: str) -> None:
    """C008: the EFA plugin's chart tolerates none by itself."""
    for taint in GPU_TAINTS:
        assert tolerates(made.of(name)["values"]["tolerations"], vars(taint))


@pytest.mark.case("C009")
def test_a_plugin_goes_where_our_labels_are_and_nowhere_else(made: Recording) -> None:
    """C009: a label that an AMI or another person's node has is not enough."""
    foreign = {"nvidia.com/gpu.present": "true", "node.kubernetes.io/instance-type": "g6.12xlarge"}
    nvidia, efa = made.of("plugins-nvidia")["values"], made.of("plugins-efa")["values"]

    assert selects(nvidia, gpu_node_labels(efa=False))
    assert selects(nvidia, gpu_node_labels(efa=True))
    assert selects(efa, gpu_node_labels(efa=True))
    assert not selects(efa, gpu_node_labels(efa=False))
    assert not selects(nvidia, foreign)
    assert not selects(efa, foreign)
    assert not selects(efa, {"ray-train-eks/system": "true"})


@pytest.mark.case("C007")
def test_no_list_of_instance_types_decides_where_efa_works() -> None:
    """C007: a type that the chart doesn't list would get no pod, no event and no error."""
    assert efa_values(None)["supportedInstanceLabels"]["keys"] == ["ray-train-eks/efa"]
    assert selects(efa_values(None), {**gpu_node_labels(efa=True), "node.kubernetes.io/instance-type": "g7.12xlarge"})


def test_rdma_devices_belong_to_the_efa_plugin_alone() -> None:
    values = nvidia_values(None)

    assert (values["mofedEnabled"], values["gdsEnabled"], values["gdrcopyEnabled"]) == (False, False, False)


def test_charts_and_images_come_from_the_mirrors_that_are_set() -> None:
    recording = record_component(program(registries=MIRROR))

    for name in ("plugins-nvidia", "plugins-efa"):
        assert recording.of(name)["repositoryOpts"] == {"repo": "https://charts.example.org/"}
    repository = {name: recording.of(f"plugins-{name}")["values"]["image"]["repository"] for name in ("nvidia", "efa")}
    assert repository == {
        "nvidia": "registry.example.org/mirror/nvidia/k8s-device-plugin",
        "efa": "registry.example.org/mirror/eks/aws-efa-k8s-device-plugin",
    }
    assert repository["nvidia"].endswith(NVIDIA_IMAGE.split("/", 1)[1])
    assert repository["efa"].endswith(EFA_IMAGE.split("/", 1)[1])


def test_without_a_mirror_the_charts_own_images_are_left_alone(made: Recording) -> None:
    assert "image" not in made.of("plugins-nvidia")["values"]
    assert "image" not in made.of("plugins-efa")["values"]


@pytest.mark.case("C021")
@pytest.mark.parametrize("name", ["plugins-nvidia", "plugins-efa"])
def test_what_a_plugin_runs_is_waited_for_by_a_gate_that_says_why(made: Recording, name: str) -> None:
    """Helm's own wait says "context deadline exceeded", and names no pod."""
    assert made.of(name)["skipAwait"] is True
    assert name in made.comes_after(f"{name}-gate")


@pytest.mark.case("C153")
@pytest.mark.parametrize("name", ["plugins-nvidia", "plugins-efa"])
def test_plugins_come_after_their_nodes_and_die_with_the_cluster(made: Recording, name: str) -> None:
    """C153: a release can't be uninstalled from a cluster that is gone."""
    assert {"nodes", "provider", "plugins"} <= made.comes_after(name)
    assert made.request(name).deletedWith == made.urn("control-plane")
    assert made.request(name).provider.startswith(made.urn("provider"))


def test_a_preview_shows_the_same_resources(made: Recording) -> None:
    assert record_component(program(), preview=True).names() == made.names()
