"""Models of sessions run by OpenVINO itself, in single precision."""

import os
from typing import Any, Callable, Dict, List, Optional

from ... import hardware
from ...frameworks import openvino_cpu, openvino_rows, openvino_signs
from ...frameworks.onnxruntime.kinds import Form, OrtLever

CPU = "CPUExecutionProvider"


class ByOpenVino(OrtLever):
    name = "onnxruntime-by-openvino"
    summary = "the model of a session read and run by OpenVINO, in single precision"
    changes = "kernels"
    expensive = True
    order = 28
    group = "execution-provider"
    conflicts = (
        "onnxruntime-bf16-arm",
        "onnxruntime-graph-all",
        "onnxruntime-no-spinning",
        "onnxruntime-one-thread",
        "onnxruntime-parallel",
        "onnxruntime-threads-cores",
        "onnxruntime-threads-half",
    )
    modules = ("openvino",)
    faster = "onnxruntime-by-openvino-bf16"
    precision = "f32"

    def making(self, size: int) -> float:
        # A second is what OpenVINO takes to be imported (2026.4).
        return 1.2 + 5e-9 * size

    def applies(self, module: Any, options: Any, providers: List[Any]) -> Optional[str]:
        if providers[:1] != [CPU]:
            return "the session does not run on the processor"
        return openvino_cpu.refusal()

    def runner(self, model: Any, options: Any, form: Form) -> Callable[..., Any]:
        with openvino_cpu.silent():
            read = openvino_cpu.core().read_model(model if isinstance(model, bytes) else os.fspath(model))
            openvino_cpu.check_precision(read)
            # Sizes that are known let it choose kernels; a call of other sizes does not come here.
            read.reshape({name: list(shape) for name, shape in form.shapes.items()})
            rows = openvino_rows.limits(read)
            reason = openvino_signs.loses(read)
            if reason is not None:
                raise ValueError(reason)
            numbers = [_number(read, name) for name in form.names] or list(range(len(read.outputs)))
            request = openvino_cpu.compiled(read, self.precision, options.intra_op_num_threads or hardware.cores())

        def run(names: Any, feed: Dict[str, Any], options: Any) -> List[Any]:
            for name, array in feed.items():
                openvino_cpu.check_range(array)
                openvino_cpu.check_finite(array)
                if name in rows:
                    rows[name].check(array)
            arrays = list(request.infer(feed).values())  # copies: the next call writes into others
            return [arrays[number] for number in numbers]

        return run


def _number(model: Any, name: str) -> int:
    """Return the place of an output among the model's; ValueError where OpenVINO knows it by no such name."""
    for number, output in enumerate(model.outputs):
        if name in output.get_names():
            return number
    raise ValueError("OpenVINO's model has no output '{}'".format(name))


LEVER = ByOpenVino()
