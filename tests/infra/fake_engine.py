# ruff: noqa: N802 - the methods have the names of the protocol
"""Runs a Pulumi program against a recording engine: no CLI, no plugin, no cluster.

The program is executed unchanged by the SDK's own runner (a private part of it: `pulumi` is pinned exactly, and
`test_the_recorder_sees_an_empty_program` is its canary). What a provider would compute comes from `computed`.
"""

from __future__ import annotations

import runpy
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import empty_pb2, json_format, struct_pb2
from pulumi.automation._server import LanguageServer
from pulumi.runtime import rpc
from pulumi.runtime.proto import engine_pb2, engine_pb2_grpc, language_pb2, resource_pb2, resource_pb2_grpc, source_pb2

Computed = Callable[[str, str, dict[str, Any]], dict[str, Any]]


@dataclass
class Recording:
    """What a program asked for, by URN, and how it ended."""

    requests: dict[str, resource_pb2.RegisterResourceRequest] = field(default_factory=dict)
    inputs: dict[str, dict[str, Any]] = field(default_factory=dict)
    outputs: dict[str, dict[str, Any]] = field(default_factory=dict)
    logs: list[str] = field(default_factory=list)
    error: str = ""

    def names(self) -> set[str]:
        return {f"{request.type} {request.name}" for request in self.requests.values()}

    def urn(self, name: str) -> str:
        return next(urn for urn, request in self.requests.items() if request.name == name)

    def of(self, name: str) -> dict[str, Any]:
        return self.inputs[self.urn(name)]

    def request(self, name: str) -> resource_pb2.RegisterResourceRequest:
        return self.requests[self.urn(name)]

    def comes_after(self, name: str) -> set[str]:
        """Everything that exists before `name` does: dependencies, parents and providers, all the way."""
        found: set[str] = set()
        todo = [self.urn(name)]
        while todo:
            request = self.requests[todo.pop()]
            direct = {*request.dependencies, request.parent, request.provider.rsplit("::", 1)[0]} & set(self.requests)
            direct |= {urn for item in request.propertyDependencies.values() for urn in item.urns} & set(self.requests)
            todo += direct - found
            found |= direct
        return {self.requests[urn].name for urn in found}

    @property
    def exports(self) -> dict[str, Any]:
        return next((out for urn, out in self.outputs.items() if "pulumi:pulumi:Stack" in urn), {})


class _Monitor(resource_pb2_grpc.ResourceMonitorServicer):
    def __init__(self, recording: Recording, project: str, stack: str, preview: bool, computed: Computed) -> None:
        self._recording, self._project, self._stack, self._preview, self._computed = (
            recording,
            project,
            stack,
            preview,
            computed,
        )
        self._lock = threading.Lock()

    def GetDeploymentInfo(self, request, context):
        features = list(resource_pb2.ResourceMonitorFeature.values())
        return resource_pb2.DeploymentInfo(
            project=self._project, stack=self._stack, organization="org", dryRun=self._preview, supportedFeatures=features
        )

    def SupportsFeature(self, request, context):
        return resource_pb2.SupportsFeatureResponse(hasSupport=True)

    def RegisterPackage(self, request, context):
        return resource_pb2.RegisterPackageResponse(ref=f"{request.name}@{request.version}")

    def _done(self, request, context):
        return empty_pb2.Empty()

    SignalAndWaitForShutdown = RegisterResourceHook = RegisterErrorHook = _done
    RegisterStackTransform = RegisterStackInvokeTransform = _done

    def RegisterResourceOutputs(self, request, context):
        self._recording.outputs[request.urn] = _plain(request.outputs)
        return empty_pb2.Empty()

    def Invoke(self, request, context):
        """A resource inside another's outputs: its state is what `computed` says of it."""
        assert request.tok == "pulumi:pulumi:getResource", request.tok
        urn = request.args["urn"]
        kind, name = urn.split("::")[2].rsplit("$", 1)[-1], urn.rsplit("::", 1)[-1]
        found = {"urn": urn, "id": f"{name}-id", "state": self._computed(kind, name, {})}
        return resource_pb2.ResourceInvokeResponse(**{"return": json_format.ParseDict(found, struct_pb2.Struct())})

    def RegisterResource(self, request, context):
        parent = request.parent.split("::")[2] + "$" if request.parent and "pulumi:pulumi:Stack" not in request.parent else ""
        urn = f"urn:pulumi:{self._stack}::{self._project}::{parent}{request.type}::{request.name}"
        inputs = _plain(request.object)
        with self._lock:
            if urn in self._recording.requests:
                context.abort(grpc.StatusCode.ALREADY_EXISTS, f"Duplicate resource URN {urn}")
            self._recording.requests[urn], self._recording.inputs[urn] = request, inputs
        state, identifier = dict(inputs), ""
        if (request.custom or request.remote) and not self._preview:
            found = dict(self._computed(request.type, request.name, inputs))
            identifier = found.pop("id", f"{request.name}-id") if request.custom else ""
            state = _merge(_with_status(request.type, state), found)
        answer = json_format.ParseDict(state, struct_pb2.Struct())
        return resource_pb2.RegisterResourceResponse(urn=urn, id=identifier, object=answer)


