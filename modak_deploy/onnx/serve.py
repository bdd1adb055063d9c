"""The command ``modak serve-model``: a bundle served by MLServer, with the Open Inference Protocol v2.

MLServer (Seldon, https://mlserver.readthedocs.io) was chosen among the servers of the package index: it has the
protocol as REST and gRPC, Prometheus metrics, health checks and shutdown in order, and installs with Python 3.11.
KServe's own server has the same without batching, and brings the client of Kubernetes; LitServe and Ray Serve have
other protocols.
"""

import asyncio
import contextlib
import logging
import socket
import struct
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modak_deploy import __version__
from modak_deploy.errors import InputError, ModakError
from modak_deploy.onnx.bundle import read_bundle
from modak_deploy.onnx.limits import Limits
from modak_deploy.onnx.packages import require


@dataclass(frozen=True)
class Serving:
    """How a bundle is served."""

    host: str = "127.0.0.1"
    http_port: int = 8080
    grpc_port: int = 8081
    metrics_port: int = 8082
    provider: str = "auto"
    threads: int | None = None
    max_batch: int = 32
    """Samples of one call of the model; 1 joins no requests."""
    max_wait_ms: float = 0.0
    """Milliseconds to wait for more requests. At 0, those that came while the last call ran are joined, which costs a
    single client nothing."""
    max_queue: int = 4096
    max_request: int = 64 * 1024**2
    """Bytes."""
    receive_seconds: float = 30.0
    """Time in which the body of a request must arrive."""
    stop_seconds: int = 30
    """Time for requests in flight when the server is stopped."""


def serve_command(folder: Path, serving: Serving) -> None:
    """Serve a bundle until SIGTERM or SIGINT; requests in flight are answered first."""
    require("mlserver", "mlserver>=1.7.1,<2", purpose="serving", extra="serve-model")
    read_bundle(folder).verify()
    ports = (serving.http_port, serving.grpc_port, serving.metrics_port)
    if len(set(ports)) < 3:
        raise InputError(f"the ports {', '.join(map(str, ports))} must differ")
    _check_ports(serving.host, ports)
    _log_to_stderr()
    with tempfile.TemporaryDirectory(prefix="modak-serve-") as metrics:
        failed = asyncio.run(_serve(folder.resolve(), serving, Path(metrics)))
    if failed is not None:
        raise failed


def _check_ports(host: str, ports: Sequence[int]) -> None:
    """Raise InputError for a port that cannot be used, for which uvicorn and gRPC end with a traceback each."""
    for port in ports:
        try:
            family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((host, port))
        except OSError as error:
            raise InputError(f"{host}:{port} cannot be used: {error.strerror or error}; choose another port") from None


def _log_to_stderr() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s [%(name)s] %(levelname)s - %(message)s"))
    logger = logging.getLogger("modak_deploy.serve")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)


async def _serve(folder: Path, serving: Serving, metrics: Path) -> ModakError | None:
    """Serve, and return what kept the bundle from being loaded."""
    import mlserver

    _patch()
    server = mlserver.MLServer(_settings(mlserver, serving, metrics))
    _harden(server, serving)
    failures: list[BaseException] = []
    load = server._model_registry.load

    async def load_or_remember(settings: Any) -> Any:
        try:
            return await load(settings)
        except BaseException as error:
            failures.append(error)
            raise

    server._model_registry.load = load_or_remember
    await server.start([_model_settings(mlserver, folder, serving)])
    await _finish(server)
    if failures:
        error = failures[0]
        return error if isinstance(error, ModakError) else InputError(f"{folder}: cannot be served: {error}")
    return None


async def _finish(server: Any) -> None:
    """Unload the models, which answers what waits in their queues."""
    for model in await server._model_registry.get_models():
        with contextlib.suppress(Exception):
            await model.unload()


