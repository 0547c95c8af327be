"""What EKS Pod Identity does in a cluster, for tests on a cluster that isn't AWS's: the webhook, and the node's agent.

The webhook gives pods of an associated service account a projected token and the agent's address, as AWS's does:
https://docs.aws.amazon.com/eks/latest/userguide/pod-id-how-it-works.html. The agent gives credentials for such a token. Which
account is associated is asked of the account that the stack was made in, so a missing association fails the run.
"""

from __future__ import annotations

import base64
import datetime
import json
import ssl
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

AUDIENCE = "pods.eks.amazonaws.com"
AGENT_ADDRESS = "169.254.170.23"
CREDENTIALS_URI = f"http://{AGENT_ADDRESS}/v1/credentials"
_TOKEN_FOLDER = "/var/run/secrets/pods.eks.amazonaws.com/serviceaccount"
_TOKEN_FILE = "eks-pod-identity-token"
_VOLUME = "eks-pod-identity-token"

# Whether a service account (namespace, name) has a role in the account.
IsAssociated = Callable[[str, str], bool]


class _Server:
    """An HTTP server in a thread. `requests`: what was asked, in order."""

    def __init__(self, address: tuple[str, int], tls: ssl.SSLContext | None = None) -> None:
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(owner.answer(self._headers(), b""))

            def do_POST(self) -> None:
                self._answer(owner.answer(self._headers(), self.rfile.read(int(self.headers["Content-Length"]))))

            def _headers(self) -> dict[str, str]:
                return {name.lower(): value for name, value in self.headers.items()}

            def _answer(self, found: tuple[int, dict[str, Any]]) -> None:
                body = json.dumps(found[1]).encode()
                self.send_response(found[0])
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(address, Handler)
        if tls:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def answer(self, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, Any]]:
        raise NotImplementedError

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Agent(_Server):
    """Credentials for a projected token of an associated service account; 404 for any other, as AWS's agent says."""

    def __init__(self, is_associated: IsAssociated) -> None:
        self._is_associated = is_associated
        self.given_to: set[str] = set()  # pods
        super().__init__((AGENT_ADDRESS, 80))

    def answer(self, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, Any]]:
        claims = _claims(headers.get("authorization", ""))
        where = claims.get("kubernetes.io", {})
        account = where.get("serviceaccount", {}).get("name", "")
        if AUDIENCE not in claims.get("aud", []) or not self._is_associated(where.get("namespace", ""), account):
            return 404, {"message": "no association"}
        self.given_to.add(where["pod"]["name"])
        expires = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=6)
        return 200, {
            "AccessKeyId": "AKIAIOSFODNN7EXAMPLE", "SecretAccessKey": "made-up", "Token": "made-up",
            "AccountId": "123456789012", "Expiration": expires.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }  # fmt: skip


def _claims(token: str) -> dict[str, Any]:
    """What a token says; who signed it is for AWS's service to check."""
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    return json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))


class Webhook(_Server):
    """Mutates pods at admission."""

    def __init__(self, is_associated: IsAssociated, folder: Path) -> None:
        self._is_associated = is_associated
        certificate, key = _certificate(folder)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate, key)
        self._bundle = base64.b64encode(certificate.read_bytes()).decode()
        super().__init__(("127.0.0.1", 0), tls)

    def answer(self, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, Any]]:
        review = json.loads(body)
        pod, namespace = review["request"]["object"], review["request"]["namespace"]
        response: dict[str, Any] = {"uid": review["request"]["uid"], "allowed": True}
        if self._is_associated(namespace, pod["spec"].get("serviceAccountName", "default")):
            patch = base64.b64encode(json.dumps(_patch(pod["spec"])).encode()).decode()
            response |= {"patchType": "JSONPatch", "patch": patch}
        return 200, {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}

    def configuration(self, name: str) -> dict[str, Any]:
        """The object that makes an API server on this machine ask."""
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
        return {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": name},
            "webhooks": [
                {
                    "name": "pod-identity.example.com",
                    "admissionReviewVersions": ["v1"],
                    "sideEffects": "None",
                    "failurePolicy": "Ignore",
                    "timeoutSeconds": 5,
                    "rules": [rule],
                    "clientConfig": {"url": f"https://127.0.0.1:{self.port}/", "caBundle": self._bundle},
                }
            ],
        }


def _patch(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """A new spec as a whole, which is shorter than its steps."""
    source = {"serviceAccountToken": {"audience": AUDIENCE, "expirationSeconds": 86400, "path": _TOKEN_FILE}}
    environment = [
        {"name": "AWS_CONTAINER_CREDENTIALS_FULL_URI", "value": CREDENTIALS_URI},
        {"name": "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "value": f"{_TOKEN_FOLDER}/{_TOKEN_FILE}"},
    ]
    mount = {"name": _VOLUME, "mountPath": _TOKEN_FOLDER, "readOnly": True}

    def with_identity(container: dict[str, Any]) -> dict[str, Any]:
        env, mounts = container.get("env", []), container.get("volumeMounts", [])
        return {**container, "env": [*env, *environment], "volumeMounts": [*mounts, mount]}

    kinds = [kind for kind in ("containers", "initContainers") if spec.get(kind)]
    changed = {kind: [with_identity(each) for each in spec[kind]] for kind in kinds}
    volumes = [*spec.get("volumes", []), {"name": _VOLUME, "projected": {"sources": [source]}}]
    return [{"op": "replace", "path": "/spec", "value": {**spec, **changed, "volumes": volumes}}]


def _certificate(folder: Path) -> tuple[Path, Path]:
    """Self-signed, for 127.0.0.1."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "pod-identity")])
    now = datetime.datetime.now(datetime.UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate, key_file = folder / "webhook.crt", folder / "webhook.key"
    certificate.write_bytes(built.public_bytes(serialization.Encoding.PEM))
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    key_file.write_bytes(key.private_bytes(encoding, form, serialization.NoEncryption()))
    return certificate, key_file
