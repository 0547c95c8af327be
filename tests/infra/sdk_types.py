"""What the SDK's own classes say of a resource's inputs as they travel: which keys there are, and of what kind.

A class refuses a wrong keyword when it is built. A plain dict is sent as it is, and so is a text where a list belongs; and
an input whose value came out as None is sent as nothing at all.
"""

from __future__ import annotations

import collections.abc
import enum
import functools
import importlib
import inspect
import re
import typing
from collections.abc import Iterator
from typing import Any

from pulumi import _types
from pulumi.runtime import rpc

_SCALARS: dict[type, tuple[type, ...]] = {bool: (bool,), str: (str,), int: (int, float), float: (int, float)}


def findings(kind: str, inputs: dict[str, Any]) -> list[str]:
    """What is wrong with the inputs of a resource of this type. Raises LookupError for a type without a class."""
    args = args_class(kind)
    in_provider = kind.startswith("pulumi:providers:")
    return list(_structure(inputs, args, kind.rsplit(":", 1)[-1], is_text=in_provider))


@functools.cache
def args_class(kind: str) -> type:
    """The class of the SDK that holds the inputs: `aws:eks/addon:Addon` -> `pulumi_aws.eks.AddonArgs`."""
    package, module, name = kind.split(":")
    candidates = (
        ("ProviderArgs",) if package == "pulumi" else (f"{name}InitArgs", f"{name}Args")
    )  # Init: where Args is a part's
    classes = importlib.import_module(_module(package, module, name))
    if found := next((getattr(classes, each) for each in candidates if hasattr(classes, each)), None):
        return found
    raise LookupError(f"{kind}: the SDK has no class for its inputs")


def _module(package: str, module: str, name: str) -> str:
    if package == "pulumi" and module == "providers":
        return f"pulumi_{name}"
    if package == "aws":
        folder, file = module.split("/")  # by its file: names of resources and of parts of others meet in the package
        return f"pulumi_aws.{folder}.{re.sub(r'([A-Z])', r'_\1', file).lower()}"
    if package == "eks":
        return "pulumi_eks"
    if package == "kubernetes":
        group, version = module.split("/")
        return f"pulumi_kubernetes.{group.split('.')[0]}.{version}"
    raise LookupError(f"{package}:{module}:{name}: no package of the SDK")


@functools.cache
def _keys(args: type) -> dict[str, tuple[Any, bool]]:
    """Key on the wire -> its type, and whether it must be given."""
    types, parameters = _types.input_type_types(args), inspect.signature(args.__init__).parameters
    names = _types.input_type_py_to_pulumi_names(args)
    return {key: (types[key], parameters[name].default is inspect.Parameter.empty) for name, key in names.items()}


def _structure(value: Any, args: type, path: str, *, is_text: bool = False) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path}: {value!r} where {args.__name__} belongs"
        return
    keys = _keys(args)
    for key, item in value.items():
        if key not in keys:
            yield f"{path}.{key}: not a key of {args.__name__}"
        elif not is_text:  # a provider's own inputs all travel as texts
            yield from _value(item, keys[key][0], f"{path}.{key}")
    yield from (f"{path}.{key}: missing" for key, (_, needed) in keys.items() if needed and value.get(key) is None)


def _value(value: Any, declared: Any, path: str) -> Iterator[str]:
    """Nothing, if one of the kinds that are declared takes it; else what the nearest one says."""
    if isinstance(value, dict) and rpc._special_sig_key in value:  # a secret, or a reference to a resource
        value = value.get("value", rpc.UNKNOWN)
    kinds = [kind for kind in _alternatives(declared) if kind is not type(None) and not typing.is_typeddict(kind)]
    if value is None or value == rpc.UNKNOWN or not kinds or Any in kinds:
        return
    yield from min((list(_one(value, kind, path)) for kind in kinds), key=len)


def _alternatives(declared: Any) -> list[Any]:
    if typing.get_origin(declared) is typing.Union:
        return [kind for one in typing.get_args(declared) for kind in _alternatives(one)]
    is_promise = getattr(typing.get_origin(declared), "__name__", "") in ("Output", "Awaitable")
    return [] if is_promise else [declared]


def _one(value: Any, kind: Any, path: str) -> Iterator[str]:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (list, collections.abc.Sequence):
        yield from _items(enumerate(value) if isinstance(value, list) else None, value, inner[0], path, "a list")
    elif origin in (dict, collections.abc.Mapping):
        yield from _items(value.items() if isinstance(value, dict) else None, value, inner[1], path, "a map")
    elif isinstance(kind, type) and _types.is_input_type(kind):
        yield from _structure(value, kind, path)
    elif isinstance(kind, type) and issubclass(kind, enum.Enum):
        if value not in [member.value for member in kind]:
            yield f"{path}: {value!r} is no {kind.__name__}"
    elif kind in _SCALARS and not _is_scalar(value, kind):
        yield f"{path}: {value!r} where {kind.__name__} belongs"


def _items(pairs: Any, value: Any, inner: Any, path: str, what: str) -> Iterator[str]:
    if pairs is None:
        yield f"{path}: {value!r} where {what} belongs"
        return
    for key, item in pairs:
        yield from _value(item, inner, f"{path}[{key}]")


def _is_scalar(value: Any, kind: type) -> bool:
    """Numbers travel as floats, and a bool is no number."""
    return isinstance(value, _SCALARS[kind]) and (kind is bool or not isinstance(value, bool))
