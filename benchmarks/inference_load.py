"""Load test of ``modak serve-model``: requests a second and p99 with 1, 8 and 32 clients, every answer checked.

    python benchmarks/inference_load.py --serve-python PYTHON [--kserve-python PYTHON] [--seconds 5] [--rounds 3]

It is compared with plain onnxruntime in a loop in this process, which no server can reach, and with KServe's own server
(another of the Open Inference Protocol v2) on the same ONNX file. All servers and clients share this machine and talk
over loopback, in JSON; the rounds are interleaved. Bounded: at most 32 connections, and the seconds that are given.
"""

import argparse
import http.client
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

TOP = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP))

from modak_deploy import __version__  # noqa: E402
from modak_deploy.onnx.bundle import describe_graph, write_bundle  # noqa: E402
from modak_deploy.onnx.manifest import Combination, Manifest, ModelEntry, Origin, Validation  # noqa: E402

CLIENTS = (1, 8, 32)
WIDTHS = (64, 512, 512, 10)
VARIANTS = 64
TOLERANCE = 1e-4


@dataclass
class Outcome:
    """What the clients of one round saw."""

    seconds: list[float] = field(default_factory=list)
    wrong: int = 0
    failed: int = 0
    wall: float = 0.0


def network() -> onnx.ModelProto:
    """Return a network of three layers with random weights."""
    generator = np.random.default_rng(0)
    nodes, tensors, last = [], [], "x"
    for at, (wide, narrow) in enumerate(pairwise(WIDTHS)):
        weights = (generator.normal(size=(wide, narrow)) / wide**0.5).astype(np.float32)
        tensors.append(numpy_helper.from_array(weights, f"w{at}"))
        final = at == len(WIDTHS) - 2
        nodes.append(helper.make_node("MatMul", [last, f"w{at}"], [f"m{at}"]))
        nodes.append(helper.make_node("Softmax" if final else "Relu", [f"m{at}"], ["y" if final else f"r{at}"]))
        last = f"r{at}"
    graph = helper.make_graph(
        nodes,
        "load",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", WIDTHS[0]])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", WIDTHS[-1]])],
        tensors,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def make_bundle(folder: Path) -> Path:
    """Write the bundle that is served; return the ONNX file in it."""

    def fill(new: Path) -> Manifest:
        path = new / "models" / "load" / "model.onnx"
        path.parent.mkdir(parents=True)
        path.write_bytes(network().SerializeToString(deterministic=True))
        entry = ModelEntry(
            name="load",
            graph=describe_graph(new, "models/load/model.onnx"),
            origin=Origin(framework="onnx", source="benchmarks/inference_load.py", exporter="by hand"),
            validation=Validation(status="skipped", reason="random weights, made as ONNX"),
        )
        return Manifest(name="load", models=[entry], combination=Combination(rule="single"), made_by=__version__)

    return write_bundle(folder, fill).folder / "models" / "load" / "model.onnx"


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def server(command: list[str], port: int, log: Path) -> Iterator[int]:
    """Run a server until the block ends; wait until its model is ready."""
    with log.open("wb") as output:
        environment = {**os.environ, "PYTHONPATH": str(TOP)}
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)
    try:
        for _ in range(600):
            if process.poll() is not None:
                raise SystemExit(f"{command[0]}: the server has ended: {log.read_text()[-1500:]}")
            with suppress(OSError, http.client.HTTPException):
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
                connection.request("GET", "/v2/models/load/ready")
                if connection.getresponse().status == 200:
                    break
            time.sleep(0.2)
        yield port
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class Requests:
    """Bodies of requests and the right answers."""

    def __init__(self, path: Path, samples: int) -> None:
        generator = np.random.default_rng(1)
        options = onnxruntime.SessionOptions()
        self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self.arrays = [generator.normal(size=(samples, WIDTHS[0])).astype(np.float32) for _ in range(VARIANTS)]
        self.answers = [self.session.run(None, {"x": array})[0] for array in self.arrays]
        self.bodies = [json.dumps({"inputs": [_tensor(array)]}).encode() for array in self.arrays]

    def is_right(self, at: int, values: np.ndarray) -> bool:
        return bool(np.allclose(values.reshape(self.answers[at].shape), self.answers[at], atol=TOLERANCE))


def _tensor(array: np.ndarray) -> dict:
    return {"name": "x", "shape": list(array.shape), "datatype": "FP32", "data": array.ravel().tolist()}


