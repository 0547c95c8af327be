"""The cost of an environment: right to the cent where prices are known, and never a guess where not."""

from __future__ import annotations

from typing import Any

import pytest

from infra import cost
from infra.eks_settings import (
    AwsSettings,
    ClusterSettings,
    EksConfiguration,
    FsxStore,
    RayOperatorSettings,
    RegistriesSettings,
    SystemNodesSettings,
)
from tests.infra.test_instance_types import BLOCK, gpu_nodes, system_nodes
from tests.infra.test_subnets import network, own

FSX = FsxStore(kind="fsx", noncurrent_days=1, purge_on_destroy=False, deployment="SCRATCH_2", capacity_gib=1200)


def eks(
    *, region: str = "us-east-1", net: Any = None, gpu: Any = None, system: SystemNodesSettings | None = None
) -> EksConfiguration:
    cluster = ClusterSettings(
        kubernetes_version="1.35", service_cidr="172.20.0.0/16", public_access_cidrs=(), open_to_the_internet=False,
        log_types=(), log_retention_days=30, admins=(), deletion_protection=False, system_nodes=system or system_nodes(),
    )  # fmt: skip
    return EksConfiguration(
        aws=AwsSettings(region=region, owner="someone", max_hourly_cost=15.0, is_production=False),
        network=net or network(),
        cluster=cluster,
        gpu_nodes=gpu or gpu_nodes(),
        ray_operator=RayOperatorSettings(kind="managed", version="1.7.0", namespace="ray-system"),
        registries=RegistriesSettings(),
    )


def usd(found: cost.HourlyCost) -> dict[str, float | None]:
    return {line.what: line.usd for line in found.lines}


def test_the_default_environment_costs_what_its_parts_do() -> None:
    """2 x 4.6016 + 2 x 0.2016 + 0.1 + 0.045 + 0.005, and gp3 volumes by the month of 730 hours."""
    gpu_volume = (200 * 0.08 + 1000 * 0.005 + 875 * 0.04) / 730
    found = cost.hourly_cost(eks())

    assert usd(found) == pytest.approx(
        {
            "GPU node g6.12xlarge": 9.2032,
            "system node m7i.xlarge": 0.4032,
            "EKS control plane": 0.10,
            "NAT gateway": 0.045,
            "public address": 0.005,
            "root volume of a GPU node, 200 GiB": 2 * gpu_volume,
            "root volume of a system node, 100 GiB": 2 * 100 * 0.08 / 730,
        }
    )
    assert found.total == pytest.approx(9.2032 + 0.4032 + 0.15 + 2 * gpu_volume + 16 / 730)
    assert found.unknown == ()
    assert str(found) == "9.93 USD/h"


def test_gateways_and_endpoints_count_by_zone() -> None:
    three = ["us-east-1a", "us-east-1b", "us-east-1c"]
    found = usd(cost.hourly_cost(eks(net=network(zones=three, nat="per-zone", interfaceEndpoints=["sts", "ec2"]))))

    assert found["NAT gateway"] == pytest.approx(3 * 0.045)
    assert found["public address"] == pytest.approx(3 * 0.005)
    assert found["interface endpoint and zone"] == pytest.approx(2 * 3 * 0.01)


def test_an_own_vpc_is_paid_by_its_owner() -> None:
    assert not {"NAT gateway", "public address"} & set(usd(cost.hourly_cost(eks(net=own()))))


def test_a_missing_price_is_said_and_not_guessed() -> None:
    found = cost.hourly_cost(eks(system=system_nodes("m6i.large")), FSX)

    assert found.unknown == ("system node m6i.large", "FSx for Lustre SCRATCH_2, 1200 GiB")
    assert str(found).startswith("more than 9.")
    assert "unknown" in found.table()
    assert "without what has no price" in found.table()


def test_a_capacity_block_has_a_price_of_its_own() -> None:
    found = cost.hourly_cost(eks(gpu=gpu_nodes(instanceType="p5.48xlarge", capacity=BLOCK)))

    assert found.unknown == ("GPU node p5.48xlarge",)
    assert "paid in advance" in found.table()


def test_spot_is_counted_at_its_upper_bound() -> None:
    spot = cost.hourly_cost(eks(gpu=gpu_nodes(capacity={"kind": "spot"})))

    assert spot.total == cost.hourly_cost(eks()).total
    assert "spot is less" in spot.table()


def test_the_table_is_aligned_ends_in_the_total_and_names_its_prices() -> None:
    *lines, total, footnote = cost.hourly_cost(eks()).table().splitlines()

    assert lines[0] == f"{'2 x GPU node g6.12xlarge':<41}  9.203"
    assert {len(line) for line in [*lines, total]} == {len(lines[0])}
    assert total.split() == ["in", "all", "9.932"]
    assert "us-east-1, 2026-01-19" in footnote
    assert "eu-west-1 has its own" in cost.hourly_cost(eks(region="eu-west-1")).table()


def test_a_plan_over_the_budget_is_refused_with_what_costs_most() -> None:
    found = cost.hourly_cost(eks())
    (problem,) = cost.problems(found, 9.5)

    assert (problem.where, problem.value) == ("aws.maxHourlyCost", "9.5")
    assert problem.reason == "this plan costs 9.93 USD/h, of which 2 x GPU node g6.12xlarge 9.203"
    assert cost.problems(found, found.total) == []


def test_what_has_no_price_does_not_hide_that_the_rest_is_over_the_budget() -> None:
    (problem,) = cost.problems(cost.hourly_cost(eks(), FSX), 5.0)

    assert "more than 9.93 USD/h" in problem.reason
