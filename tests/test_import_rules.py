"""Imports go one way: __main__ -> components -> pure modules -> workload.run_config <- workload."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
COMPONENTS = (
    "existing_cluster", "network", "cluster", "gpu_nodes", "device_plugins", "ray_operator", "job_space", "checkpoint_store",
    "pod_access", "training_job",
)  # fmt: skip
# Parts of CheckpointStore, which alone may import them.
STORE_PARTS = ("s3_store", "lustre_store", "efs_store", "mounted_volume")
PURE = (
    "code_package", "identity", "quantities", "ray_job_manifest", "settings_models", "settings_errors", "environment_file",
    "job_status", "reader_pod", "versions", "subnets", "instance_types", "cost", "eks_settings", "eks_versions", "eks_plan",
    "launch_template", "node_labels", "cluster_rules", "device_plugin_values", "image", "image_rules", "image_releases",
    "ray_crds", "store_rules", "job_placement", "neighbours", "answers", "progress_log",
    "rollout_status",
)  # fmt: skip
# Packages of decisions over what an account answered.
PURE_PARTS = tuple(
    f"{folder}/{path.stem}" for folder in ("preflight", "teardown") for path in (ROOT / "infra" / folder).glob("*.py")
)
# What `infra` may use of the workload: the contract, the errors, and the record's shape.
SHARED = ("workload.run_config", "workload.run_rules", "workload.errors", "workload.record")
CLUSTERLESS = ("model", "sharding", "optimizer", "data")


def modules(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def imports(path: Path) -> Iterator[str]:
    """Everything that a module imports, also inside functions: `a.b` and `a.b.name` for `from a.b import name`."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def offending(path: Path, *forbidden: str) -> list[str]:
    return [name for name in imports(path) if any(name == bad or name.startswith(f"{bad}.") for bad in forbidden)]


@pytest.mark.parametrize("path", modules("infra"), ids=str)
def test_infra_never_imports_what_only_the_workload_has(path: Path) -> None:
    assert offending(path, "torch", "ray", "transformers", "numpy", "pyarrow") == []
    from_workload = [name for name in imports(path) if name.split(".")[0] == "workload"]
    assert [name for name in from_workload if not name.startswith(SHARED)] == []


@pytest.mark.parametrize("path", modules("workload"), ids=str)
def test_the_workload_never_imports_what_only_infra_has(path: Path) -> None:
    assert offending(path, "pulumi", "pulumi_kubernetes", "pulumi_aws", "pulumi_eks", "kubernetes", "infra") == []


@pytest.mark.parametrize("name", COMPONENTS)
def test_components_do_not_know_each_other(name: str) -> None:
    others = [f"infra.{other}" for other in COMPONENTS if other != name]

    assert offending(ROOT / "infra" / f"{name}.py", *others) == []


@pytest.mark.parametrize("name", [*PURE, *PURE_PARTS])
def test_pure_modules_know_no_engine_no_cluster_and_no_account(name: str) -> None:
    components = [f"infra.{component}" for component in COMPONENTS]

    outside = ("pulumi", "pulumi_kubernetes", "kubernetes", "boto3", "botocore", "infra.aws_account", "infra.sweep")
    assert offending(ROOT / "infra" / f"{name}.py", *outside, *components) == []


def test_every_module_of_infra_has_a_kind() -> None:
    sites = {"site", "existing_site", "eks_site"}  # where components meet
    outside = {"cluster_access", "live_job", "live_crds", "live_rollout", "store_reader", "job_address"}
    outside |= {"image_registry", "registry_transport", "aws_account", "account_site", "preflight_questions"}
    gates = {"job_gate", "rollout_gate", "operator_crds"}
    others = {"__init__", "__main__", "settings"} | gates | sites | outside | set(STORE_PARTS)
    names = {path.stem for path in (ROOT / "infra").glob("*.py")}

    assert names == {*COMPONENTS, *PURE, *others}


def test_one_module_opens_an_account() -> None:
    users = [path.name for path in modules("infra") if offending(path, "boto3", "botocore")]

    assert users == ["aws_account.py"]


def test_only_settings_reads_the_engines_config() -> None:
    readers = [path.name for path in modules("infra") if "pulumi.runtime.config" in set(imports(path)) | _attributes(path)]

    assert readers == ["settings.py"]


def _attributes(path: Path) -> set[str]:
    text = path.read_text(encoding="utf-8")
    return {"pulumi.runtime.config"} if "pulumi.Config" in text.replace("`pulumi.Config`", "") else set()


def test_the_contract_needs_pydantic_and_the_standard_library_only() -> None:
    path = ROOT / "workload" / "run_config.py"
    standard = {"__future__", "hashlib", "enum", "pathlib", "typing", "pydantic", "collections", "dataclasses", "re", "json"}

    assert {name.split(".")[0] for name in imports(path)} <= standard


@pytest.mark.parametrize("name", CLUSTERLESS)
def test_the_model_side_of_the_workload_knows_nothing_of_ray(name: str) -> None:
    assert offending(ROOT / "workload" / f"{name}.py", "ray") == []


def test_a_preview_loads_neither_torch_nor_ray() -> None:
    import subprocess
    import sys

    loaded = "import sys, infra.settings, infra.training_job, infra.commands.laptop; "
    code = loaded + "sys.exit(bool({'torch', 'ray'} & set(sys.modules)))"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=60)
