"""A request that the provider makes of a resource's inputs: which input goes where in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.infra import aws_model
from tests.infra.recordings import NAME_SUFFIX


@dataclass(frozen=True)
class Call:
    """`places`: input -> where it goes, such as `a.b` or, in the one item of a list, `a[].b`. `within`: where all others go.

    `named`: the member that holds the physical name. `given`: what the provider adds. `names`: for inputs further down.
    """

    service: str
    operation: str
    places: Mapping[str, str] = field(default_factory=dict)
    named: str = ""
    within: str = ""
    given: Mapping[str, Any] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)

    def place(self, key: str) -> str | None:
        """Where an input goes; None if this request doesn't take it."""
        if key == "name" and self.named:
            return self.named
        if key in self.places:
            return self.places[key]
        shape = aws_model.shape_of(self.service, self.operation)
        if self.within:
            shape = shape.members[self.within]
        name = aws_model.member(shape, key, dict(self.names))
        return name and (f"{self.within}.{name}" if self.within else name)

    def request(self, logical_name: str, inputs: dict[str, Any]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        if self.named:
            _put(made, self.named, logical_name + NAME_SUFFIX)
        for path, value in [*self.given.items(), *((self.place(key), value) for key, value in inputs.items())]:
            if path is not None:
                _put(made, path, value)
        return made


def _put(request: dict[str, Any], path: str, value: Any) -> None:
    head, _, rest = path.partition(".")
    name, in_list = head.removesuffix("[]"), head.endswith("[]")
    if not rest:
        request[name] = [value] if in_list else value
    elif in_list:
        _put(request.setdefault(name, [{}])[0], rest, value)
    else:
        _put(request.setdefault(name, {}), rest, value)