class _Engine(engine_pb2_grpc.EngineServicer):
    def __init__(self, recording: Recording) -> None:
        self._recording, self._root = recording, ""

    def Log(self, request, context):
        self._recording.logs.append(request.message)
        return empty_pb2.Empty()

    def GetRootResource(self, request, context):
        return engine_pb2.GetRootResourceResponse(urn=self._root)

    def SetRootResource(self, request, context):
        self._root = request.urn
        return engine_pb2.SetRootResourceResponse()

    def RequirePulumiVersion(self, request, context):
        return engine_pb2.RequirePulumiVersionResponse()


@contextmanager
def _without_what_nobody_reads() -> Iterator[None]:
    """Debug messages and where each resource was written: more than half of a run's time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pulumi.log.debug", lambda *_args, **_more: None)
        patch.setattr("pulumi.runtime.resource._get_stack_trace", source_pb2.StackTrace)
        yield


def record(
    program: Path | Callable[[], None],
    config: Mapping[str, str],
    stack: str,
    *,
    project: str = "ray-train-eks",
    preview: bool = False,
    secret_keys: tuple[str, ...] = (),
    computed: Computed = lambda _type, _name, _inputs: {},
) -> Recording:
    """Runs `program` once, as `pulumi up` would on an empty stack, or as `pulumi preview` would."""
    recording = Recording()
    server = grpc.server(ThreadPoolExecutor(16))
    resource_pb2_grpc.add_ResourceMonitorServicer_to_server(_Monitor(recording, project, stack, preview, computed), server)
    engine_pb2_grpc.add_EngineServicer_to_server(_Engine(recording), server)
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()

    def run() -> None:
        program() if callable(program) else runpy.run_path(str(program), run_name="__main__")

    request = language_pb2.RunRequest(
        project=project, stack=stack, organization="org", monitor_address=address, args=[address], dryRun=preview, parallel=8,
        config=dict(config), configSecretKeys=list(secret_keys),
    )  # fmt: skip
    try:
        with _without_what_nobody_reads():
            recording.error = LanguageServer(run).Run(request, None).error
    except Exception as error:  # the runner itself raises when it drains failed tasks
        recording.error = f"{type(error).__name__}: {error}"
    finally:
        server.stop(0)
    return recording


def _plain(struct: struct_pb2.Struct) -> dict[str, Any]:
    """As JSON; an unknown value stays `rpc.UNKNOWN`, a secret stays wrapped."""
    output_value = "d0e6a833031e9bbcd3f4e8bde6ca49a4"

    def unwrap(value: Any) -> Any:
        if isinstance(value, dict):
            if value.get(rpc._special_sig_key) == output_value:
                return unwrap(value["value"]) if "value" in value else rpc.UNKNOWN
            return {key: unwrap(item) for key, item in value.items()}
        return [unwrap(item) for item in value] if isinstance(value, list) else value

    return unwrap(json_format.MessageToDict(struct))


def _with_status(kind: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """What the provider adds to any Helm release."""
    if kind != "kubernetes:helm.sh/v3:Release":
        return inputs
    return {**inputs, "status": {"name": inputs["name"], "namespace": inputs["namespace"], "revision": 1, "status": "deployed"}}


def _merge(state: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    merged = dict(state)
    for key, value in more.items():
        merged[key] = _merge(merged[key], value) if isinstance(value, dict) and isinstance(merged.get(key), dict) else value
    return merged
