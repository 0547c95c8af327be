"""Every policy of the pack, in the order in which a reader would ask."""

from __future__ import annotations

from pulumi_policy import Policy

from infra.policy import encryption, exposure, iam, ownership, pods, services

POLICIES: list[Policy] = [
    *encryption.POLICIES,
    *exposure.POLICIES,
    *iam.POLICIES,
    *services.POLICIES,
    *pods.POLICIES,
    *ownership.POLICIES,
]
