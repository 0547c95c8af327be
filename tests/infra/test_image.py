"""The lock file, what a reference resolves to, and coherence of image and environment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infra.image import (
    AWS_REPOSITORY,
    LOCK_FILE,
    CustomImage,
    ImageLock,
    LockEntry,
    check_fixed,
    parse_reference,
    read_lock,
    resolve,
)
from infra.image_releases import AWS_RELEASES, minimum_driver, node_driver, numbers
from infra.image_rules import Coherence, ImageUse, coherence
from workload.errors import UserError

TAG = "train-ml-cuda-v1.1.0"
DIGEST, OTHER = f"sha256:{'a' * 64}", f"sha256:{'b' * 64}"


def entry(**changes: Any) -> LockEntry:
    versions = {"ray": "2.58.0", "python": "3.13", "cuda": "13.0.2"}
    base: dict[str, Any] = {
        "repository": AWS_REPOSITORY, "tag": TAG, "digest": DIGEST, "locked_at": "2026-12-01T10:00:00Z",
        "registry": "https://public.ecr.aws", "compressed_bytes": 9_500_000_000, "versions": versions,
        "version_sources": {}, "minimum_driver": "580.65.06",
    }  # fmt: skip
    return LockEntry(**{**base, **changes})


def lock_of(*entries: LockEntry) -> ImageLock:
    return ImageLock(schema_version=1, history=entries)


def use(**changes: Any) -> ImageUse:
    base: dict[str, Any] = {
        "ray_version": "2.58.0", "custom": None, "uses_gpus": True, "operator_version": "1.7.0",
        "ami_release": "1.35.4-20260714",
    }  # fmt: skip
    return ImageUse(**{**base, **changes})


def said(found: Coherence) -> str:
    return "\n".join(map(str, found.problems))


# The lock file


def test_the_shipped_lock_is_a_valid_one_and_pins_nothing_that_nobody_looked_up() -> None:
    assert read_lock(LOCK_FILE).history == ()


def test_an_image_that_is_not_locked_is_refused_with_the_command_that_locks_it() -> None:
    with pytest.raises(UserError) as caught:
        resolve(read_lock(LOCK_FILE), f"{AWS_REPOSITORY}:{TAG}")

    assert f"python -m infra image lock {AWS_REPOSITORY}:{TAG}" in str(caught.value)
    assert caught.value.problems[0].where == "image.reference"


def test_a_tag_resolves_to_the_digest_of_its_newest_entry() -> None:
    lock = lock_of(
        entry(digest=OTHER), entry(locked_at="2026-12-02T10:00:00Z"), entry(tag="train-ml-cuda-v1.0.0", digest=OTHER)
    )
    pinned = resolve(lock, f"{AWS_REPOSITORY}:{TAG}")

    assert pinned.reference == f"{AWS_REPOSITORY}@{DIGEST}"
    assert pinned.entry.locked_at == "2026-12-02T10:00:00Z"


def test_a_digest_resolves_to_its_own_entry_also_when_a_newer_one_has_its_tag() -> None:
    lock = lock_of(entry(digest=OTHER), entry())

    assert resolve(lock, f"{AWS_REPOSITORY}:{TAG}@{OTHER}").reference.endswith(OTHER)
    assert resolve(lock, f"{AWS_REPOSITORY}@{OTHER}").reference.endswith(OTHER)


def test_a_digest_that_was_never_locked_is_refused() -> None:
    with pytest.raises(UserError, match="1 entries, none of them this image"):
        resolve(lock_of(entry()), f"{AWS_REPOSITORY}@{OTHER}")


def test_a_mirror_changes_the_registry_and_nothing_else() -> None:
    pinned = resolve(lock_of(entry()), f"{AWS_REPOSITORY}:{TAG}", mirror="mirror.example.com:5000/aws/")

    assert pinned.reference == f"mirror.example.com:5000/aws/deep-learning-containers/ray@{DIGEST}"


@pytest.mark.parametrize(
    "reference",
    [
        AWS_REPOSITORY,
        f"{AWS_REPOSITORY}:train-ml-cuda",
        f"{AWS_REPOSITORY}:train-ml-cuda-v1",
        f"{AWS_REPOSITORY}:train-ml-cuda-v1.1",
        "763104351884.dkr.ecr.us-west-2.amazonaws.com/ray:train-ml-cuda-v1.1",
        "registry.example.com/team/ray:latest",
        "registry.example.com/team/ray",
    ],
)
def test_a_floating_tag_is_refused_before_anything_is_looked_up(reference: str) -> None:
    with pytest.raises(UserError, match=r"floats|neither tag nor digest"):
        resolve(lock_of(entry()), reference)


def test_a_fixed_tag_and_a_digest_are_not_floating() -> None:
    for reference in (f"{AWS_REPOSITORY}:{TAG}", f"{AWS_REPOSITORY}@{DIGEST}", "registry.example.com:5000/team/ray:v3-2026"):
        assert check_fixed(parse_reference(reference)) == []


@pytest.mark.parametrize(
    "text", ["ray:1.0", "deep-learning-containers/ray:v1.0.0", "a.b/c@sha256:12", "https://a.b/c:1", "a.b/C:1", ""]
)
def test_a_reference_that_tools_would_read_differently_is_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"image\.reference"):
        parse_reference(text)


def test_a_lock_file_that_was_edited_badly_is_said_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "image.lock.json"
    for text in ('{"schemaVersion": 2, "history": []}', "{", '{"schemaVersion": 1, "history": [{"digest": "sha256:12"}]}'):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(UserError, match=r"image\.lock\.json: .*restore it from version control"):
            read_lock(path)
    with pytest.raises(UserError, match="can't be read"):
        read_lock(tmp_path / "nowhere.json")


# Coherence


def test_awss_image_fits_the_environment_that_it_was_made_for() -> None:
    assert coherence(entry(), use()) == Coherence(problems=(), notes=())


def test_a_ray_version_that_is_not_the_images_is_refused_and_none_is_taken_from_the_lock() -> None:
    assert "image.rayVersion = 2.57.0: the locked image has Ray 2.58.0" in said(coherence(entry(), use(ray_version="2.57.0")))
    assert coherence(entry(), use(ray_version=None)).problems == ()


def test_a_ray_without_token_authentication_is_refused() -> None:
    old = entry(versions={"ray": "2.51.1", "python": "3.13", "cuda": "13.0.2"})

    assert "has no token authentication" in said(coherence(old, use(ray_version="2.51.1")))


@pytest.mark.parametrize("python", ["3.12.9", "3.14.0", None])
def test_another_python_than_that_of_the_packaged_code_is_refused(python: str | None) -> None:
    versions = {"ray": "2.58.0", "cuda": "13.0.2", **({"python": python} if python else {})}

    assert "use an image with Python 3.13" in said(coherence(entry(versions=versions), use()))


def test_a_patch_release_of_the_same_python_does() -> None:
    versions = {"ray": "2.58.0", "cuda": "13.0.2", "python": "3.13.12"}

    assert coherence(entry(versions=versions), use()).problems == ()


def test_a_node_whose_driver_is_too_old_for_the_images_cuda_is_refused() -> None:
    found = coherence(entry(), use(ami_release="1.33.0-20250519"))

    assert "gpuNodes.releaseVersion = 1.33.0-20250519: has NVIDIA driver 570.133.20" in said(found)
    assert "needs 580.65.06 or newer" in said(found)


def test_a_release_that_the_table_does_not_know_is_a_note_and_no_problem() -> None:
    found = coherence(entry(), use(ami_release="1.35.6-20261012"))

    assert found.problems == ()
    assert "AMI 1.35.6-20261012 isn't known here" in found.notes[0]


def test_a_cuda_that_the_table_does_not_know_is_a_note() -> None:
    versions = {"ray": "2.58.0", "python": "3.13", "cuda": "14.0"}

    assert "CUDA 14.0 needs isn't known here" in coherence(entry(versions=versions, minimum_driver=None), use()).notes[0]


def test_an_image_without_cuda_is_refused_for_gpus_and_not_for_cpus() -> None:
    plain = entry(versions={"ray": "2.58.0", "python": "3.13"}, minimum_driver=None)

    assert "names no CUDA" in said(coherence(plain, use()))
    assert coherence(plain, use(uses_gpus=False)).problems == ()


@pytest.mark.parametrize("version", ["1.5.1", "1.4.2", "0.6.0"])
def test_an_operator_that_would_drop_fields_is_refused(version: str) -> None:
    assert f"rayOperator.version = {version}: drops fields" in said(coherence(entry(), use(operator_version=version)))


@pytest.mark.parametrize(("version", "notes"), [("1.6.2", 0), ("1.7.1", 0), ("1.8.0", 1), ("2.0.0", 1)])
def test_a_newer_operator_than_the_known_ones_is_a_note(version: str, notes: int) -> None:
    found = coherence(entry(), use(operator_version=version))

    assert (found.problems, len(found.notes)) == ((), notes)


def test_another_image_than_awss_needs_a_reason_and_an_owner() -> None:
    own = entry(repository="registry.example.com/team/ray", tag="v1")
    custom = CustomImage(reason="needs a package that AWS's image lacks", owner="team-ml")

    assert "image.custom: is required for registry.example.com/team/ray" in said(coherence(own, use()))
    assert coherence(own, use(custom=custom)).problems == ()
    assert "image.custom" in said(coherence(entry(), use(custom=custom)))


def test_a_regions_copy_is_awss_image_too() -> None:
    copy = entry(repository="763104351884.dkr.ecr.us-west-2.amazonaws.com/ray")

    assert coherence(copy, use()).problems == ()


def test_tables_compare_numbers_and_not_text() -> None:
    assert numbers("580.65.06") < numbers("580.159.03") < numbers("1000.1")
    assert numbers("2.58.0rc1") == (2, 58, 0)
    assert node_driver("1.35.4-20260101") is None
    assert minimum_driver("13.2.1") == "580.65.06"
    assert minimum_driver(None) is None


def test_every_release_in_the_table_says_what_coherence_needs() -> None:
    for tag, versions in AWS_RELEASES.items():
        assert check_fixed(parse_reference(f"{AWS_REPOSITORY}:{tag}")) == []
        made = entry(tag=tag, versions=dict(versions), minimum_driver=minimum_driver(versions["cuda"]))
        assert coherence(made, use(ray_version=None)).problems == ()
