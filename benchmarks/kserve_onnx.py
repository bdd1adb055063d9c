"""An ONNX file served by KServe's own Python server, as users write it from its documentation; for inference_load.py.

    python benchmarks/kserve_onnx.py model.onnx HTTP_PORT GRPC_PORT

It runs in an environment of its own with ``pip install kserve onnxruntime``.
"""

import sys

import onnxruntime
from kserve import InferOutput, InferResponse, Model, ModelServer
from kserve.utils.utils import generate_uuid


class OnnxModel(Model):
    """One session; one call for each request."""

    def __init__(self, name: str, path: str) -> None:
        super().__init__(name)
        self.session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        self.ready = True

    def predict(self, payload, headers=None, response_headers=None):
        feed = {tensor.name: tensor.as_numpy() for tensor in payload.inputs}
        answers = self.session.run(None, feed)
        outputs = []
        for meta, array in zip(self.session.get_outputs(), answers, strict=True):
            output = InferOutput(meta.name, list(array.shape), "FP32")
            output.set_data_from_numpy(array, binary_data=False)
            outputs.append(output)
        return InferResponse(generate_uuid(), self.name, outputs)


if __name__ == "__main__":
    server = ModelServer(http_port=int(sys.argv[2]), grpc_port=int(sys.argv[3]), enable_docs_url=False)
    server.start([OnnxModel("load", sys.argv[1])])
