"""Started by the Pulumi CLI; serves the policies until it is stopped."""

import sys
from pathlib import Path

from pulumi_policy import EnforcementLevel, PolicyPack

# The CLI starts this file alone, so that the project itself isn't importable yet.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from infra.policy.pack import POLICIES

if __name__ == "__main__":
    PolicyPack("ray-train-eks", POLICIES, enforcement_level=EnforcementLevel.MANDATORY)
