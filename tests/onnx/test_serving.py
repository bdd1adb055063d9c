"""The real server: right answers, 4xx for what is wrong, slow clients, and an end that completes what is in flight."""

import gzip
import json
import signal
import socket
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest
import yaml
from onnx import TensorProto, helper, numpy_helper

from onnxparts import bundle, linear
from serving import WEIGHTS, Server, tensor

BAD = yaml.safe_load((Path(__file__).parent / "bad_requests.yaml").read_text())
RNG = np.random.default_rng(1)


def ask(server, x):
    status, answer = server.post({"inputs": [tensor("x", x)]})
    assert status == 200, answer
    (output,) = answer["outputs"]
    return np.array(output["data"], np.float32).reshape(output["shape"])


def test_the_protocol(server):
    assert server.get("/v2/health/live")[0] == 200
    assert server.get("/v2/health/ready")[0] == 200
    assert json.loads(server.get("/v2")[1])["name"] == "modak"
    metadata = json.loads(server.get("/v2/models/test")[1])
    assert metadata["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]
    assert metadata["outputs"] == [{"name": "y", "datatype": "FP32", "shape": [-1, 3]}]
    assert server.post({}, "/v2/models/absent/infer")[0] in (400, 404)
    assert "modak_batch_samples" in server.get("/metrics", port=server.metrics)[1]


def test_answers_are_right_and_have_their_id(server):
    x = RNG.normal(size=(5, 4)).astype(np.float32)
    np.testing.assert_allclose(ask(server, x), x @ WEIGHTS, rtol=1e-5)
    nested = {"id": "mine", "inputs": [{"name": "x", "shape": [5, 4], "datatype": "FP32", "data": x.tolist()}]}
    status, answer = server.post(nested)
    assert (status, answer["id"]) == (200, "mine")


def test_many_clients_have_their_own_answers(server):
    def client(seed):
        generator = np.random.default_rng(seed)
        for _ in range(10):
            x = generator.normal(size=(generator.integers(1, 6), 4)).astype(np.float32)
            np.testing.assert_allclose(ask(server, x), x @ WEIGHTS, rtol=1e-4, atol=1e-5)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(client, range(16)))


@pytest.mark.parametrize("case", BAD, ids=[case["name"] for case in BAD])
def test_a_wrong_request_is_a_400_with_a_message(server, case):
    if "nested" in case:
        body = b"[" * case["nested"]
    else:
        body = case["text"].encode() if "text" in case else json.dumps(case["body"]).encode()
    status, answer = server.post(body)
    assert status == 400, answer
    assert case["message"] in answer["error"]
    assert len(answer["error"]) < 600


def test_wrong_requests_do_not_touch_those_of_others(server):
    wrong = {"inputs": [{"name": "x", "shape": [2, 4], "datatype": "FP32", "data": [1.0] * 7}]}

    def bad(_):
        return server.post(wrong)[0]

    def good(seed):
        x = np.random.default_rng(seed).normal(size=(1, 4)).astype(np.float32)
        np.testing.assert_allclose(ask(server, x), x @ WEIGHTS, rtol=1e-4, atol=1e-5)

    with ThreadPoolExecutor(8) as pool:
        statuses = [pool.submit(bad, at) for at in range(60)]
        answers = [pool.submit(good, at) for at in range(60)]
        assert {status.result() for status in statuses} == {400}
        for answer in answers:
            answer.result()


def test_limits_of_requests(server):
    status, answer = server.post(b"[" + b"1," * 2**21 + b"1]")
    assert (status, answer["error"]) == (413, "the request is larger than 2097152 bytes")
    bomb = gzip.compress(b" " * 2**24)
    assert server.post(bomb, Content_Encoding="gzip")[0] == 415
    for action in ("load", "unload"):
        assert server.post({}, f"/v2/repository/models/test/{action}")[0] == 403
    assert server.get("/v2/models/test/ready")[0] == 200


def test_slow_clients_do_not_affect_others(server):
    slow = []
    try:
        for _ in range(100):
            one = socket.create_connection(("127.0.0.1", server.http))
            one.sendall(b"POST /v2/models/test/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
            slow.append(one)
        x = np.ones((1, 4), np.float32)
        for _ in range(20):
            np.testing.assert_allclose(ask(server, x), x @ WEIGHTS, rtol=1e-5)
        slow[0].settimeout(30)
        answer = slow[0].recv(4096)
        assert answer.startswith(b"HTTP/1.1 408")
        assert b"did not arrive within 3 seconds" in answer + slow[0].recv(4096)
    finally:
        for one in slow:
            one.close()


def test_clients_that_go_away_do_not_affect_others(server):
    body = json.dumps({"inputs": [tensor("x", np.ones((50, 4), np.float32))]}).encode()
    head = b"POST /v2/models/test/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)

    def leaves(_):
        with socket.create_connection(("127.0.0.1", server.http)) as one:
            one.sendall(head + body)

    def stays(seed):
        x = np.random.default_rng(seed).normal(size=(2, 4)).astype(np.float32)
        np.testing.assert_allclose(ask(server, x), x @ WEIGHTS, rtol=1e-4, atol=1e-5)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(leaves, range(50)))
        list(pool.map(stays, range(50)))


