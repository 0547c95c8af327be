"""A service that speaks S3's protocol in a process of its own, which has each bucket of the account as soon as that has it."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator

import boto3

from tests.engine.account import Account

_START_SECONDS = 60


class BucketService:
    """`address`: of this machine as pods see it."""

    def __init__(self, account: Account, address: str) -> None:
        self.endpoint = f"http://{address}:{_free_port(address)}"
        self.client = boto3.client(
            "s3", endpoint_url=self.endpoint, region_name="us-east-2", aws_access_key_id="test", aws_secret_access_key="test"
        )
        self._account, self._stop = account, threading.Event()
        port = self.endpoint.rsplit(":", 1)[1]
        command = [sys.executable, "-m", "moto.server", "--host", address, "--port", port]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._wait_until_up()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _wait_until_up(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                urllib.request.urlopen(f"{self.endpoint}/moto-api/", timeout=5).read()
            except OSError:
                assert self._process.poll() is None, "the S3 service ended"
                assert time.monotonic() < deadline, f"no S3 service after {_START_SECONDS} s"
                time.sleep(0.2)
            else:
                return

    def _follow(self) -> None:
        made: set[str] = set()
        while not self._stop.wait(0.3):
            with contextlib.suppress(ValueError):  # the file while it is written
                for name in {found["id"] for found in self._account.of("aws_s3_bucket")} - made:
                    where = {"LocationConstraint": "us-east-2"}
                    self.client.create_bucket(Bucket=name, CreateBucketConfiguration=where)
                    made.add(name)

    def keys(self, bucket: str) -> set[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=bucket)
        return {found["Key"] for page in pages for found in page.get("Contents", [])}

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self._process.terminate()
        self._process.wait(timeout=30)


@contextlib.contextmanager
def bucket_service(account: Account, address: str) -> Iterator[BucketService]:
    service = BucketService(account, address)
    try:
        yield service
    finally:
        service.close()


def _free_port(address: str) -> int:
    with socket.socket() as probe:
        probe.bind((address, 0))
        return probe.getsockname()[1]
