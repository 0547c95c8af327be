"""The operator's CRDs as one resource, which the stack knows by a hash.

A dynamic provider: as resources of their own these objects, half a megabyte each, took a preview more time than all the rest.
The class is found by its name, as `job_gate.py` says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pulumi import Input, ResourceOptions
from pulumi.dynamic import CreateResult, DiffResult, ReadResult, Resource, ResourceProvider, UpdateResult

_INPUTS = ("kubeconfig", "version", "digest")


class OperatorCrdsProvider(ResourceProvider):
    """create and update apply; delete leaves them, because every RayJob of the cluster would go with them."""

    serialize_as_secret_always = False  # the kubeconfig names a command, and holds no secret

    def diff(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> DiffResult:
        return DiffResult(changes=any(_olds.get(name) != _news.get(name) for name in _INPUTS))

    def create(self, props: dict[str, Any]) -> CreateResult:
        return CreateResult(id_="operator-crds", outs=_applied(props))

    def update(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> UpdateResult:
        return UpdateResult(outs=_applied(_news))

    def read(self, id_: str, props: dict[str, Any]) -> ReadResult:
        """One that is missing, or not ours any more, is a difference that the next update mends."""
        with _open(props) as crds:
            are_ours = crds.are_applied(props.get("generations", {}))
        return ReadResult(id_=id_, outs={**props, "digest": props["digest"] if are_ours else ""})

    def delete(self, _id: str, _props: dict[str, Any]) -> None:
        pass


class OperatorCrds(Resource, name="OperatorCrds"):
    """`props`: kubeconfig (JSON), version (of the operator), digest (of its CRDs)."""

    def __init__(self, name: str, props: Mapping[str, Input[Any]], opts: ResourceOptions) -> None:
        super().__init__(OperatorCrdsProvider(), name, {**props}, opts)


def _applied(props: Mapping[str, Any]) -> dict[str, Any]:
    """The outputs: what went in, and by which numbers a change by somebody else will be seen."""
    with _open(props) as crds:
        return {**props, "generations": crds.apply()}


def _open(props: Mapping[str, Any]) -> Any:
    from infra.live_crds import LiveCrds  # noqa: PLC0415 - a program that is only previewed needs no client

    return LiveCrds(*(props[name] for name in _INPUTS))
