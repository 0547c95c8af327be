"""The pack started as the CLI starts it, and asked over its protocol: what it says of recorded programs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pulumi
import pytest
import yaml
from google.protobuf import json_format, struct_pb2
from pulumi.runtime.proto import analyzer_pb2, analyzer_pb2_grpc

from infra.environment_file import read_environment
from infra.settings import PROJECT
from tests.infra import test_eks_program
from tests.infra.fake_engine import Recording, record
from tests.infra.policy_judges import BY_NAME

ROOT = Path(__file__).resolve().parents[2]
PACK = ROOT / "infra" / "policy"
_SECONDS = 120  # the SDK reads every resource again for every policy, and the CRDs of the operator are large


@contextmanager
def started(config: dict[str, str], *, dry_run: bool) -> Iterator[analyzer_pb2_grpc.AnalyzerStub]:
    """The pack in a process of its own, in its own folder, with nothing of this process in its path."""
    environment = {
        "PULUMI_PROJECT": PROJECT, "PULUMI_STACK": "test", "PULUMI_DRY_RUN": str(dry_run).lower(),
        "PULUMI_CONFIG": json.dumps(config), "PATH": "/usr/bin:/bin",
    }  # fmt: skip
    command = [sys.executable, "-u", "-m", "pulumi.policy", "127.0.0.1:0", str(PACK)]
    with subprocess.Popen(
        command, cwd=PACK, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as pack:
        try:
            assert pack.stdout is not None
            port = pack.stdout.readline().strip()
            assert port.isdigit(), f"{port}\n{pack.stderr.read() if pack.stderr else ''}"
            with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
                yield analyzer_pb2_grpc.AnalyzerStub(channel)
        finally:
            pack.kill()


def said(recording: Recording, config: dict[str, str], *, dry_run: bool) -> list[str]:
    """Every violation as `policy resource: message`, as a preview or an update would show them."""
    found: list[str] = []
    with started(config, dry_run=dry_run) as pack:
        resources = [resource(recording, urn) for urn in recording.requests]
        for one in resources:
            request = analyzer_pb2.AnalyzeRequest(type=one.type, properties=one.properties, urn=one.urn, name=one.name)
            request.options.CopyFrom(one.options)
            behind = recording.requests[one.urn].provider.rpartition("::")[0]
            if behind in recording.requests:
                request.provider.type, request.provider.urn = recording.requests[behind].type, behind
                request.provider.properties.CopyFrom(json_format.ParseDict(recording.inputs[behind], struct_pb2.Struct()))
            found += [f"{item.policyName} {item.message}" for item in pack.Analyze(request, timeout=_SECONDS).diagnostics]
        stack = pack.AnalyzeStack(analyzer_pb2.AnalyzeStackRequest(resources=resources), timeout=_SECONDS)
        return found + [f"{item.policyName} {item.message}" for item in stack.diagnostics]


def resource(recording: Recording, urn: str) -> analyzer_pb2.AnalyzerResource:
    request = recording.requests[urn]
    made = analyzer_pb2.AnalyzerResource(type=request.type, name=request.name, urn=urn, parent=request.parent)
    made.properties.CopyFrom(json_format.ParseDict(recording.inputs[urn], struct_pb2.Struct()))
    made.options.protect = bool(request.protect)
    made.dependencies.extend(request.dependencies)
    for key, value in request.propertyDependencies.items():
        made.propertyDependencies[key].urns.extend(value.urns)
    return made


def eks(program: Any, *, production: bool = False) -> list[str]:
    objects = {"target": {"kind": "eks"}, "aws": {"isProduction": production}}
    config = {f"{PROJECT}:{key}": json.dumps(value) for key, value in objects.items()}
    recording = record(program, config, "test", preview=True)
    assert not recording.error, recording.error
    return said(recording, config, dry_run=True)


def test_the_pack_names_all_its_policies() -> None:
    with started({}, dry_run=True) as pack:
        info = pack.GetAnalyzerInfo(struct_pb2.Struct(), timeout=_SECONDS)

    assert {policy.name for policy in info.policies} == set(BY_NAME)
    assert info.name == PROJECT


def test_the_packs_description_names_the_projects_own_virtual_environment() -> None:
    described = yaml.safe_load((PACK / "PulumiPolicy.yaml").read_text(encoding="utf-8"))
    project = yaml.safe_load((ROOT / "Pulumi.yaml").read_text(encoding="utf-8"))
    ours, its = (one["runtime"]["options"]["virtualenv"] for one in (described, project))

    assert (PACK / ours).resolve() == (ROOT / its).resolve()


@pytest.mark.parametrize("preview", [True, False])
def test_the_local_environment_breaks_no_policy(preview: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("infra.cluster_access.check_cluster", lambda target, needs_namespace: "the-context")
    objects = read_environment(ROOT / "Pulumi.local.yaml", PROJECT)
    config = {f"{PROJECT}:{key}": json.dumps(value) for key, value in objects.items()}
    ended = {"failure": "", "metadata": {"uid": "uid-1"}}
    recording = record(ROOT / "__main__.py", config, "local", preview=preview, computed=lambda kind, name, inputs: ended)

    assert not recording.error
    assert any(request.type == "kubernetes:ray.io/v1:RayJob" for request in recording.requests.values())
    assert said(recording, config, dry_run=preview) == []


@pytest.mark.parametrize(("preview", "production"), [(True, False), (False, True)])
def test_the_dev_environment_breaks_no_policy(preview: bool, production: bool) -> None:
    recording = test_eks_program.run(preview=preview)
    config = {**test_eks_program.config_of("dev"), f"{PROJECT}:aws": json.dumps({"isProduction": production})}
    found = said(recording, config, dry_run=preview)

    assert not recording.error, recording.logs
    assert any(request.type == "kubernetes:ray.io/v1:RayJob" for request in recording.requests.values())
    # What production adds is a setting of `prod`: dev's cluster may be deleted.
    assert {line.split()[0] for line in found} == ({"state-is-protected"} if production else set()), found


def a_store(**changes: Any) -> None:
    """A bucket as it should be: its name and its key are only known after an update."""
    import pulumi_aws as aws

    tags = {"project": "p", "environment": "e", "owner": "o"}
    key = aws.kms.Key("key", deletion_window_in_days=30, tags=tags)
    bucket = aws.s3.Bucket("bucket", tags=tags, **changes)
    default = aws.s3.BucketServerSideEncryptionConfigurationRuleApplyServerSideEncryptionByDefaultArgs(
        sse_algorithm="aws:kms", kms_master_key_id=key.arn
    )
    rule = aws.s3.BucketServerSideEncryptionConfigurationRuleArgs(apply_server_side_encryption_by_default=default)
    aws.s3.BucketServerSideEncryptionConfiguration("encryption", bucket=bucket.id, rules=[rule])
    closed = {
        "block_public_acls": True,
        "block_public_policy": True,
        "ignore_public_acls": True,
        "restrict_public_buckets": True,
    }
    aws.s3.BucketPublicAccessBlock("block", bucket=bucket.id, **closed)
    status = aws.s3.BucketVersioningVersioningConfigurationArgs(status="Enabled")
    aws.s3.BucketVersioning("versions", bucket=bucket.id, versioning_configuration=status)
    rights = bucket.arn.apply(lambda arn: json.dumps({"Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": arn}]}))
    aws.iam.Policy("unknown-yet", policy=rights, tags=tags)


def test_what_a_preview_does_not_know_neither_passes_for_a_violation_nor_ends_a_policy() -> None:
    assert eks(a_store, production=True) == []


def test_violations_are_mandatory_and_name_the_resource() -> None:
    def program() -> None:
        import pulumi_aws as aws

        a_store(force_destroy=True)
        aws.s3.Bucket("bare", opts=pulumi.ResourceOptions(protect=True))
        aws.efs.FileSystem("files", encrypted=True, tags={"project": "p"})

    found = eks(program, production=True)
    first_lines = {f"{line.split()[0]} {line.rpartition(chr(10))[2].split(':')[0]}" for line in found}

    assert first_lines == {
        "state-is-protected bucket", "file-systems-have-copies files", "required-tags bare", "required-tags files",
        "encrypted-buckets bare", "buckets-block-public-access bare", "buckets-keep-versions bare",
    }  # fmt: skip
