"""An AWS account in one region, as the caller's credentials see it: read-only questions, each with bounds.

boto3 is loaded when the account is opened: a preview needs none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from infra.answers import NotAsked
from workload.errors import UserError, bad_input

_CONNECT_SECONDS, _READ_SECONDS, _TRIES = 5, 20, 3
# Error codes: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html, and each service's own spelling.
_DENIED = ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "UnauthorizedAccess", "AuthorizationError")
_NO_CREDENTIALS = (
    "ExpiredToken", "ExpiredTokenException", "InvalidClientTokenId", "UnrecognizedClientException", "AuthFailure",
    "SignatureDoesNotMatch", "RequestExpired", "InvalidSignatureException", "IncompleteSignature",
)  # fmt: skip
_FIX_CREDENTIALS = "log in again, or set AWS_PROFILE; check with: aws sts get-caller-identity"


@dataclass(frozen=True)
class Identity:
    """Who asks: the account's number and the ARN of user or role."""

    account: str
    arn: str


class Account:
    """Clients of one region. `ask` turns what may go wrong into words, or into a `UserError` where nothing can be asked."""

    def __init__(self, region: str) -> None:
        """Raises: UserError, if the profile that is named doesn't exist."""
        import boto3  # noqa: PLC0415 - see above
        from botocore.config import Config  # noqa: PLC0415
        from botocore.exceptions import BotoCoreError  # noqa: PLC0415

        self.region = region
        self._config = Config(
            connect_timeout=_CONNECT_SECONDS,
            read_timeout=_READ_SECONDS,
            retries={"mode": "standard", "total_max_attempts": _TRIES},
        )
        self._clients: dict[str, Any] = {}
        try:
            self._session = boto3.Session(region_name=region)
        except BotoCoreError as error:
            raise bad_input("AWS credentials", None, _flat(error), _FIX_CREDENTIALS) from error

    def client(self, service: str) -> Any:
        if service not in self._clients:
            self._clients[service] = self._session.client(service, config=self._config)
        return self._clients[service]

    def identity(self) -> Identity:
        """Needs no permission, so whoever can't ask this can ask nothing. Raises: UserError."""
        from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError  # noqa: PLC0415
        from botocore.exceptions import ConnectionError as NoConnection  # noqa: PLC0415

        try:
            found = self.client("sts").get_caller_identity()
        except (HTTPClientError, NoConnection) as error:
            raise bad_input("aws.region", self.region, f"AWS doesn't answer: {_flat(error)}", "check the network") from error
        except (BotoCoreError, ClientError) as error:
            raise _refused(_flat(error)) from error
        return Identity(found["Account"], found["Arn"])

    def ask(self, permission: str, call: Callable[[], Any], missing: Collection[str] = ()) -> Any:
        """What `call` returns; None, if AWS says one of the codes in `missing`; or why there is no answer.

        Raises: UserError, if the credentials have expired meanwhile.
        """
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

        try:
            return call()
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            if code in missing:
                return None
            return _not_asked(permission, code, error)
        except BotoCoreError as error:
            return NotAsked(f"no answer: {_flat(error)}")

    def ask_pages(
        self, permission: str, service: str, operation: str, key: str, missing: Collection[str] = (), **arguments: Any
    ) -> Any:
        """All items under `key` of an operation that answers in pages; else as `ask`."""

        def call() -> list[Any]:
            pages = self.client(service).get_paginator(operation).paginate(**arguments)
            return [item for page in pages for item in page.get(key, ())]

        return self.ask(permission, call, missing)


def _not_asked(permission: str, code: str, error: Exception) -> NotAsked:
    if code in _DENIED:
        return NotAsked(f"needs permission {permission}", denied=True)
    if code in _NO_CREDENTIALS:
        raise _refused(f"are refused: {_flat(error)}") from error
    return NotAsked(f"{code}: {_flat(error)}")


def _refused(reason: str) -> UserError:
    """A region that isn't enabled refuses good credentials too, and in the same words."""
    return bad_input("AWS credentials", None, reason, f"{_FIX_CREDENTIALS}; or the region isn't enabled for the account")


def _flat(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
