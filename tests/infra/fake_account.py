"""An AWS account in this process: moto answers real boto3 calls, and a test answers what moto doesn't know.

Such an answer must have the shape that the service's own model gives it, so that no test rests on an invented field.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from botocore.client import BaseClient
from botocore.exceptions import ClientError
from botocore.loaders import create_loader
from botocore.validate import ParamValidator
from moto import mock_aws

LOADER = create_loader()  # one for all tests: it reads each service's model once
READS = ("Describe", "Get", "List", "Head")


class FakeAccount:
    """`answers`: by operation, an answer, an error to raise, or a function of its parameters. `calls`: what was asked."""

    def __init__(self) -> None:
        self.answers: dict[str, Mapping[str, Any] | Exception | Callable[[dict[str, Any]], Mapping[str, Any]]] = {}
        self.calls: list[str] = []

    def deny(self, *operations: str) -> None:
        for operation in operations:
            self.answers[operation] = refused("AccessDeniedException", operation)

    def answer(self, client: Any, operation: str, parameters: dict[str, Any]) -> Mapping[str, Any] | None:
        self.calls.append(operation)
        found = self.answers.get(operation)
        if isinstance(found, Exception):
            raise found
        made = found(parameters) if callable(found) else found
        if made is not None:
            report = ParamValidator().validate(made, client.meta.service_model.operation_model(operation).output_shape)
            assert not report.has_errors(), f"{operation}: {report.generate_report()}"
        return made


def refused(code: str, operation: str, message: str = "no") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}}, operation)


@contextmanager
def fake_account() -> Iterator[FakeAccount]:
    made, real = FakeAccount(), BaseClient._make_api_call

    def call(client: Any, operation: str, parameters: dict[str, Any]) -> Any:
        answer = made.answer(client, operation, parameters)
        return real(client, operation, parameters) if answer is None else answer

    with pytest.MonkeyPatch.context() as environment, mock_aws():
        for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL"):
            environment.delenv(name, raising=False)
        environment.setattr("botocore.session.create_loader", lambda *_: LOADER)
        environment.setattr(BaseClient, "_make_api_call", call)
        yield made
