"""What policies are made of: a judge over plain data, wrapped for the pack.

A judge gets a resource's inputs as plain dicts and lists. What a preview can't know is `UNKNOWN`, a value like any other:
the SDK would end the whole policy at the first one, with a mere advice. So a judge decides what it means for its rule.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pulumi_policy import (
    EnforcementLevel,
    Policy,
    PolicyConfigSchema,
    PolicyResource,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    StackValidationArgs,
    StackValidationPolicy,
)
from pulumi_policy.proxy import UnknownValueError


class Unknown:
    """A value that only the update will know."""

    def __repr__(self) -> str:
        return "not known at preview"


UNKNOWN = Unknown()


@dataclass(frozen=True, kw_only=True)
class Subject:
    """One resource: inputs, what its provider adds, and what of it the engine protects."""

    kind: str
    name: str
    urn: str
    raw: Mapping[str, Any]
    provider: Mapping[str, Any] = field(default_factory=dict)
    protect: bool = False
    refers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # URNs behind a property; in a stack's judge alone
    config: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def props(self) -> Mapping[str, Any]:
        """Made when a judge asks: most resources concern no judge, and the operator's CRDs are large."""
        return plain(self.raw)

    def get(self, path: str, default: Any = None) -> Any:
        """The value at `a.b.c`; unknown as soon as one part of the way is."""
        return reach(self.props, path, default)


Judge = Callable[[Subject], Iterable[str]]
StackJudge = Callable[[Sequence[Subject]], Iterable[tuple[Subject, str]]]


def reach(value: Any, path: str, default: Any = None) -> Any:
    for part in path.split("."):
        if value is UNKNOWN:
            return UNKNOWN
        if not isinstance(value, Mapping) or value.get(part) is None:
            return default
        value = value[part]
    return value


def is_true(value: Any) -> bool:
    """AWS's SDK has booleans that are text."""
    return value is True or value == "true"


def items(value: Any) -> list[Any]:
    """A list as it is, one value as a list of it, nothing as none."""
    return list(value) if isinstance(value, list) else [] if value is None else [value]


def plain(value: Any) -> Any:
    """Out of the SDK's proxies."""
    if isinstance(value, Mapping):
        return {str(key): _known(value, key) for key in value}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_known(value, index) for index in range(len(value))]
    return value


def _known(container: Any, key: Any) -> Any:
    try:
        return plain(container[key])
    except UnknownValueError:
        return UNKNOWN


def resource_policy(name: str, description: str, judge: Judge, schema: PolicyConfigSchema | None = None) -> Policy:
    """A policy over single resources; a violation names the resource, also when the policy itself fails."""

    def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
        try:
            subject = _subject(args)
            # A component may be registered without its inputs; what it is made of is judged in any case.
            is_bare = subject.kind == "eks:index:Cluster" and not subject.props
            for message in () if is_bare else judge(subject):
                report(f"{args.name}: {message}", None)
        except Exception as error:  # the engine's own message names neither policy nor resource
            report(f"{args.name} ({args.resource_type}): this policy failed on it: {type(error).__name__}: {error}", None)

    return ResourceValidationPolicy(name, description, validate, EnforcementLevel.MANDATORY, schema)


def stack_policy(name: str, description: str, judge: StackJudge) -> Policy:
    """A policy over all resources together; runs after the program."""

    def validate(args: StackValidationArgs, report: ReportViolation) -> None:
        try:
            for subject, message in judge([_stack_subject(one, args.get_config()) for one in args.resources]):
                report(f"{subject.name}: {message}", subject.urn)
        except Exception as error:  # as above
            report(f"this policy failed on the stack: {type(error).__name__}: {error}", None)

    return StackValidationPolicy(name, description, validate, EnforcementLevel.MANDATORY)


def of_kind(subjects: Iterable[Subject], *kinds: str) -> Iterator[Subject]:
    yield from (subject for subject in subjects if subject.kind in kinds)


def refers_to(subject: Subject, prop: str, other: Subject, name: str) -> bool:
    """Whether a property is an output of `other`, or equals its input `name`."""
    known = other.get(name)
    return other.urn in subject.refers.get(prop, ()) or (isinstance(known, str) and subject.get(prop) == known)


def _subject(args: ResourceValidationArgs) -> Subject:
    provider = plain(args.provider.props) if args.provider else {}
    protect = bool(args.opts and args.opts.protect)
    return Subject(
        kind=args.resource_type,
        name=args.name,
        urn=args.urn,
        raw=args.props,
        provider={key: _decoded(value) for key, value in provider.items()},
        protect=protect,
        config=args.get_config(),
    )


def _stack_subject(resource: PolicyResource, config: Mapping[str, Any]) -> Subject:
    refers = {key: tuple(one.urn for one in found) for key, found in resource.property_dependencies.items()}
    return Subject(
        kind=resource.resource_type,
        name=resource.name,
        urn=resource.urn,
        raw=resource.props,
        protect=bool(resource.opts and resource.opts.protect),
        refers=refers,
        config=config,
    )


def _decoded(value: Any) -> Any:
    """A provider's objects travel as JSON text."""
    try:
        return json.loads(value) if isinstance(value, str) and value[:1] in "{[" else value
    except ValueError:
        return value
