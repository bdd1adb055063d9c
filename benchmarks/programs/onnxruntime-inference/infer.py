"""Run a convolutional network by ONNX Runtime with its default options: random weights, synthetic images."""

import argparse
import json
import statistics
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

LAYERS = ((64, 7, 2), (64, 3, 1), (128, 3, 2), (128, 3, 1), (256, 3, 2), (256, 3, 1), (512, 3, 2))
"""Channels, kernel and stride of each convolution."""


def network(size: int) -> bytes:
    """Return the network as the ONNX file that holds it."""
    rng = np.random.default_rng(0)
    nodes, weights, name, inputs = [], [], "images", 3
    for number, (width, kernel, stride) in enumerate(LAYERS):
        values = rng.standard_normal((width, inputs, kernel, kernel), dtype=np.float32)
        weights.append(numpy_helper.from_array(values * (2 / (inputs * kernel**2)) ** 0.5, f"weights{number}"))
        pads = [kernel // 2] * 4
        nodes.append(
            helper.make_node("Conv", [name, f"weights{number}"], [f"c{number}"], pads=pads, strides=[stride] * 2)
        )
        nodes.append(helper.make_node("Relu", [f"c{number}"], [f"r{number}"]))
        name, inputs = f"r{number}", width
    weights.append(numpy_helper.from_array(rng.standard_normal((inputs, 1000), dtype=np.float32) / 23, "dense"))
    nodes.append(helper.make_node("GlobalAveragePool", [name], ["pooled"]))
    nodes.append(helper.make_node("Flatten", ["pooled"], ["flat"]))
    nodes.append(helper.make_node("MatMul", ["flat", "dense"], ["scores"]))
    images = helper.make_tensor_value_info("images", onnx.TensorProto.FLOAT, ["batch", 3, size, size])
    scores = helper.make_tensor_value_info("scores", onnx.TensorProto.FLOAT, ["batch", 1000])
    graph = helper.make_graph(nodes, "network", [images], [scores], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model.SerializeToString()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--units", type=int, default=200, help="runs")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--size", type=int, default=160)
    options = parser.parse_args()

    Path("network.onnx").write_bytes(network(options.size))
    session = onnxruntime.InferenceSession("network.onnx", providers=["CPUExecutionProvider"])
    shape = (options.batch, 3, options.size, options.size)
    images = np.random.default_rng(1).standard_normal(shape, dtype=np.float32)
    times, total = [], 0.0
    for _ in range(options.units):
        start = time.perf_counter()
        (scores,) = session.run(None, {"images": images})
        total += float(np.abs(scores).mean())
        times.append(time.perf_counter() - start)
    steady = statistics.median(times[len(times) * 2 // 3 :])
    values = {"seconds": sum(times), "steady": steady, "result": total / options.units}
    Path("metrics.json").write_text(json.dumps(values))


if __name__ == "__main__":
    main()
