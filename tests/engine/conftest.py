"""These tests need a Pulumi engine whose AWS provider works on an account in a folder, whose EKS cluster is a real one.

RAYTRAIN_E2E_ACCOUNT: that folder. RAYTRAIN_E2E_CHARTS: a Helm repository with the three charts. RAYTRAIN_E2E_FAULTS: the
name of the variable that makes an operation of the account fail. RAYTRAIN_E2E_STOP, RAYTRAIN_E2E_START: commands that stop
and start the part of the cluster that is named after them.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.engine.account import Account
from tests.engine.bucket_service import BucketService, bucket_service
from tests.engine.eks_project import CPU_RUN, EksProject
from tests.engine.pod_identity import AGENT_ADDRESS, Agent, Webhook

VARIABLES = tuple(f"RAYTRAIN_E2E_{name}" for name in ("ACCOUNT", "CHARTS", "FAULTS", "STOP", "START"))
ROLES = ("system", "gpu", "efa")  # of nodes; the one node of the cluster has them all
DEVICES = {"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "2"}
RELEASES = {"kuberay-operator": "ray-system", "nvidia-device-plugin": "kube-system", "aws-efa-k8s-device-plugin": "kube-system"}


def kubectl(*arguments: str, stdin: str | None = None, check: bool = True) -> str:
    command = ["kubectl", "--request-timeout=20s", *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120, check=False)
    if check and done.returncode:
        raise AssertionError(f"{' '.join(command)}: {done.stderr}")
    return done.stdout


@dataclass(frozen=True)
class World:
    """What surrounds a stack here: the account, and what the account's services do in the cluster."""

    account: Account
    buckets: BucketService
    agent: Agent


@pytest.fixture(scope="session")
def account() -> Account:
    missing = [program for program in ("pulumi", "kubectl", "helm") if shutil.which(program) is None]
    missing += [name for name in VARIABLES if name not in os.environ]
    if missing:
        pytest.skip(f"not on PATH, or not set: {', '.join(missing)}")
    return Account(Path(os.environ["RAYTRAIN_E2E_ACCOUNT"]))


@contextlib.contextmanager
def _nodes() -> Iterator[str]:
    """The node is one of each role, with devices that are made up. Yields its address."""
    (node,) = json.loads(kubectl("get", "nodes", "--output", "json"))["items"]
    name = node["metadata"]["name"]
    labels = [f"ray-train-eks/{role}" for role in ROLES]
    kubectl("label", "node", name, "--overwrite", *(f"{label}=true" for label in labels))
    patch = [
        {"op": "add", "path": f"/status/capacity/{key.replace('/', '~1')}", "value": count} for key, count in DEVICES.items()
    ]
    kubectl("patch", "node", name, "--subresource=status", "--type=json", "--patch", json.dumps(patch))
    try:
        yield next(each["address"] for each in node["status"]["addresses"] if each["type"] == "InternalIP")
    finally:
        kubectl("label", "node", name, *(f"{label}-" for label in labels))


@contextlib.contextmanager
def _pod_identity(account: Account, folder: Path) -> Iterator[Agent]:
    with contextlib.ExitStack() as undo:
        subprocess.run(["ip", "address", "add", f"{AGENT_ADDRESS}/32", "dev", "lo"], check=True, timeout=20)
        undo.callback(subprocess.run, ["ip", "address", "del", f"{AGENT_ADDRESS}/32", "dev", "lo"], check=True, timeout=20)
        agent = Agent(account.is_associated)
        undo.callback(agent.close)
        webhook = Webhook(account.is_associated, folder)
        undo.callback(webhook.close)
        kubectl("apply", "--filename", "-", stdin=json.dumps(webhook.configuration("pod-identity")))
        undo.callback(kubectl, "delete", "mutatingwebhookconfiguration", "pod-identity")
        yield agent


@pytest.fixture(scope="session")
def world(account: Account, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("pod-identity")
    with _nodes() as address, bucket_service(account, address) as buckets, _pod_identity(account, folder) as agent:
        yield World(account, buckets, agent)


@pytest.fixture(scope="module")
def new_stack(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., EksProject]]:
    """Makes a project of its own. What a failed test left in the cluster is removed: there the cluster is never deleted."""
    made: list[EksProject] = []

    def make(*changes: str) -> EksProject:
        folder, endpoint = tmp_path_factory.mktemp("stack") / "project", f"store.endpoint={world.buckets.endpoint}"
        made.append(EksProject(folder, os.environ["RAYTRAIN_E2E_CHARTS"], "dev", *CPU_RUN, endpoint, *changes))
        return made[-1]

    yield make
    for project in made:
        project.pulumi("cancel", "--yes", "--stack", project.stack, check=False)
        project.destroy(check=False)
    forget_the_cluster()


def forget_the_cluster() -> None:
    """What is gone with an EKS cluster, and outlives one that isn't deleted."""
    for release, namespace in RELEASES.items():
        command = ["helm", "uninstall", release, "--namespace", namespace]
        subprocess.run(command, capture_output=True, timeout=120, check=False)
    for namespace in ("ray-train", "ray-system"):
        kubectl("delete", "pods", "--all", "--namespace", namespace, "--grace-period=0", "--force", check=False)
    kubectl("delete", "namespace", "ray-train", "ray-system", "--ignore-not-found", "--wait", "--timeout=90s")


@contextlib.contextmanager
def no_system_node() -> Iterator[None]:
    """Nothing that belongs on a system node can be scheduled meanwhile."""
    kubectl("label", "node", "--all", "ray-train-eks/system-")
    try:
        yield
    finally:
        kubectl("label", "node", "--all", "ray-train-eks/system=true")


def fails(what: str) -> dict[str, str]:
    """Environment variables that make an operation of the account fail: `type:operation:message`."""
    return {os.environ["RAYTRAIN_E2E_FAULTS"]: what}


def part(action: str, name: str) -> None:
    """Stops or starts a part of the cluster."""
    subprocess.run(["sh", "-c", f"{os.environ[f'RAYTRAIN_E2E_{action}']} {name}"], check=True, capture_output=True, timeout=120)
