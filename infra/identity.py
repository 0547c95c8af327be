"""What makes a run the same run: its identity, and the job's name that is derived from it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from infra.settings_models import Settings
from workload.run_config import Provenance, StoreConfig, fingerprint

# Two RayJobs of one environment differ in these many hexadecimal digits of their runs' identities.
_DIGITS_IN_NAME = 8
_UNKNOWN = Provenance(identity="0" * 64, image="", code_sha256="0" * 64)


@dataclass(frozen=True)
class Identity:
    """One run's identity: equal exactly if name, image, run config, code and topology are."""

    run_name: str
    sha256: str
    image: str
    code_sha256: str

    @property
    def job_name(self) -> str:
        """At most 47 characters, which is what KubeRay takes: the contract bounds the run's name at 38."""
        return f"{self.run_name}-{self.sha256[:_DIGITS_IN_NAME]}"

    @property
    def provenance(self) -> Provenance:
        return Provenance(identity=self.sha256, image=self.image, code_sha256=self.code_sha256)


def identify(settings: Settings, code_sha256: str) -> Identity:
    """Neither where the store is mounted nor how long the job may take makes another run."""
    run_config = settings.run_config(StoreConfig(path="/not-part-of-it"), _UNKNOWN)
    sha256 = fingerprint(
        settings.training.run_name,
        settings.image.reference,
        run_config.to_json(),
        code_sha256,
        settings.workers.to_json(),
    )
    return Identity(settings.training.run_name, sha256, settings.image.reference, code_sha256)
