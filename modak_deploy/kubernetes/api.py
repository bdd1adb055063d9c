"""Requests to the API server, by the library ``kubernetes``: its configuration and credentials, JSON in bounds."""

import json
import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any
from urllib.parse import quote, urlencode

import yaml

from modak_deploy.errors import InputError, JobError, TargetError
from modak_deploy.terminal import excerpt

MAX_ANSWER = 64 * 1024 * 1024
"""Bytes of one answer."""
_CONNECT, _READ = 10, 60
"""Seconds to connect, and between two pieces of an answer."""


class Refused(JobError):
    """The API server has refused a request; nothing was changed."""

    def __init__(self, status: int, reason: str, what: str) -> None:
        super().__init__(
            f"{what}: refused by the cluster ({status}): {excerpt(reason, 500) or 'no reason given'}",
            hint=_hint(status),
        )
        self.status = status


def _hint(status: int) -> str:
    return {
        401: "log in to the cluster again; credentials come from KUBECONFIG",
        403: "ask the cluster's administrator for the quota or the permission",
        404: "check the namespace",
    }.get(status, "")


class Cluster:
    """One cluster, with the credentials that ``kubectl`` would use or those of the pod that modak runs in."""

    def __init__(self, context: str | None = None, *, config_file: str | None = None) -> None:
        library = _library()
        config = library.config
        configuration = library.client.Configuration()
        try:
            try:
                config.load_kube_config(config_file, context=context, client_configuration=configuration)
            except config.ConfigException:
                if context is not None or "KUBERNETES_SERVICE_HOST" not in os.environ:  # what a pod has
                    raise
                config.load_incluster_config(client_configuration=configuration)
            self._pool = library.client.ApiClient(configuration).rest_client.pool_manager
        except (config.ConfigException, OSError) as error:
            raise _not_configured(excerpt(str(error))) from None
        # The library looks at no types: a text in place of a list ends in any of these. Their messages may hold values.
        except (yaml.YAMLError, ValueError, TypeError, AttributeError, LookupError):
            raise _not_configured("the file is damaged") from None
        self._configuration = configuration
        self._timeout = import_module("urllib3").Timeout(connect=_CONNECT, read=_READ)

    def get(self, path: str, query: Mapping[str, str] | None = None) -> dict[str, Any] | None:
        """Return an object; None where there is none."""
        try:
            return self._call("GET", path, query=query)
        except Refused as error:
            if error.status == 404:
                return None
            raise

    def create(self, path: str, body: Mapping[str, Any], *, dry: bool = False) -> dict[str, Any] | None:
        """Create an object and return it; None where one of its name is there already. ``dry`` only checks it."""
        try:
            return self._call("POST", path, body=body, query={"dryRun": "All"} if dry else None)
        except Refused as error:
            if error.status == 409:
                return None
            raise

    def delete(self, path: str, uid: str) -> None:
        """Delete this very object, and before it what belongs to it; another one of its name stays."""
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Foreground",
            "preconditions": {"uid": uid},
        }
        try:
            self._call("DELETE", path, body=body)
        except Refused as error:
            if error.status not in (404, 409):
                raise

    def text(self, path: str, query: Mapping[str, str]) -> bytes:
        """Return what is not JSON, such as a log."""
        return self._read("GET", path, query, None, accept="*/*")

    def _call(
        self, method: str, path: str, *, body: Mapping[str, Any] | None = None, query: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        data = self._read(method, path, query or {}, body, accept="application/json")
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            raise TargetError("the API server's answer is not JSON", hint="check the address in KUBECONFIG") from None
        if not isinstance(value, dict):
            raise TargetError("the API server's answer is not an object", hint="check the address in KUBECONFIG")
        return value

    def _read(
        self, method: str, path: str, query: Mapping[str, str], body: Mapping[str, Any] | None, *, accept: str
    ) -> bytes:
        errors = import_module("urllib3.exceptions")
        try:
            # The library's own call_api has other parameters in each of its generations; its pool has the certificates.
            response = self._pool.request(
                method,
                f"{self._configuration.host.rstrip('/')}{path}{'?' if query else ''}{urlencode(dict(query))}",
                headers={"Accept": accept, "Content-Type": "application/json", **self._authorization()},
                body=None if body is None else json.dumps(body),
                timeout=self._timeout,
                preload_content=False,
                decode_content=False,  # nothing compressed was asked for, and it may be a bomb
                retries=False,
                redirect=False,
            )
            try:
                data: bytes = response.read(MAX_ANSWER + 1)
            finally:
                response.close()
        except (errors.HTTPError, OSError) as error:
            raise TargetError(f"the cluster cannot be reached: {excerpt(str(error))}") from None
        except ValueError:  # of http.client, with the header, which is the token
            raise _not_configured("the token or another header has characters that HTTP does not permit") from None
        _check_status(response.status, data, f"{method} {path}")
        if len(data) > MAX_ANSWER:
            raise TargetError(f"the answer to {method} {path} has more than {MAX_ANSWER // 1024**2} MiB")
        return data

    def _authorization(self) -> dict[str, str]:
        """Return the headers with the credentials, which a login helper may have renewed."""
        settings = self._configuration.auth_settings().values()
        return {setting["key"]: setting["value"] for setting in settings if setting["in"] == "header"}


def path_of(kind: str, namespace: str, name: str = "", *, part: str = "") -> str:
    """Return the path of the objects of a kind (``jobs``, ``pods``) in a namespace, or of one of them."""
    base = "/apis/batch/v1" if kind == "jobs" else "/api/v1"
    parts = [base, "namespaces", quote(namespace, safe=""), kind, *([quote(name, safe="")] if name else [])]
    return "/".join([*parts, *([part] if part else [])])


def _not_configured(why: str) -> InputError:
    return InputError(
        f"no cluster is configured: {why}", key="KUBECONFIG", hint="check with: kubectl config get-contexts"
    )


def _check_status(status: int, data: bytes, what: str) -> None:
    if 200 <= status < 300:
        return
    if status >= 500 or status == 429:
        raise TargetError(f"the API server fails ({status}): {excerpt(_message(data), 500)}")
    raise Refused(status, _message(data), what)


def _message(data: bytes) -> str:
    text = data.decode(errors="replace")
    try:
        status = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return str(status.get("message", "")) if isinstance(status, dict) else text


def _library() -> Any:
    try:
        library = import_module("kubernetes")
        import_module("kubernetes.config")
        import_module("kubernetes.client")
    except ImportError:
        raise InputError(
            "Jobs of Kubernetes need the package kubernetes: not installed; pip install 'modak-deploy[kubernetes]'"
        ) from None
    return library