def _settings(mlserver: Any, serving: Serving, metrics: Path) -> Any:
    settings = mlserver.Settings(
        _env_file=None,  # MLServer reads '.env' of the current folder otherwise
        debug=False,  # or tracebacks are sent to clients
        host=serving.host,
        http_port=serving.http_port,
        grpc_port=serving.grpc_port,
        metrics_port=serving.metrics_port,
        metrics_dir=str(metrics),
        grpc_max_message_length=serving.max_request,
        parallel_workers=0,  # ONNX Runtime has threads of its own
        load_models_at_startup=False,
        gzip_enabled=False,
        server_name="modak",
        server_version=__version__,
    )
    # Private in MLServer ('custom configuration is out of support'), and the only way to these options of uvicorn.
    settings._custom_rest_server_settings = {
        "timeout_graceful_shutdown": serving.stop_seconds,
        "timeout_keep_alive": 75,
        "limit_concurrency": 2 * serving.max_queue,
        "log_level": "warning",
        "server_header": False,
    }
    settings._custom_metrics_server_settings = {"timeout_graceful_shutdown": 5, "log_level": "warning"}
    return settings


def _model_settings(mlserver: Any, folder: Path, serving: Serving) -> Any:
    name = read_bundle(folder).manifest.name
    extra = {
        "provider": serving.provider,
        "threads": serving.threads,
        "max_batch": serving.max_batch,
        "max_wait_ms": serving.max_wait_ms,
        "max_queue": serving.max_queue,
    }
    parameters = mlserver.settings.ModelParameters(_env_file=None, uri=str(folder), extra=extra)
    # max_batch_size 0: MLServer's own batching is off, see modak_deploy.onnx.batching.
    return mlserver.ModelSettings(
        _env_file=None,
        name=name,
        implementation="modak_deploy.onnx.mlserver_runtime.BundleRuntime",
        parameters=parameters,
        max_batch_size=0,
        platform="onnx_bundle",
    )


def _patch() -> None:
    """Change what MLServer 1.7.1 does wrong with today's uvicorn and with broken messages."""
    import mlserver.grpc.server
    import mlserver.metrics.server
    import mlserver.rest.server

    # uvicorn 0.29 replaced install_signal_handlers, which MLServer overrides, by capture_signals: without this, SIGTERM
    # stops the REST and metrics servers only, one after the other.
    for module in (mlserver.rest.server, mlserver.metrics.server):
        module._NoSignalServer.capture_signals = _no_signals
    servicer = mlserver.grpc.server.InferenceServicer
    if not issubclass(servicer, _StrictMessages):
        mlserver.grpc.server.InferenceServicer = type("InferenceServicer", (_StrictMessages, servicer), {})


@contextlib.contextmanager
def _no_signals(server: Any) -> Iterator[None]:
    yield


class _StrictMessages:
    """What cannot be unpacked is the client's fault: INVALID_ARGUMENT, not INTERNAL."""

    def _InsertHeaders(self, request: Any, context: Any) -> Any:
        from mlserver.errors import InferenceError

        try:
            return super()._InsertHeaders(request, context)  # type: ignore[misc]
        except (struct.error, ValueError, IndexError, OverflowError, TypeError, MemoryError) as error:
            raise InferenceError(f"the request's raw contents do not fit its shapes: {error}") from None


def _harden(server: Any, serving: Serving) -> None:
    """Refuse what no client is to do, and give each fault of a request as one sentence."""
    from fastapi.exceptions import RequestValidationError
    from mlserver.errors import MLServerError

    async def refuse(*arguments: Any, **named: Any) -> None:
        raise MLServerError("models are neither loaded nor unloaded by clients", 403)

    handlers = server._model_repository_handlers
    handlers.load = handlers.unload = refuse
    application = server._rest_server._app
    application.add_exception_handler(RequestValidationError, _invalid)
    application.add_middleware(Limits, largest=serving.max_request, seconds=serving.receive_seconds)


async def _invalid(request: Any, error: Any) -> Any:
    """Return the first faults of a request: FastAPI's own answer repeats all of the request."""
    from fastapi.responses import JSONResponse

    faults = [
        f"{'.'.join(str(part) for part in fault['loc'][1:])[:100] or 'body'}: {fault['msg'][:200]}"
        for fault in error.errors()[:5]
    ]
    return JSONResponse({"error": "; ".join(faults)}, status_code=400)
