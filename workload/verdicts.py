"""Evidence -> verdicts, one pure function for each claim. `proven` needs evidence; its absence is `not tested`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from workload.evidence import AttemptEvidence, Evidence
from workload.metrics import StepMetrics
from workload.record import Claim, ClaimName, Improvement, Verdict
from workload.run_config import ShardingStrategy
from workload.statistics import paired_bootstrap, perplexity

# English prose compresses to about a third and its bigrams say much about the next token; shuffled tokens do neither.
REAL_TEXT_COMPRESSED_SHARE = 0.6
REAL_TEXT_BIGRAM_SHARE = 0.9
# On a GPU, atomic additions change the last bits of a redone step; on a CPU nothing does.
GPU_REDONE_TOLERANCE = 1e-3

Judgement = tuple[Verdict, str, tuple[str, ...]]


def judge(evidence: Evidence) -> tuple[Claim, ...]:
    judges: dict[ClaimName, Callable[[Evidence], Judgement]] = {
        ClaimName.EXECUTED: executed,
        ClaimName.LEARNED: learned,
        ClaimName.RESUMED: resumed,
        ClaimName.DATA_IS_REAL: data_is_real,
        ClaimName.TRANSPORT: transport,
    }
    claims = []
    for name, look in judges.items():
        verdict, line, sources = look(evidence)
        claims.append(Claim(name=name, verdict=verdict, evidence=line, sources=sources))
    return tuple(claims)


def executed(evidence: Evidence) -> Judgement:
    """Every step ran, on all workers, sharded as asked, from the packaged code; all ranks agree on the final state."""
    sources = ("metrics/", "environment/", "done/")
    config, steps = evidence.config, evidence.config.training.schedule.steps
    if not evidence.attempts:
        return Verdict.NOT_TESTED, "no attempt began", sources
    last, seen = evidence.attempts[-1], {m.step for a in evidence.attempts for m in a.steps}
    problem = _first_problem((
        (last.end is None, f"stopped at step {max(seen, default=0)} of {steps}"),
        (seen != set(range(1, steps + 1)), f"the evidence holds {len(seen & set(range(1, steps + 1)))} of {steps} steps"),
        (len(last.rank_ends) != config.workers.count, f"{len(last.rank_ends)} of {config.workers.count} ranks ended well"),
        (len({(e.position, e.sums.to_json()) for e in last.rank_ends}) > 1, "the workers disagree on the final state"),
        *_environment_problems(evidence, last),
    ))  # fmt: skip
    if problem:
        return Verdict.REFUTED, problem, sources
    hosts = {e.hostname for e in last.environments}
    sharding = last.environments[0].sharding
    line = (
        f"{steps} of {steps} steps on {config.workers.count} workers, {len(hosts)} host{'s' * (len(hosts) > 1)}; "
        f"{sharding['strategy']}: {sharding['shardedTensors']} of {sharding['tensors']} tensors sharded; "
        f"code {config.provenance.code_sha256[:8]} in every rank"
    )
    return Verdict.PROVEN, line, sources


def _environment_problems(evidence: Evidence, last: AttemptEvidence) -> list[tuple[bool, str]]:
    config, environments = evidence.config, last.environments
    processes = {(e.node_id, e.hostname, e.pid) for e in environments}
    strays = [e for e in environments if e.code_sha256 != config.provenance.code_sha256]
    full = config.training.sharding.strategy is ShardingStrategy.FULL
    unsharded = [e for e in environments if full and e.sharding["shardedTensors"] != e.sharding["tensors"]]
    stray = (strays[0].code_sha256[:8] or "a folder, not the package") if strays else ""
    return [
        (len(processes) != config.workers.count, f"{len(processes)} processes for {config.workers.count} workers"),
        (bool(strays), f"rank {strays[0].rank if strays else 0} runs {stray}, not {config.provenance.code_sha256[:8]}"),
        (bool(unsharded), "not every tensor is sharded"),
    ]


def _first_problem(checks: Iterable[tuple[bool, str]]) -> str:
    return next((text for wrong, text in checks if wrong), "")


def improvement(evidence: Evidence) -> Improvement | None:
    """Held-out loss before minus after; None until both were measured on the same sequences."""
    if len(evidence.evaluations) < 2:
        return None
    before, after = evidence.evaluations[0], evidence.evaluations[-1]
    if before.step != 0 or before.data_sha256 != after.data_sha256 or len(before.losses) != len(after.losses):
        return None
    settings = evidence.config.training.evaluation
    return paired_bootstrap(
        before.losses, after.losses, settings.bootstrap_resamples, settings.confidence, evidence.config.training.seed
    )


def learned(evidence: Evidence) -> Judgement:
    """Held-out loss went down by more than chance explains."""
    sources = tuple(f"evaluation/step-{e.step:08d}.json" for e in evidence.evaluations)
    found = improvement(evidence)
    if found is None:
        return Verdict.NOT_TESTED, "held-out text was not evaluated before and after", sources
    before, after = evidence.evaluations[0], evidence.evaluations[-1]
    first, last = (sum(e.losses) / len(e.losses) for e in (before, after))
    line = (
        f"held-out perplexity {perplexity(first):,.1f} -> {perplexity(last):,.1f}; loss down by "
        f"{found.difference:.3f} [{found.low:.3f}, {found.high:.3f}] at {found.confidence:.0%}, {len(after.losses)} sequences"
    )
    return (Verdict.PROVEN if found.low > 0 else Verdict.REFUTED), line, sources


def resumed(evidence: Evidence) -> Judgement:
    """A later attempt went on from a checkpoint: state sums equal, no position lost or seen twice, redone steps equal."""
    sources = ("attempts/", "metrics/")
    if len(evidence.attempts) < 2:
        return Verdict.NOT_TESTED, "nothing was interrupted", sources
    later = [a for a in evidence.attempts[1:] if a.start.restored]
    if not later:
        return Verdict.NOT_TESTED, "interrupted before the first checkpoint was complete", sources
    redone = 0
    for attempt in later:
        problem, count = _continuation(evidence, attempt)
        if problem:
            return Verdict.REFUTED, f"attempt {attempt.start.number}: {problem}", sources
        redone += count
    restored = later[-1].start.restored
    assert restored
    compared = f"{redone} redone steps have equal losses" if redone else "no step had to be redone"
    exact = "" if not redone or _on_gpu(evidence) else " to the last bit"
    line = (
        f"attempt {later[-1].start.number} went on from step {restored.step}, sequence {restored.position}: "
        f"{restored.tensors} tensors with equal sums; {compared}{exact}"
    )
    return Verdict.PROVEN, line, sources


def _continuation(evidence: Evidence, attempt: AttemptEvidence) -> tuple[str, int]:
    """What is wrong with how an attempt went on (empty: nothing), and how many redone steps could be compared."""
    restored = attempt.start.restored
    assert restored
    batch = evidence.config.training.schedule.global_batch_sequences
    for offset, metrics in enumerate(attempt.steps, start=1):
        expected = (restored.step + offset, restored.position + offset * batch)
        if attempt.start.identity == evidence.config.provenance.identity and (metrics.step, metrics.position) != expected:
            return f"step {metrics.step} at sequence {metrics.position}, expected {expected[0]} at {expected[1]}", 0
    before = {
        m.step: m
        for a in evidence.attempts
        if a.start.number < attempt.start.number and a.start.identity == attempt.start.identity
        for m in a.steps
        if len(a.environments) == len(attempt.environments)
    }
    pairs = [(before[m.step], m) for m in attempt.steps if m.step in before]
    for then, now in pairs:
        if not _same_loss(then, now, exact=not _on_gpu(evidence)):
            return f"step {now.step} redone with loss {now.loss_hex}, not {then.loss_hex}", 0
    return "", len(pairs)


def _same_loss(then: StepMetrics, now: StepMetrics, *, exact: bool) -> bool:
    return then.loss_hex == now.loss_hex if exact else math.isclose(then.loss, now.loss, rel_tol=GPU_REDONE_TOLERANCE)


def _on_gpu(evidence: Evidence) -> bool:
    return evidence.config.workers.gpus_per_worker > 0


def data_is_real(evidence: Evidence) -> Judgement:
    """The tokens are text: decoded, they are found in the source; they compress and predict each other as prose does."""
    sources = ("data/manifest.json", "data/decoded.json")
    manifest, decoded = evidence.manifest, evidence.decoded
    if manifest is None or decoded is None:
        return Verdict.NOT_TESTED, "no data was prepared", sources
    statistics = manifest.statistics
    share = statistics.bigram_bits / max(statistics.bigram_bits_shuffled, 1e-9)
    problem = _first_problem((
        (bool(decoded.problem), decoded.problem),
        (statistics.compressed_share > REAL_TEXT_COMPRESSED_SHARE,
         f"compresses to {statistics.compressed_share:.0%} only: not like prose"),
        (share > REAL_TEXT_BIGRAM_SHARE, f"bigram entropy is {share:.0%} of that of shuffled tokens: not like prose"),
    ))  # fmt: skip
    if problem:
        return Verdict.REFUTED, problem, sources
    line = (
        f"{manifest.source}: {manifest.documents} documents, {manifest.train.tokens:,} training tokens, "
        f"{len(decoded.sequences)} sequences found in the source word by word; "
        f"{manifest.held_out.documents} documents held out, {manifest.paragraphs_removed} shared paragraphs removed"
    )
    return Verdict.PROVEN, line, sources


def transport(evidence: Evidence) -> Judgement:
    """Which network carried the collectives. Judged on NCCL's own lines, which a CPU run does not have."""
    backends = sorted({e.backend for a in evidence.attempts for e in a.environments})
    hosts = {e.hostname for a in evidence.attempts for e in a.environments}
    if not backends:
        return Verdict.NOT_TESTED, "no attempt began", ("environment/",)
    line = f"{', '.join(backends)} over {len(hosts)} host{'s' * (len(hosts) > 1)}; no NCCL lines were collected to judge EFA by"
    return Verdict.NOT_TESTED, line, ("environment/",)
