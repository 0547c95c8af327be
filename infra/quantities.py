"""Kubernetes quantities (`600m`, `3Gi`): checked, compared, and written in the one form that the API server keeps.

A quantity in another form (`0.6`, `3072Mi`) comes back rewritten once the operator saves the object, and would show as a
change at every refresh. Pure.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

_PATTERN = re.compile(r"^(?P<number>[0-9]+(\.[0-9]+)?|\.[0-9]+)(?P<suffix>[KMGTPE]i|[mkMGTPE]|)$")
_BINARY = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL = ("k", "M", "G", "T", "P", "E")
MEBIBYTE = 2**20


def _factor(suffix: str) -> Decimal:
    if suffix in _BINARY:
        return Decimal(1024) ** (_BINARY.index(suffix) + 1)
    if suffix in _DECIMAL:
        return Decimal(1000) ** (_DECIMAL.index(suffix) + 1)
    return Decimal("0.001") if suffix == "m" else Decimal(1)


def amount(text: str) -> Decimal:
    """The number that a quantity stands for: bytes, or CPU cores."""
    match = _PATTERN.match(text)
    if not match:
        raise ValueError("is not a quantity such as 600m, 2, 512Mi or 3Gi")
    return Decimal(match["number"]) * _factor(match["suffix"])


def canonical(text: str) -> str:
    """The same amount as the API server writes it: the largest suffix of its kind that leaves a whole number."""
    value = amount(text)
    binary = text.endswith(_BINARY) and value >= 1024
    for suffix in reversed(_BINARY if binary else _DECIMAL):
        if value and value % _factor(suffix) == 0:
            return f"{int(value / _factor(suffix))}{suffix}"
    if value % 1 == 0:
        return str(int(value))
    return f"{int(value * 1000)}m"


def _number_to_text(value: object) -> object:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _cpu(text: str) -> str:
    cores = amount(text)
    if cores < Decimal("0.001") or cores * 1000 % 1:
        raise ValueError("is not a whole number of thousandths of a core, at least 1m")
    if cores > 1024:
        raise ValueError("is more than 1024 cores; thousandths are written with m")
    return canonical(text)


def _memory(text: str) -> str:
    size = amount(text)
    if size % 1:
        raise ValueError("is not a whole number of bytes")
    if size < 16 * MEBIBYTE:
        raise ValueError("is less than 16Mi; a number without a suffix counts bytes")
    return canonical(text)


Cpu = Annotated[str, BeforeValidator(_number_to_text), AfterValidator(_cpu)]
Memory = Annotated[str, BeforeValidator(_number_to_text), AfterValidator(_memory)]
