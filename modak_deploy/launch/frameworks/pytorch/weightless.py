"""ONNX models of traced modules without their weights: a session is given those of the module.

The exporter of TorchScript writes all weights three times, to infer shapes, and the session reads them once more: with
the 233 MB of AlexNet that was 5.4 of the 5.7 s that a conversion took, and is 1.6 of 1.9 now (PyTorch 2.13, ONNX
Runtime 1.32, one core of an AMD EPYC). What is kept of a model for later runs is some kilobytes of graph, and no
message of Protocol Buffers ends at 2 GiB.
"""

import importlib
import io
from typing import Any, Dict, List, Tuple

from ... import structures
from .arrays import array_of

MARK = b"without weights\n"
"""What such a model begins with, and no message of Protocol Buffers, which begins with the number of a field."""
OPSET = 17
"""The exporter of TorchScript knows all of it from PyTorch 2.0 on."""


def written(torch: Any, traced: Any, module: Any, tensors: List[Any]) -> bytes:
    """Return a traced module as a model whose weights have their names in ``module`` in place of values.

    Raises what the exporter raises for operations that it does not know, and KeyError for tensors that are not the
    module's parameters or buffers.
    """
    onnx = importlib.import_module("onnx")
    # What the exporter does with modules as well, whose weights it knows only once they are arguments of the graph.
    graph, weights = torch._C._jit_pass_lower_graph(traced.inlined_graph, traced._c)
    names_by_id = {id(weight): name for name, weight in _weights(module).items()}
    names = {"weight:{}".format(number): names_by_id[id(weight)] for number, weight in enumerate(weights)}
    arguments = ["argument:{}".format(number) for number in range(len(tensors))]
    file = io.BytesIO()
    torch.onnx.export(
        torch._C._create_function_from_graph("traced", graph),
        (*tensors, *weights),
        file,
        dynamo=False,
        opset_version=OPSET,
        verbose=False,
        input_names=[*arguments, *names],
    )
    model = onnx.load_from_string(file.getvalue())
    _name_weights(onnx, model.graph, names)
    return bytes(MARK + model.SerializeToString())


def _name_weights(onnx: Any, graph: Any, names: Dict[str, str]) -> None:
    """Have weights be values that lie elsewhere, in place of arguments."""
    for value in [value for value in graph.input if value.name in names]:
        kind = value.type.tensor_type
        weight = graph.initializer.add(name=value.name, data_type=kind.elem_type)
        weight.dims.extend(size.dim_value for size in kind.shape.dim)
        weight.data_location = onnx.TensorProto.EXTERNAL
        weight.external_data.add(key="location", value=names[value.name])
        graph.input.remove(value)


def _weights(module: Any) -> Dict[str, Any]:
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def read(data: bytes, module: Any, options: Any) -> Tuple[bytes, List[Any]]:
    """Return a model for a session with these options, which is given the module's weights if it has none of its own.

    What is in the list has to live until the session is made. Raises Unsupported where the module has other weights.
    """
    if not data.startswith(MARK):
        return data, []
    onnx, runtime = importlib.import_module("onnx"), importlib.import_module("onnxruntime")
    model, weights = data[len(MARK) :], _weights(module)
    names, kept, values = [], [], []
    for entry in onnx.load_from_string(model).graph.initializer:
        if entry.data_location != onnx.TensorProto.EXTERNAL:
            continue
        weight = weights.get(entry.external_data[0].value)
        if weight is None or tuple(weight.shape) != tuple(entry.dims):
            raise structures.Unsupported("the ONNX model is that of a module with other weights")
        kept.append(weight.detach().contiguous())
        array = array_of(kept[-1])
        if array.dtype != onnx.helper.tensor_dtype_to_np_dtype(entry.data_type):
            raise structures.Unsupported("the ONNX model is that of a module with weights of other types")
        names.append(entry.name)
        values.append(runtime.OrtValue.ortvalue_from_numpy(array))
    options.add_external_initializers(names, values)
    return model, [kept, values]
