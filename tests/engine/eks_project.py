"""The environment `dev` as a project of a test: an image lock of its own, and a run that this machine's CPUs can carry."""

from __future__ import annotations

import json
from pathlib import Path

from tests.e2e.project import SMALL, Project

DIGESTS = {"first": "sha256:" + "d" * 64, "second": "sha256:" + "e" * 64}
REPOSITORY = "public.ecr.aws/deep-learning-containers/ray"
# The same stack around a run that says by its name that it has no GPU: two pods with one worker each.
CPU_RUN = (
    *SMALL,
    "training.runName=cpu-dev", "training.model.hiddenSize=192", "training.model.intermediateSize=512",
    "training.model.numAttentionHeads=6", "training.model.maxPositionEmbeddings=128", "training.tokenizer.vocabSize=1024",
    "training.sharding.precision=float32", "training.sharding.activationCheckpointing=false",
    "training.optimizer.learningRate=0.002", "training.optimizer.warmupSteps=6",
    "training.schedule.globalBatchSequences=16", "training.schedule.microBatchSequences=8",
    "workers={count: 2, perPod: 1, cpusPerWorker: 1, gpusPerWorker: 0, cpu: 600m, memory: 3Gi, sharedMemory: 512Mi}",
    "job.head={cpu: 300m, memory: 3Gi}", "job.submitter={cpu: 50m, memory: 512Mi}",
    "job.preRunningDeadlineSeconds=300", "job.activeDeadlineSeconds=900", "job.waitForRunningSeconds=300",
)  # fmt: skip


class EksProject(Project):
    """`charts`: a Helm repository that can be reached here."""

    def __init__(self, folder: Path, charts: str, stack: str, *changes: str) -> None:
        super().__init__(folder, stack, "ray-train", f"registries.charts={charts}", *changes)
        self.lock_image("first")

    def edit(self, file: str, old: str, new: str) -> None:
        """Changes the copy's code, for what would take a test too long as it is."""
        path = self.folder / file
        text = path.read_text()
        assert text.count(old) == 1, f"{file} has {old!r} {text.count(old)} times"
        path.write_text(text.replace(old, new))

    def update(self) -> dict[str, str]:
        """What an update has done, by the resource's name."""
        return steps(self.up("--json").stdout)

    def owned(self) -> set[str]:
        """The names of the resources that carry the owner's tag."""
        exported = json.loads(self.pulumi("stack", "export", "--stack", self.stack).stdout)
        resources = exported["deployment"]["resources"]
        return {
            each["urn"].rsplit("::", 1)[-1] for each in resources if "owner" in (each.get("outputs", {}).get("tagsAll") or {})
        }

    def lock_image(self, *names: str) -> None:
        """Pins the image by the digest of that name, as `python -m infra image lock` would; the newest first."""
        entries = [
            {
                "repository": REPOSITORY, "tag": "train-ml-cuda-v1.1.0", "digest": DIGESTS[name],
                "lockedAt": "2026-12-01T00:00:00Z", "registry": "test", "compressedBytes": 1,
                "versions": {"ray": "2.58.0", "python": "3.13", "cuda": "13.0.2"}, "versionSources": {},
            }
            for name in names
        ]  # fmt: skip
        (self.folder / "infra/image.lock.json").write_text(json.dumps({"schemaVersion": 1, "history": entries}))


# What an engine does to a resource, as one word; it reads some as well.
_WORDS = {
    "create": "create", "update": "update", "delete": "delete", "replace": "replace",
    "create-replacement": "replace", "delete-replaced": "replace",
}  # fmt: skip


def steps(events: str) -> dict[str, str]:
    """What the events of an engine, a JSON object on each line, say that it did to which resource; not to components."""
    found: dict[str, str] = {}
    for line in events.splitlines():
        done = json.loads(line).get("resOutputsEvent", {}).get("metadata") if line.startswith("{") else None
        if done and done["op"] in _WORDS and not done["type"].startswith(("ray-train-eks:", "eks:index:", "pulumi:pulumi:")):
            found[done["urn"].rsplit("::", 1)[-1]] = _WORDS[done["op"]]
    return found
