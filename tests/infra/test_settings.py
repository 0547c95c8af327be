"""Settings: defaults, strictness, and that everything wrong is said at once, under the key that was typed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from infra import settings
from infra.environment_file import read_environment
from tests.infra.environments import LOCAL, ROOT, local, raw
from workload.errors import UserError
from workload.run_config import HuggingFaceFolder, TextFiles


def problems(*changes: str, without: tuple[str, ...] = ()) -> dict[str, Any]:
    objects = raw(*changes)
    for path in without:
        *parents, last = path.split(".")
        here = objects
        for part in parents:
            here = here[part]
        del here[last]
    with pytest.raises(UserError) as caught:
        settings.parse(objects, "local")
    return {problem.where: problem for problem in caught.value.problems}


def test_the_local_environment_is_valid_and_complete() -> None:
    made = local()

    assert made.environment == "local"
    assert (made.workers.count, made.workers.memory, made.target.namespace) == (2, "3Gi", "ray-train-local")
    assert made.training.faults[0].step == 36


def test_everything_wrong_is_said_in_one_error() -> None:
    found = problems(
        "workers.memory=4G8",
        "workers.count=0",
        "training.optimizer.learningRate=fast",
        "training.optimizer.learninRate=1",
        "training.runName=My_Run",
        "store.path=relative",
        "image.rayVersion=latest",
        "bogus={}",
    )

    assert set(found) == {
        "workers.memory", "workers.count", "training.optimizer.learningRate", "training.optimizer.learninRate",
        "training.runName", "store.path", "image.rayVersion", "bogus",
    }  # fmt: skip
    assert all(problem.reason and problem.fix for problem in found.values())


@pytest.mark.case("C032", "C035", "C065")
@pytest.mark.parametrize(
    ("change", "key", "value", "reason"),
    [
        ("workers.count=0", "workers.count", "0", "greater than or equal to 1"),
        ("workers.count=-2", "workers.count", "-2", "greater than or equal to 1"),
        ("workers.count=2.5", "workers.count", "2.5", "is a number, not a whole number"),
        ("workers.count='2'", "workers.count", '"2"', "is text, not a whole number"),
        ("workers.memory=4G8", "workers.memory", "4G8", "is not a quantity"),
        ("workers.memory=4", "workers.memory", "4", "less than 16Mi"),
        ("workers.memory=4m", "workers.memory", "4m", "whole number of bytes"),
        ("workers.memory=-4Gi", "workers.memory", "-4Gi", "is not a quantity"),
        ("workers.cpu=0", "workers.cpu", "0", "at least 1m"),
        ("workers.cpu=6000", "workers.cpu", "6000", "more than 1024 cores"),
        ("job.head.memory=3GiB", "job.head.memory", "3GiB", "is not a quantity"),
        ("workers.sharedMemory=2900Mi", "workers.sharedMemory", "2900Mi", "leaves less than 512Mi of workers.memory = 3Gi"),
        ("training.runName=Has_Caps", "training.runName", "Has_Caps", "doesn't have the form"),
        (f"training.runName={'a' * 39}", "training.runName", "a" * 39, "at most 38"),
        ("training.runName=trailing-", "training.runName", "trailing-", "doesn't have the form"),
        ("training.sharding.strategy=hybrid", "training.sharding.strategy", "hybrid", "'full' or 'none'"),
        ("training.model.source=magic", "training.model.source", "magic", "is not known here"),
        ("training.model.hiddenSize=191", "training.model", "", "not a multiple of numAttentionHeads"),
        ("training.data.heldOutFraction=1.5", "training.data.heldOutFraction", "1.5", "less than 1"),
        ("training.faults[0].rank=2", "training.faults[0].rank", "2", "there are 2 workers"),
        ("training.faults[0].at=never", "training.faults[0].at", "never", "should be 'step'"),
        ("training.schedule.globalBatchSequences=17", "training.schedule.globalBatchSequences", "17", "not a multiple"),
        ("workers.perPod=3", "workers.count", "2", "not a multiple of workers.perPod"),
        ("store.kind=floppy", "store.kind", "floppy", "is not known here"),
        ("store=hostPath", "store", '"hostPath"', "should be an object"),
        ("target.namespace=kube-system", "target.namespace", "kube-system", "Kubernetes' own"),
        ("target.namespace=Nope", "target.namespace", "Nope", "doesn't have the form"),
        ("job.preRunningDeadlineSeconds=1800", "job.preRunningDeadlineSeconds", "1800", "not less than"),
        ("job.retries=-1", "job.retries", "-1", "greater than or equal to 0"),
        ("training.model.tieWordEmbeddings=maybe", "training.model.tieWordEmbeddings", '"maybe"', "is text, not true or false"),
    ],
)
def test_a_bad_value_is_named_with_its_key_and_its_reason(change: str, key: str, value: str, reason: str) -> None:
    found = problems(change)

    assert set(found) == {key}
    assert found[key].value == value
    assert reason in str(found[key])
    assert found[key].fix


@pytest.mark.parametrize(
    ("change", "key", "fix"),
    [
        ("training.optimizer.learning_rate=1", "training.optimizer.learning_rate", "did you mean learningRate?"),
        ("training.optimizer.learningrat=1", "training.optimizer.learningrat", "did you mean learningRate?"),
        ("training.model.hiddensize=1", "training.model.hiddensize", "did you mean hiddenSize?"),
        ("training.data.text.sourc=1", "training.data.text.sourc", "did you mean source?"),
        ("training.faults[0].ranks=1", "training.faults[0].ranks", "did you mean rank?"),
        ("job.head.cpus=1", "job.head.cpus", "did you mean cpu?"),
        ("traning={}", "traning", "did you mean training?"),
        ("environment=prod", "environment", "remove it"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_known_one(change: str, key: str, fix: str) -> None:
    found = problems(change)

    assert set(found) == {key}
    assert found[key].reason == "unknown key"
    assert fix in found[key].fix


@pytest.mark.parametrize("path", ["training.runName", "image.reference", "workers.memory", "target.kind", "training", "store"])
def test_what_has_no_default_must_be_there(path: str) -> None:
    found = problems(without=(path,))

    assert set(found) == {path}
    assert "is required" in found[path].reason


def test_what_has_a_default_may_be_left_out() -> None:
    objects = raw()
    for section, key in (("workers", "perPod"), ("image", "pullPolicy"), ("job", "retries")):
        objects[section].pop(key, None)
    del objects["training"]["optimizer"]["beta1"], objects["training"]["faults"]
    made = settings.parse(objects, "local")

    assert (made.workers.per_pod, made.image.pull_policy, made.job.retries) == (1, "IfNotPresent", 1)
    assert (made.training.optimizer.beta1, made.training.faults) == (0.9, ())


def test_the_job_may_be_left_out_altogether() -> None:
    objects = raw()
    del objects["job"]

    assert settings.parse(objects, "local").job.retries == 1


def test_another_variant_takes_nothing_from_the_first() -> None:
    made = local(
        "training.model={source: huggingface, path: /models/m}",
        "training.tokenizer={source: huggingface, path: /models/m}",
        "training.data.text={source: text, paths: [/data/a.txt], documentSeparator: x}",
    )

    assert made.training.model == HuggingFaceFolder(source="huggingface", path="/models/m")
    assert made.training.data.text == TextFiles(source="text", paths=("/data/a.txt",), document_separator="x")


def test_defaults_of_one_variant_do_not_leak_into_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(settings.DEFAULTS, "store", {"kind": "hostPath", "path": "/data"})

    made = settings.parse({**raw(), "store": {"kind": "claim", "claimName": "c"}}, "local")

    assert made.store.model_dump()["claim_name"] == "c"


def test_a_claim_is_either_named_or_described() -> None:
    both = problems("store={kind: claim, claimName: c, size: 20Gi}")
    neither = problems("store={kind: claim}")

    assert set(both) == {"store.size"}
    assert set(neither) == {"store.storageClass", "store.size", "store.accessModes"}


@pytest.mark.parametrize(("typed", "kept"), [("0.6", "600m"), ("1000m", "1"), ("2", "2"), ("1.5", "1500m"), ("600m", "600m")])
def test_cpu_is_written_as_the_api_server_keeps_it(typed: str, kept: str) -> None:
    assert local(f"workers.cpu={typed}").workers.cpu == kept


@pytest.mark.parametrize(
    ("typed", "kept"), [("3072Mi", "3Gi"), ("1.5Gi", "1536Mi"), ("4000M", "4G"), ("2147483648", "2147483648"), ("3Gi", "3Gi")]
)
def test_memory_is_written_as_the_api_server_keeps_it(typed: str, kept: str) -> None:
    assert local(f"workers.memory={typed}").workers.memory == kept


@pytest.mark.case("C032")
def test_a_thousand_and_a_thousand_and_twenty_four_are_told_apart() -> None:
    """160G is a tenth less than 160Gi: both are taken, each for what it is."""
    from infra.quantities import amount

    assert amount(local("workers.memory=160G").workers.memory) == 160 * 10**9
    assert amount(local("workers.memory=160Gi").workers.memory) == 160 * 2**30


@pytest.mark.parametrize("number", ["1e-3", "0.001", "1.0e-3", "1.e-3", ".001"])
def test_a_number_is_read_as_the_cli_reads_it(tmp_path: Path, number: str) -> None:
    file = tmp_path / "Pulumi.local.yaml"
    file.write_text(re.sub(r"learningRate: \S+", f"learningRate: {number}", LOCAL.read_text()))

    assert settings.from_file(file).training.optimizer.learning_rate == 0.001


@pytest.mark.parametrize("word", ["yes", "on", "12:30", "0x1F", "2.58.0"])
def test_what_only_old_yaml_takes_for_something_else_stays_text(word: str) -> None:
    from infra.environment_file import parse_value

    assert parse_value(f"a: {word}") == {"a": word}


@pytest.mark.parametrize(
    ("text", "where", "reason"),
    [
        ("config:\n  a: [1\n", ":3", "is not YAML"),
        ("config:\n  ray-train-eks:a: 1\n  ray-train-eks:a: 2\n", ":3", "is there twice"),
        ("other: 1\n", ": config", "is missing"),
        ("", ": config", "is missing"),
        (b"\xff\xfe", "", "is not UTF-8"),
    ],
)
def test_a_bad_file_is_named_with_its_line(tmp_path: Path, text: str | bytes, where: str, reason: str) -> None:
    file = tmp_path / "Pulumi.x.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UserError) as caught:
        settings.from_file(file)

    assert caught.value.problems[0].where == f"{file}{where}"
    assert reason in str(caught.value)


def test_a_missing_file_is_a_users_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="can't be read: No such file"):
        settings.from_file(tmp_path / "Pulumi.none.yaml")


def test_an_encrypted_setting_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.local.yaml"
    file.write_text(LOCAL.read_text() + "  ray-train-eks:token:\n    secure: abc\n")

    with pytest.raises(UserError, match="settings hold no secrets"):
        settings.from_file(file)


def test_the_run_config_round_trips() -> None:
    from infra.identity import identify
    from workload.run_config import RunConfig, StoreConfig

    made = local()
    config = made.run_config(StoreConfig(path="/mnt/store"), identify(made, "a" * 64).provenance)

    assert RunConfig.from_json(config.to_json()) == config
    assert config.workers.count == made.workers.count


def test_every_setting_with_a_default_is_a_setting() -> None:
    objects = raw()

    def walk(defaults: Any, typed: Any, path: str) -> None:
        for key, value in defaults.items():
            assert re.fullmatch(r"[a-zA-Z0-9]+", key), path
            walk(value, (typed or {}).get(key), f"{path}.{key}") if isinstance(value, dict) else None

    walk(settings.DEFAULTS, objects, "")
    settings.parse({name: settings._merge(settings.DEFAULTS[name], objects[name]) for name in objects}, "local")


def test_the_dev_environment_is_complete() -> None:
    made = settings.from_file(ROOT / "Pulumi.dev.yaml")

    assert made.eks is not None
    assert made.eks.gpu_nodes.instance_type == "g6.12xlarge"


@pytest.mark.case("C117")
@pytest.mark.parametrize(
    ("environment", "change", "said"),
    [
        ("dev", ("store", {"kind": "hostPath", "path": "/s"}), "store.kind = hostPath: doesn't go with target.kind = eks"),
        ("local", ("store", {"kind": "s3"}), "store.kind = s3: doesn't go with target.kind = existing"),
        ("local", ("network", {}), "network = {}: belongs to target.kind = eks"),
        ("dev", ("target", {"kind": "eks", "context": "here"}), "target.context = here: means nothing to a cluster"),
    ],
)
def test_what_belongs_to_the_other_target_is_refused(environment: str, change: tuple[str, Any], said: str) -> None:
    objects = {**read_environment(ROOT / f"Pulumi.{environment}.yaml", settings.PROJECT), change[0]: change[1]}

    with pytest.raises(UserError, match=re.escape(said)):
        settings.parse(objects, environment)
