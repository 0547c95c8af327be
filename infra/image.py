"""The training image: what the lock file holds, and which digest an environment's reference stands for. Pure.

`infra/image.lock.json` is a history: an entry is never changed, a newer one of the same tag stands before it. Not here:
asking a registry (`image_registry`), and whether an image fits cluster and settings (`image_rules`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import StringConstraints, ValidationError

from workload.errors import Problem, UserError, bad_input
from workload.run_config import NotNegative, Section

LOCK_FILE = Path(__file__).with_name("image.lock.json")
# https://github.com/aws/deep-learning-containers/blob/main/docs/ray-train/changelog/index.md
AWS_REPOSITORY = "public.ecr.aws/deep-learning-containers/ray"
# Its copies for one region each: ACCOUNT.dkr.ecr.REGION.amazonaws.com/ray
_AWS_PRIVATE = re.compile(r"^\d{12}\.dkr\.ecr\.[a-z0-9-]+\.amazonaws\.com(\.cn)?/ray$")
# Of AWS's tags only those with three numbers are never moved to another image.
_AWS_FIXED_TAG = re.compile(r"^train-ml-cuda-v\d+\.\d+\.\d+$")
_NAMES_A_VERSION = re.compile(r"\d")
_REFERENCE = re.compile(
    r"^(?P<repository>[a-z0-9][a-zA-Z0-9.-]*(:\d+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)+)"
    r"(:(?P<tag>[A-Za-z0-9_][A-Za-z0-9._-]{0,127}))?(@(?P<digest>sha256:[0-9a-f]{64}))?$"
)

Digest = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
Text = Annotated[str, StringConstraints(min_length=1)]


class LockEntry(Section):
    """One image as a registry held it when it was locked. `digest` is that of the linux/amd64 manifest: of what runs."""

    repository: Text
    tag: Text | None  # null: it was locked by its digest alone
    digest: Digest
    locked_at: Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")]
    registry: Text  # who was asked
    compressed_bytes: NotNegative  # what a node pulls; unpacked it is larger
    versions: dict[str, str]  # of what is inside: ray, python, cuda, torch, nccl, efa, ...
    version_sources: dict[str, str]  # where each of them is from
    minimum_driver: str | None = None  # of NVIDIA, on the node; null: not known

    @property
    def name(self) -> str:
        return f"{self.repository}:{self.tag}" if self.tag else f"{self.repository}@{self.digest}"


class ImageLock(Section):
    """The lock file: every image that was locked, oldest first."""

    schema_version: Literal[1]
    history: tuple[LockEntry, ...]

    def with_entry(self, entry: LockEntry) -> ImageLock:
        return ImageLock(schema_version=1, history=(*self.history, entry))


class CustomImage(Section):
    """Why another image than AWS's is used, and who answers for it."""

    reason: Annotated[str, StringConstraints(min_length=10, max_length=500)]
    owner: Annotated[str, StringConstraints(min_length=1, max_length=128)]


@dataclass(frozen=True, kw_only=True)
class ImageReference:
    """REPOSITORY[:TAG][@DIGEST], taken apart."""

    repository: str
    tag: str | None
    digest: str | None

    def __str__(self) -> str:
        tag, digest = f":{self.tag}" if self.tag else "", f"@{self.digest}" if self.digest else ""
        return f"{self.repository}{tag}{digest}"


@dataclass(frozen=True, kw_only=True)
class PinnedImage:
    """What pods run: `reference` holds the digest, and the mirror's name where there is one."""

    reference: str
    entry: LockEntry


def parse_reference(text: str, key: str = "image.reference") -> ImageReference:
    """Raises: UserError, also for a name without a registry: each tool would put another one before it."""
    found = _REFERENCE.match(text)
    registry = text.split("/", maxsplit=1)[0]
    if found is None or not re.search(r"[.:]|^localhost$", registry):
        fix = f"write it whole, such as {AWS_REPOSITORY}:train-ml-cuda-v1.1.0"
        raise bad_input(key, text, "doesn't have the form REGISTRY/NAME:TAG or REGISTRY/NAME@sha256:DIGEST", fix)
    return ImageReference(repository=found["repository"], tag=found["tag"], digest=found["digest"])


def is_aws_image(repository: str) -> bool:
    """Whether it is AWS's Ray container: the public one, or a region's copy."""
    return repository == AWS_REPOSITORY or _AWS_PRIVATE.match(repository) is not None


def check_fixed(image: ImageReference, key: str = "image.reference") -> list[Problem]:
    """A floating tag names another image tomorrow, so that its lock entry would be about something else."""
    if image.tag is None and image.digest is not None:
        return []
    fix = "use a tag with a whole version"
    if image.tag is None:
        return [Problem(key, str(image), "has neither tag nor digest, so it means :latest", fix)]
    if is_aws_image(image.repository):
        fixed, fix = _AWS_FIXED_TAG.match(image.tag), "use a tag with three numbers, such as train-ml-cuda-v1.1.0"
    else:
        fixed = _NAMES_A_VERSION.search(image.tag)
    return [] if fixed else [Problem(key, str(image), f"the tag {image.tag} floats: it names another image later", fix)]


def resolve(lock: ImageLock, reference: str, mirror: str | None = None) -> PinnedImage:
    """The image of an environment on EKS, by digest; `mirror` is what `registries.images` says. Raises: UserError."""
    image = parse_reference(reference)
    problems = check_fixed(image)
    if problems:
        raise UserError(*problems)
    entry = find(lock, image)
    if entry is None:
        held = f"{len(lock.history)} entries, none of them" if lock.history else "no entry, so not"
        reason = f"isn't pinned: infra/image.lock.json has {held} this image"
        raise bad_input("image.reference", reference, reason, f"run: python -m infra image lock {image}")
    return PinnedImage(reference=f"{mirrored(entry.repository, mirror)}@{entry.digest}", entry=entry)


def find(lock: ImageLock, image: ImageReference) -> LockEntry | None:
    """The newest entry with the reference's repository, and with its digest, or else its tag."""
    for entry in reversed(lock.history):
        wanted = entry.digest == image.digest if image.digest else entry.tag == image.tag
        if entry.repository == image.repository and wanted:
            return entry
    return None


def mirrored(repository: str, mirror: str | None) -> str:
    """The repository below the mirror's prefix, which stands for the registry; a digest is the same in both."""
    return repository if mirror is None else f"{mirror.rstrip('/')}/{repository.partition('/')[2]}"


def read_lock(path: Path = LOCK_FILE) -> ImageLock:
    """Raises: UserError."""
    try:
        return ImageLock.model_validate_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise bad_input(path.name, None, f"can't be read: {error.strerror}", "restore it from version control") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        reason = f"{where}: {first['msg'].lower()}"
        raise bad_input(path.name, None, reason, "restore it from version control; the command alone writes it") from error
