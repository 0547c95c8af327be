"""What the registry client believes, and what it refuses, against a registry on loopback."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from infra.image import AWS_REPOSITORY, ImageReference, parse_reference
from infra.image_registry import RemoteImage, look_up
from tests.infra.fake_registry import NAME, FakeRegistry, digest_of
from workload.errors import UserError

TAG = "train-ml-cuda-v1.1.0"
MANIFESTS = f"/v2/{NAME}/manifests"


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    made = FakeRegistry()
    yield made
    made.close()


def ask(registry: FakeRegistry, tag: str = TAG, **more: Any) -> RemoteImage:
    return look_up(parse_reference(f"{AWS_REPOSITORY}:{tag}"), registry.url, **more)


def refusal(registry: FakeRegistry, **more: Any) -> str:
    with pytest.raises(UserError) as caught:
        ask(registry, **more)
    return str(caught.value)


def test_the_linux_amd64_image_of_a_manifest_list_is_found_with_an_anonymous_token(registry: FakeRegistry) -> None:
    digest = registry.hold(TAG)
    found = ask(registry)

    assert found.digest == digest
    assert found.compressed_bytes == 9_500_000_000
    assert found.environment["CUDA_VERSION"] == "13.0.2"
    assert found.labels["framework_version"] == "2.58.0"
    assert registry.requests[0] == (f"{MANIFESTS}/{TAG}", None)
    assert registry.requests[1] == ("/token/", None)
    assert {token for _, token in registry.requests[2:]} == {"Bearer anonymous-token"}


def test_a_registry_without_tokens_and_an_image_for_one_platform_do(registry: FakeRegistry) -> None:
    registry.token = None
    digest = registry.hold(TAG, platforms=("linux/amd64",), index=False)

    assert ask(registry).digest == digest
    assert "/token/" not in [path for path, _ in registry.requests]


def test_an_image_by_digest_is_the_one_with_that_digest(registry: FakeRegistry) -> None:
    digest = registry.hold(TAG)

    assert look_up(ImageReference(repository=AWS_REPOSITORY, tag=None, digest=digest), registry.url).digest == digest


def test_an_index_without_linux_amd64_is_refused_with_what_it_holds(registry: FakeRegistry) -> None:
    registry.hold(TAG, platforms=("linux/arm64", "windows/amd64"))

    assert "holds linux/arm64, windows/amd64, not linux/amd64" in refusal(registry)


def test_a_manifest_that_is_not_what_the_registry_says_it_is_gets_refused(registry: FakeRegistry) -> None:
    registry.hold(TAG)
    registry.answers[f"{MANIFESTS}/{TAG}"] = f"sha256:{'0' * 64}"

    assert f"not sha256:{'0' * 64} (the registry's Docker-Content-Digest)" in refusal(registry)


def test_a_manifest_that_is_not_the_one_of_the_list_gets_refused(registry: FakeRegistry) -> None:
    digest = registry.hold(TAG)
    registry.bodies[f"{MANIFESTS}/{digest}"] = (b'{"schemaVersion": 2}', "application/json")

    assert f"not {digest} (asked for)" in refusal(registry)


def test_a_configuration_that_is_not_the_manifests_gets_refused(registry: FakeRegistry) -> None:
    registry.hold(TAG)
    for path in [path for path in registry.bodies if "/blobs/" in path]:
        registry.bodies[path] = (b"{}", "application/json")

    assert "configuration doesn't have the digest" in refusal(registry)


def test_an_image_that_is_not_there_is_named(registry: FakeRegistry) -> None:
    said = refusal(registry, tag="train-ml-cuda-v9.9.9")

    assert "image = public.ecr.aws/deep-learning-containers/ray:train-ml-cuda-v9.9.9" in said
    assert "has no such image. Fix: check repository and tag" in said


def test_a_registry_that_refuses_its_own_token_is_said(registry: FakeRegistry) -> None:
    registry.hold(TAG)
    registry.answers["/token/"] = lambda request: registry.send(request, 200, b'{"token": "of no use"}')

    assert "refuses it without credentials (HTTP 401)" in refusal(registry)
    assert len(registry.requests) == 3


@pytest.mark.parametrize("challenge", ["Basic realm=private", ""])
def test_a_registry_that_wants_credentials_is_said(registry: FakeRegistry, challenge: str) -> None:
    registry.hold(TAG)
    registry.challenge = challenge

    assert "wants credentials" in refusal(registry)


@pytest.mark.parametrize(("code", "words"), [(429, "too many requests"), (503, "HTTP 503"), (403, "HTTP 403")])
def test_other_answers_are_said(registry: FakeRegistry, code: int, words: str) -> None:
    registry.answers[f"{MANIFESTS}/{TAG}"] = lambda request: registry.send(request, code, b"")

    assert words in refusal(registry)


def test_a_silent_registry_ends_in_time(registry: FakeRegistry) -> None:
    registry.answers[f"{MANIFESTS}/{TAG}"] = lambda request: time.sleep(2)
    before = time.monotonic()

    assert "took longer than 0.3 s" in refusal(registry, seconds=0.3)
    assert time.monotonic() - before < 1.5


def test_a_registry_that_drips_ends_in_time(registry: FakeRegistry) -> None:
    registry.hold(TAG)
    registry.token, registry.drips = None, True
    before = time.monotonic()

    assert "took longer than 0.4 s" in refusal(registry, seconds=0.4)
    assert time.monotonic() - before < 1.5


def test_an_answer_that_is_too_large_is_not_read_on(registry: FakeRegistry) -> None:
    registry.answers[f"{MANIFESTS}/{TAG}"] = lambda request: registry.send(request, 200, b" " * (5 << 20))

    assert "answered with more than 4096 KiB" in refusal(registry)


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"schemaVersion": 1}', b'{"schemaVersion": 2}'])
def test_an_answer_that_is_no_manifest_is_said_without_a_traceback(registry: FakeRegistry, body: bytes) -> None:
    registry.answers[f"{MANIFESTS}/{TAG}"] = lambda request: registry.send(request, 200, body)

    assert "image = public.ecr.aws" in refusal(registry)


def test_a_registry_that_cannot_be_reached_is_said() -> None:
    with pytest.raises(UserError, match=r"127\.0\.0\.1:9 can't be asked"):
        look_up(parse_reference(f"{AWS_REPOSITORY}:{TAG}"), "http://127.0.0.1:9")


@pytest.mark.parametrize("url", ["http://registry.example.com", "ftp://127.0.0.1", "file:///etc", "registry.example.com"])
def test_only_https_leaves_this_machine(url: str) -> None:
    with pytest.raises(UserError, match="isn't https"):
        look_up(parse_reference(f"{AWS_REPOSITORY}:{TAG}"), url)


def test_a_token_is_only_asked_for_over_https(registry: FakeRegistry) -> None:
    registry.hold(TAG)
    registry.challenge = 'Bearer realm="http://tokens.example.com/"'

    assert "isn't https" in refusal(registry)


def test_a_redirect_to_another_host_does_not_get_the_token(registry: FakeRegistry) -> None:
    registry.hold(TAG)
    elsewhere = FakeRegistry()
    elsewhere.token = None
    try:
        for path, (body, kind) in list(registry.bodies.items()):
            if "/blobs/" in path:
                elsewhere.bodies[path] = (body, kind)
                moved = {"Location": elsewhere.url + path}
                registry.answers[path] = lambda request, moved=moved: registry.send(request, 307, b"", moved)
        ask(registry)
    finally:
        elsewhere.close()

    assert [token for _, token in elsewhere.requests] == [None]


def test_a_redirect_to_plain_http_is_not_followed(registry: FakeRegistry) -> None:
    moved = {"Location": "http://mirror.example.com/v2/"}
    registry.answers[f"{MANIFESTS}/{TAG}"] = lambda request: registry.send(request, 302, b"", moved)

    assert "isn't https" in refusal(registry)


def test_the_digest_is_of_the_bytes_that_came(registry: FakeRegistry) -> None:
    digest = registry.hold(TAG)

    assert digest_of(registry.bodies[f"{MANIFESTS}/{digest}"][0]) == digest
