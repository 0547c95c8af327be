"""`python -m infra watch`: follows a stack's job until it ends, then does what `fetch` does.

Only looks: whoever stops watching stops nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Any

import click

from infra.cluster_access import short
from infra.commands.fetch import EXIT_NOT_FINISHED, fetch
from infra.job_address import CLUSTER_ERRORS, JobAddress, job_address
from infra.job_status import Failed, Waiting, judge
from infra.live_job import LiveJob
from infra.progress_log import news
from workload.errors import EXIT_FAILED

_POLL_SECONDS = 5
_SLOWEST_POLL_SECONDS = 30  # while nobody answers
_OUTAGE_SECONDS = 600  # an upgrade of the API server, or a laptop's way home; more is not an outage
_REPEAT_SECONDS = 60  # a line at least so often, also without news
_MARGIN_SECONDS = 30  # clocks differ: what the log says twice is dropped


def run(project: Path, stack: str, folder: Path, timeout: float | None = None) -> int:
    """Follows the job for at most `timeout` seconds, and returns `fetch`'s exit code. Raises: UserError."""
    address = job_address(project, stack)
    again = f"python -m infra watch -s {stack}"
    try:
        ending = Follower(address).follow(timeout)
    except KeyboardInterrupt:
        click.echo(f"\nstopped watching; RayJob {address} goes on. Follow it again: {again}; end it: pulumi destroy -s {stack}")
        return EXIT_NOT_FINISHED
    match ending:
        case Ending.ENDED:
            return fetch(address, folder)
        case Ending.GONE:
            click.echo(f"RayJob {address} is gone: something has removed it, so there is nothing to fetch", err=True)
            return EXIT_FAILED
        case Ending.TIMEOUT:
            click.echo(f"RayJob {address} is not finished after {timeout:g} s; it goes on. Follow it again: {again}")
            return EXIT_NOT_FINISHED


class Ending(Enum):
    """Why following has ended."""

    ENDED = auto()
    GONE = auto()
    TIMEOUT = auto()


@dataclass
class Outage:
    """Since when nobody answers, and how often that was tried."""

    since: float
    tries: int = 0

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.since


class Follower:
    """Looks at one job again and again, and says what has changed."""

    def __init__(self, address: JobAddress) -> None:
        self._address = address
        self._job: LiveJob | None = None
        self._outage: Outage | None = None
        self._seen = False
        self._state, self._said_at = "", time.monotonic()
        self._last_line, self._log_read_at = "", 0.0

    def follow(self, timeout: float | None) -> Ending:
        """Looks until there is an end. Raises: UserError, if there is no job, or nobody answers for long."""
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        try:
            while (ending := self._look()) is None:
                left = deadline - time.monotonic()
                if left <= 0:
                    return Ending.TIMEOUT
                time.sleep(min(self._pause(), left))
        finally:
            self._disconnect()
        return ending

    def _look(self) -> Ending | None:
        """Says what is new; None while the job goes on."""
        try:
            self._job = self._job or self._address.open()
            found = self._job.read()
            self._answered()
            if found is None:
                return self._missing()
            self._seen = True
            return self._tell(self._job, found.get("status") or {})
        except CLUSTER_ERRORS as error:
            self._away(error)
            return None

    def _tell(self, job: LiveJob, status: Mapping[str, Any]) -> Ending | None:
        verdict = judge(status)
        if isinstance(verdict, Waiting):
            self._say_state("\n  ".join([f"waiting: {verdict.detail}", *job.troubles()]))
            return None
        ended = isinstance(verdict, Failed) or verdict.ended
        if not ended:
            self._say_state(_running(status))
        self._tell_progress(job)
        if not ended:
            return None
        self._say(f"RayJob {self._address} has ended")
        return Ending.ENDED

    def _tell_progress(self, job: LiveJob) -> None:
        now = time.monotonic()
        since = int(now - self._log_read_at) + _MARGIN_SECONDS if self._log_read_at else None
        found = news(job.driver_log(since), self._last_line)
        self._last_line, self._log_read_at = found.last, now
        for line in found.lines:
            click.echo(f"  {line}")
            self._said_at = now

    def _missing(self) -> Ending:
        if not self._seen:
            raise self._address.missing()
        return Ending.GONE

    def _away(self, error: BaseException) -> None:
        """A job that was never seen is a wrong address; later it's the cluster that is away. Raises: UserError."""
        self._disconnect()  # a new connection also brings new credentials
        if not self._seen:
            raise self._address.unreachable(error) from error
        self._outage = self._outage or Outage(time.monotonic())
        if self._outage.seconds > _OUTAGE_SECONDS:
            raise self._address.unreachable(error) from error
        self._outage.tries += 1
        self._say_state(f"the cluster doesn't answer ({short(error)}); the job isn't affected by that. Asking again")

    def _answered(self) -> None:
        if self._outage:
            self._say(f"the cluster answers again, after {self._outage.seconds:.0f} s")
            self._outage = None

    def _pause(self) -> float:
        if self._outage is None:
            return _POLL_SECONDS
        return min(_POLL_SECONDS * 2**self._outage.tries, _SLOWEST_POLL_SECONDS)

    def _say_state(self, text: str) -> None:
        """What lasts is said when it begins, and again from time to time."""
        if text != self._state or time.monotonic() - self._said_at > _REPEAT_SECONDS:
            self._state = text
            self._say(text)

    def _say(self, text: str) -> None:
        click.echo(f"{time.strftime('%H:%M:%S')} {text}")
        self._said_at = time.monotonic()

    def _disconnect(self) -> None:
        if self._job:
            self._job.api.close()
        self._job = None


def _running(status: Mapping[str, Any]) -> str:
    failed = status.get("failed", 0)
    tries = f", try {failed + 1} after {failed} that failed" if failed else ""
    return f"running on RayCluster {status.get('rayClusterName') or 'without a name yet'}{tries}"
