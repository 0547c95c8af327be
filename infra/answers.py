"""What comes back from an account that was asked: why there is no answer, and tags in one spelling. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class NotAsked:
    """A question without an answer: the caller may not ask it (`denied`), or nobody answered."""

    reason: str
    denied: bool = False

    def __str__(self) -> str:
        return self.reason


def plain_tags(tags: Sequence[dict[str, str]] | dict[str, str] | None) -> dict[str, str]:
    """Tags as key -> value, from each of the spellings that services have."""
    if isinstance(tags, dict):
        return tags
    return {tag.get("Key", tag.get("TagKey", "")): tag.get("Value", tag.get("TagValue", "")) for tag in tags or ()}


def has_tags(tags: Sequence[dict[str, str]] | dict[str, str] | None, wanted: Mapping[str, str]) -> bool:
    """Whether all of `wanted` are among a thing's tags; it may have others."""
    return wanted.items() <= plain_tags(tags).items()
