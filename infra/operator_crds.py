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
        _apply(props)
        return CreateResult(id_="operator-crds", outs=props)

    def update(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> UpdateResult:
        _apply(_news)
        return UpdateResult(outs=_news)

    def read(self, id_: str, props: dict[str, Any]) -> ReadResult:
        """One that is missing, or not ours any more, is a difference that the next update mends."""
        with _open(props) as crds:
            return ReadResult(id_=id_, outs={**props, "digest": props["digest"] if crds.are_applied() else ""})

    def delete(self, _id: str, _props: dict[str, Any]) -> None:
        pass


class OperatorCrds(Resource, name="OperatorCrds"):
    """`props`: kubeconfig (JSON), version (of the operator), digest (of its CRDs)."""

    def __init__(self, name: str, props: Mapping[str, Input[Any]], opts: ResourceOptions) -> None:
        super().__init__(OperatorCrdsProvider(), name, {**props}, opts)


def _apply(props: Mapping[str, Any]) -> None:
    with _open(props) as crds:
        crds.apply()


def _open(props: Mapping[str, Any]) -> Any:
    from infra.live_crds import LiveCrds  # noqa: PLC0415 - a program that is only previewed needs no client

    return LiveCrds(*(props[name] for name in _INPUTS))
