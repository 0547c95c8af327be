"""Things found in an account after a destroy, and into which group each belongs. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from infra.eks_settings import EfsStore, FsxStore, S3Store

# States, as each service spells them, of what AWS itself takes away without anybody's help.
_ENDING = ("pendingdeletion", "deleting", "deleted", "shutting-down", "terminated")
_KEPT_WITH_BUCKET = ("s3:bucket",)
_KEPT_WITH_EFS = ("elasticfilesystem:file-system", "elasticfilesystem:access-point", "backup:recovery-point")
# What exists as long as its owner does: the first part of its name is the owner's.
_OWNERS = {"eks": "eks:cluster", "fsx:association": "fsx:file-system"}
# Services whose ARNs carry no resource type: https://docs.aws.amazon.com/service-authorization/latest/reference/
_WITHOUT_TYPE = {"s3": "bucket"}


@dataclass(frozen=True, kw_only=True)
class Found:
    """`kind` is service and resource type of the ARN, such as `ec2:vpc`; `name` is what commands take.

    `key`: ARN of the KMS key that encrypts it, or empty; None, if that couldn't be asked. `confirmed` is false where only
    the tagging API lists it, which goes on for a while after a thing is gone. `ends`: when AWS takes it away, if that is said.
    """

    kind: str
    name: str
    arn: str = ""
    state: str = ""
    key: str | None = ""
    confirmed: bool = True
    ends: str = ""


@dataclass(frozen=True)
class Groups:
    """Everything that was found, each once."""

    kept: list[Found] = field(default_factory=list)
    scheduled: list[Found] = field(default_factory=list)
    left_over: list[Found] = field(default_factory=list)


def of_arn(arn: str) -> Found:
    """What the tagging API lists, not confirmed."""
    service, resource = arn.split(":", 5)[2], arn.split(":", 5)[5]
    if service in _WITHOUT_TYPE:
        return Found(kind=f"{service}:{_WITHOUT_TYPE[service]}", name=resource, arn=arn, confirmed=False)
    resource = resource.removesuffix(":*")  # of log groups
    cut = min((resource.index(mark) for mark in "/:" if mark in resource), default=len(resource))
    return Found(kind=f"{service}:{resource[:cut]}", name=resource[cut + 1 :] or resource, arn=arn, confirmed=False)


def confirm(listed: Iterable[str], seen: Sequence[Found], asked: Collection[str]) -> tuple[list[Found], list[str]]:
    """What is really there, and the ARNs that are listed still and gone already.

    `listed`: ARNs from the tagging API. `seen`: from the services themselves, of the kinds in `asked`: of those kinds
    only what was seen is there. What is inside a cluster is there as long as the cluster is.
    """
    names = {(one.kind, one.name) for one in seen}
    real, gone = list(seen), []
    for arn in dict.fromkeys(listed):
        one = of_arn(arn)
        witness = _witness(one)
        if witness[0] not in asked:
            real.append(one)
        elif witness not in names:
            gone.append(arn)
        elif (one.kind, one.name) not in names:
            real.append(replace(one, confirmed=True))
    return real, gone


def _witness(one: Found) -> tuple[str, str]:
    """Kind and name of what is there if and only if this is."""
    service = one.kind.split(":")[0]
    owner = _OWNERS.get(one.kind) or _OWNERS.get(service)
    return (owner, one.name.split("/")[0]) if owner and one.kind != owner else (one.kind, one.name)


def group(found: Iterable[Found], store: object) -> Groups:
    """`store`: the environment's settings, which say what stays when the stack goes."""
    found = list(found)
    groups = Groups()
    keys = {one.key for one in found if one.kind in _kept_kinds(store)}
    for one in found:
        if one.state.lower() in _ENDING:
            groups.scheduled.append(one)
        elif one.kind in _kept_kinds(store) or (one.kind == "kms:key" and (one.arn in keys or None in keys)):
            groups.kept.append(one)
        else:
            groups.left_over.append(one)
    groups.kept.sort(key=lambda one: one.kind == "kms:key")  # last: without its key a bucket is lost before it is emptied
    return groups


def _kept_kinds(store: object) -> tuple[str, ...]:
    match store:
        case S3Store(purge_on_destroy=False) | FsxStore(purge_on_destroy=False):
            return _KEPT_WITH_BUCKET
        case EfsStore(purge_on_destroy=False):
            return _KEPT_WITH_EFS
        case _:
            return ()