def slow_model(rounds: int) -> onnx.ModelProto:
    """Return a model that takes its time: ``rounds`` products of a matrix in a Loop; each sample for itself."""
    size = 256
    body = helper.make_graph(
        [helper.make_node("MatMul", ["in", "m"], ["out"]), helper.make_node("Identity", ["more"], ["still"])],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("more", TensorProto.BOOL, []),
            helper.make_tensor_value_info("in", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("still", TensorProto.BOOL, []),
            helper.make_tensor_value_info("out", TensorProto.FLOAT, None),
        ],
    )
    graph = helper.make_graph(
        [helper.make_node("Loop", ["rounds", "", "x"], ["y"], body=body)],
        "slow",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", size])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", size])],
        [
            numpy_helper.from_array(np.eye(size, dtype=np.float32), "m"),
            numpy_helper.from_array(np.array(rounds, np.int64), "rounds"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def test_the_end_completes_what_is_in_flight(tmp_path, python):
    folder = bundle(tmp_path / "b", {"slow": slow_model(20_000)}).folder
    x = RNG.normal(size=(1, 256)).astype(np.float32)
    answers = []
    with Server(folder, tmp_path / "log", "--threads", "1", "--max-batch", "1", python=python) as server:
        began = time.monotonic()
        ask(server, x)
        alone = time.monotonic() - began
        threads = [threading.Thread(target=lambda: answers.append(ask(server, x))) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(min(0.5, alone / 2))
        server.process.send_signal(signal.SIGTERM)
        for thread in threads:
            thread.join(60)
        assert server.process.wait(60) == 0
    assert len(answers) == 4
    for answer in answers:
        np.testing.assert_allclose(answer, x, rtol=1e-5)


def test_a_slow_client_does_not_hold_up_the_end(served, tmp_path, python):
    with Server(served, tmp_path / "log", "--receive-seconds", "300", "--stop-seconds", "2", python=python) as server:
        one = socket.create_connection(("127.0.0.1", server.http))
        one.sendall(b"POST /v2/models/test/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
        time.sleep(0.3)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(30) == 0
        one.close()


def test_a_bundle_that_was_changed_is_not_served(tmp_path, python):
    folder = bundle(tmp_path / "b", {"line": linear(WEIGHTS)}).folder
    path = folder / "models/line/model.onnx"
    path.write_bytes(path.read_bytes()[::-1])
    with pytest.raises(RuntimeError, match="SHA-256"), Server(folder, tmp_path / "log", python=python):
        pass


def test_a_port_that_is_taken_is_named(served, tmp_path, python, server):
    options = ["--http-port", str(server.http), "--grpc-port", str(server.grpc), "--metrics-port", str(server.metrics)]
    done = subprocess.run(
        [python, "-m", "modak_deploy.cli", "serve-model", str(served), *options],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert "cannot be used" in done.stderr
    assert "Traceback" not in done.stderr


class TestGrpc:
    """The same by gRPC, with MLServer's own stubs, in the interpreter that has them."""

    SCRIPT = """
import sys, json, grpc, numpy as np
from mlserver.grpc import dataplane_pb2 as pb
from mlserver.grpc.dataplane_pb2_grpc import GRPCInferenceServiceStub
stub = GRPCInferenceServiceStub(grpc.insecure_channel(f"127.0.0.1:{sys.argv[1]}"))
x = np.arange(8, dtype=np.float32).reshape(2, 4)
def request(shape, raw):
    tensor = pb.ModelInferRequest.InferInputTensor(name="x", datatype="FP32", shape=shape)
    return pb.ModelInferRequest(model_name="test", inputs=[tensor], raw_input_contents=[raw])
answer = stub.ModelInfer(request([2, 4], x.tobytes()), timeout=30)
y = np.frombuffer(answer.raw_output_contents[0], np.float32).reshape(list(answer.outputs[0].shape))
codes = []
for shape, raw in (([2, 4], x.tobytes()[:-1]), ([3, 4], x.tobytes()), ([2**40, 2**40], b""), ([-1, 4], x.tobytes())):
    try:
        stub.ModelInfer(request(shape, raw), timeout=30)
        codes.append("OK")
    except grpc.RpcError as error:
        codes.append(error.code().name)
for seconds in (0.0005, 0.001, 0.002):
    try:
        stub.ModelInfer(request([2, 4], x.tobytes()), timeout=seconds)
    except grpc.RpcError as error:
        pass
stub.ModelInfer(request([2, 4], x.tobytes()), timeout=30)
print(json.dumps({"y": y.tolist(), "codes": codes, "ready": stub.ModelReady(pb.ModelReadyRequest(name="test")).ready}))
"""

    def test_answers_and_faults(self, server, python):
        done = subprocess.run(
            [python, "-c", self.SCRIPT, str(server.grpc)], capture_output=True, text=True, timeout=60, check=True
        )
        said = json.loads(done.stdout)
        x = np.arange(8, dtype=np.float32).reshape(2, 4)
        np.testing.assert_allclose(said["y"], x @ WEIGHTS, rtol=1e-5)
        assert said["codes"] == ["INVALID_ARGUMENT"] * 4
        assert said["ready"] is True
