"""Inference by PyTorch, or by the engine that modak chose: infer.py [--calls N] [--batch N] [--engine NAME]."""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np


def load(engine: str, inputs: dict[str, np.ndarray]) -> Any:
    """Return a function of arrays: the network in PyTorch, or its ONNX file in another engine."""
    if engine == "pytorch":
        import torch
        from nets import Response

        net = Response()
        net.load_state_dict(torch.load("weights.pt", weights_only=True))
        net.eval()

        def run(given: dict[str, np.ndarray]) -> np.ndarray:
            with torch.inference_mode():
                return net(torch.from_numpy(given["x"])).numpy()

        return run
    from modak_deploy.engines.registry import get

    loaded = get(engine).load(Path("model.onnx"), inputs, trials=0)
    return lambda given: next(iter(loaded(given).values()))


def main() -> None:
    """Call the network, and say how far it is: by these lines trials measure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--engine", default="pytorch")
    given = parser.parse_args()
    inputs = {"x": np.random.default_rng(0).standard_normal((given.batch, 942)).astype("float32")}
    run = load(given.engine, inputs)
    began = time.monotonic()
    for call in range(1, given.calls + 1):
        result = run(inputs)
        print(f"call {call} {float(result.mean()):.4f}", flush=True)
    Path("metrics.json").write_text(json.dumps({"engine": given.engine, "seconds": time.monotonic() - began}))


if __name__ == "__main__":
    main()