def by_http(port: int, requests: Requests) -> Callable[[], Callable[[int], np.ndarray]]:
    """Return what makes a client with a connection of its own."""

    def client() -> Callable[[int], np.ndarray]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.connect()
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def ask(at: int) -> np.ndarray:
            connection.request(
                "POST", "/v2/models/load/infer", requests.bodies[at], {"Content-Type": "application/json"}
            )
            answer = connection.getresponse()
            body = answer.read()
            if answer.status != 200:
                raise OSError(f"{answer.status}: {body[:200]!r}")
            return np.array(json.loads(body)["outputs"][0]["data"], np.float32)

        return ask

    return client


def in_a_loop(requests: Requests) -> Callable[[], Callable[[int], np.ndarray]]:
    """Return what makes a client that calls the session itself."""
    return lambda: lambda at: requests.session.run(None, {"x": requests.arrays[at]})[0]


def load(make_client: Callable, requests: Requests, clients: int, seconds: float) -> Outcome:
    """Let clients ask for so many seconds, each as soon as it has its answer."""
    outcomes = [Outcome() for _ in range(clients)]
    end = time.perf_counter() + seconds

    def work(outcome: Outcome, first: int) -> None:
        ask, at = make_client(), first
        while time.perf_counter() < end:
            began = time.perf_counter()
            try:
                values = ask(at % VARIANTS)
            except (OSError, http.client.HTTPException, ValueError):
                outcome.failed += 1
                continue
            outcome.seconds.append(time.perf_counter() - began)
            outcome.wrong += not requests.is_right(at % VARIANTS, values)
            at += 1

    began = time.perf_counter()
    threads = [threading.Thread(target=work, args=(outcome, 7 * at)) for at, outcome in enumerate(outcomes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    total = Outcome(wall=time.perf_counter() - began)
    for outcome in outcomes:
        total.seconds += outcome.seconds
        total.wrong += outcome.wrong
        total.failed += outcome.failed
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--serve-python", default=sys.executable, help="Python with modak-deploy[serve]")
    parser.add_argument("--kserve-python", help="Python with kserve and onnxruntime")
    parser.add_argument("--seconds", type=float, default=5.0, help="of one round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--samples", type=int, default=1, help="of one request")
    parser.add_argument("--json", type=Path, help="write all numbers there")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="modak-load-") as name, ExitStack() as stack:
        folder = Path(name)
        path = make_bundle(folder / "bundle")
        requests = Requests(path, args.samples)
        kinds: dict[str, Callable] = {"onnxruntime in a loop": in_a_loop(requests)}
        ports = [str(free_port()) for _ in range(5)]
        command = [args.serve_python, "-m", "modak_deploy.cli", "serve-model", str(folder / "bundle")]
        command += ["--http-port", ports[0], "--grpc-port", ports[1], "--metrics-port", ports[2]]
        port = stack.enter_context(server(command, int(ports[0]), folder / "modak.log"))
        kinds["modak serve-model"] = by_http(port, requests)
        if args.kserve_python:
            command = [args.kserve_python, str(TOP / "benchmarks" / "kserve_onnx.py"), str(path), ports[3], ports[4]]
            port = stack.enter_context(server(command, int(ports[3]), folder / "kserve.log"))
            kinds["kserve"] = by_http(port, requests)
        outcomes: dict[tuple[str, int], list[Outcome]] = {}
        for kind, client in kinds.items():
            load(client, requests, 4, 1.0)  # warm
            outcomes.update({(kind, clients): [] for clients in CLIENTS})
        for _ in range(args.rounds):
            for clients in CLIENTS:
                for kind, client in kinds.items():
                    outcomes[kind, clients].append(load(client, requests, clients, args.seconds))
    return report(outcomes, args.json)


def report(outcomes: dict[tuple[str, int], list[Outcome]], path: Path | None) -> int:
    """Print the table; the exit code is 1 where an answer was wrong or missing."""
    rows, bad = [], 0
    print("| server | clients | requests/s | p50 ms | p99 ms | answers | wrong | failed |")
    print("|---|---|---|---|---|---|---|---|")
    for (kind, clients), rounds in outcomes.items():
        rate = statistics.median(len(one.seconds) / one.wall for one in rounds)
        seconds = sorted(value for one in rounds for value in one.seconds)
        p50, p99 = (1e3 * seconds[int(share * (len(seconds) - 1))] for share in (0.5, 0.99))
        wrong, failed = sum(one.wrong for one in rounds), sum(one.failed for one in rounds)
        bad += wrong + failed
        print(f"| {kind} | {clients} | {rate:.0f} | {p50:.2f} | {p99:.2f} | {len(seconds)} | {wrong} | {failed} |")
        row = {"server": kind, "clients": clients, "rate": rate, "p50_ms": p50, "p99_ms": p99}
        rows.append({**row, "answers": len(seconds), "wrong": wrong, "failed": failed})
    if path:
        path.write_text(json.dumps(rows, indent=1) + "\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
