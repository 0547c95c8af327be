"""Reaches a cluster through a kubeconfig: a client with bounds, and the checks before anything is built on it."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from kubernetes.config.config_exception import ConfigException
from urllib3.exceptions import HTTPError

from infra.settings_models import TargetSettings
from infra.versions import KUBERAY_CHARTS, KUBERAY_OPERATOR
from workload.errors import bad_input

REQUEST_SECONDS = 10  # for one request, of which a healthy cluster needs one; the client ignores fractions
_SCHEMAS = "/openapi/v3/apis/ray.io/v1"
_NEWEST_FIELD = "preRunningDeadlineSeconds"  # of all that the RayJob uses it came last, with KubeRay 1.6
INSTALL_COMMAND = (
    f"helm install kuberay-operator kuberay-operator --repo {KUBERAY_CHARTS} --version {KUBERAY_OPERATOR}"
    " --namespace ray-system --create-namespace"
)


def open_client(kubeconfig: str | None, context: str | None) -> client.ApiClient:
    """A client for that context. `kubeconfig`: a file's path, or JSON; without it the file that kubectl would read."""
    configuration: Any = client.Configuration()
    if kubeconfig and kubeconfig.startswith("{"):
        config.load_kube_config_from_dict(
            json.loads(kubeconfig), context, client_configuration=configuration, persist_config=False
        )
    else:
        config.load_kube_config(kubeconfig, context, client_configuration=configuration, persist_config=False)
    configuration.retries = 1
    api = client.ApiClient(configuration)
    if configuration.verify_ssl:
        api.rest_client.pool_manager.connection_pool_kw["ssl_context"] = _as_kubectl_verifies(configuration.ssl_ca_cert)
    return api


class Connected:
    """A client of one cluster, `api`, that is closed at the end of its block."""

    def __init__(self, kubeconfig: str | None, context: str | None) -> None:
        self.api = open_client(kubeconfig or None, context or None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.api.close()


def _as_kubectl_verifies(authority: str | None) -> ssl.SSLContext:
    """Chain and host name. Python 3.13 would also demand extensions that the authorities of many clusters lack."""
    context = ssl.create_default_context(cafile=authority)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def resolve_context(target: TargetSettings) -> str:
    """The name of the context that is meant. Raises: UserError if there is no such file or context."""
    where = "target.kubeconfig" if target.kubeconfig else "kubeconfig"
    try:
        found: Any = config.list_kube_config_contexts(target.kubeconfig)
    except (ConfigException, OSError) as error:
        fix = "name a file that kubectl can use, in target.kubeconfig or KUBECONFIG"
        raise bad_input(where, target.kubeconfig, f"can't be read: {str(error).rstrip('.')}", fix) from error
    contexts, current = found
    names = sorted(context["name"] for context in contexts)
    wanted = target.context or (current or {}).get("name")
    if wanted in names:
        return str(wanted)
    fix = f"use one of: {', '.join(names)}" if names else "add a context to the kubeconfig"
    raise bad_input("target.context", wanted, "is no context of the kubeconfig", fix)


def check_cluster(target: TargetSettings, needs_namespace: bool) -> str:
    """Returns the context's name once the cluster answers and serves RayJobs. Raises: UserError."""
    context = resolve_context(target)
    try:
        with open_client(target.kubeconfig, context) as api:
            _check_ray_jobs(api, context)
            _check_fields(api, context)
            if needs_namespace:
                _check_namespace(api, target.namespace)
    except (HTTPError, OSError, ConfigException) as error:
        reason = f"doesn't answer within {REQUEST_SECONDS} s: {short(error)}"
        raise bad_input("target.context", context, reason, f"check it with: kubectl --context {context} get nodes") from error
    return context


def _check_ray_jobs(api: client.ApiClient, context: str) -> None:
    try:
        served: Any = client.CustomObjectsApi(api).get_api_resources("ray.io", "v1", _request_timeout=REQUEST_SECONDS)
    except ApiException as error:
        if error.status != 404:
            reason = f"refuses: {error.status} {error.reason}"
            raise bad_input("target.context", context, reason, "use a context whose user may read the cluster") from error
        served = None
    if served is None or not any(resource.name == "rayjobs" for resource in served.resources):
        raise bad_input("target.context", context, "serves no RayJob (ray.io/v1): KubeRay is missing", INSTALL_COMMAND)


def _check_fields(api: client.ApiClient, context: str) -> None:
    """An older KubeRay serves RayJobs too, and drops the fields that it doesn't know without a word (ray-project/ray#44826).

    From what discovery tells everyone; who may not read even that is not kept from trying.
    """
    try:
        answer: Any = api.call_api(
            _SCHEMAS, "GET", auth_settings=["BearerToken"], _preload_content=False, _request_timeout=REQUEST_SECONDS,
            _return_http_data_only=True,
        )  # fmt: skip
    except ApiException:
        return
    schemas = json.loads(answer.data).get("components", {}).get("schemas", {})
    (job,) = [schema for name, schema in schemas.items() if name.endswith(".v1.RayJob")] or [{}]
    spec = job.get("properties", {}).get("spec", {}).get("properties", {})
    if spec and _NEWEST_FIELD not in spec:
        reason = f"has a KubeRay whose RayJobs lack {_NEWEST_FIELD}, so that job.preRunningDeadlineSeconds would do nothing"
        raise bad_input("target.context", context, reason, f"upgrade it and its CRDs to {KUBERAY_OPERATOR}")


def _check_namespace(api: client.ApiClient, namespace: str) -> None:
    try:
        client.CoreV1Api(api).read_namespace(namespace, _request_timeout=REQUEST_SECONDS)
    except ApiException as error:
        reason = f"can't be read ({error.status} {error.reason}), and store.claimName needs it to exist"
        raise bad_input("target.namespace", namespace, reason, "name the namespace of the claim") from error


def plain(call: Callable[..., Any], *arguments: str, **more: Any) -> Any:
    """A call's answer as the JSON that the cluster sent, not as the client's models, which refuse what they don't know."""
    return json.loads(call(*arguments, _preload_content=False, _request_timeout=REQUEST_SECONDS, **more).data)


def short(error: BaseException) -> str:
    """An error's text on one line, without the object addresses that urllib3 puts in front, or an answer's headers and body."""
    if isinstance(error, ApiException) and error.status:
        return f"{error.status} {error.reason}"
    text = " ".join(str(error).split())
    return text.rsplit(": ", 1)[-1].removesuffix("')").removesuffix(")") or type(error).__name__
