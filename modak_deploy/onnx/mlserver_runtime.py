"""MLServer's inference runtime for bundles: a bundle behind the Open Inference Protocol v2, REST and gRPC.

It is given in model-settings.json as ``"implementation": "modak_deploy.onnx.mlserver_runtime.BundleRuntime"`` with
``"parameters": {"uri": "FOLDER OF THE BUNDLE"}``; ``modak serve-model`` does that, and so can KServe or Seldon Core.
"""

import asyncio
import logging
from pathlib import Path
from typing import Any

from mlserver import MLModel
from mlserver.codecs import NumpyCodec, StringCodec
from mlserver.errors import InferenceError, MLServerError
from mlserver.types import InferenceRequest, InferenceResponse, MetadataTensor, ResponseOutput
from prometheus_client import Histogram

from modak_deploy.errors import InputError
from modak_deploy.onnx.batching import Batcher, OverloadedError, samples_are_independent
from modak_deploy.onnx.bundle import read_bundle
from modak_deploy.onnx.manifest import TensorSpec
from modak_deploy.onnx.protocol import DATATYPES, array_of, shape_of
from modak_deploy.onnx.runner import Array, Arrays, Runner

_LOG = logging.getLogger("modak_deploy.serve")
_BATCH_SIZES = Histogram(
    "modak_batch_samples", "Samples of one call of the model", buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
)


class BundleRuntime(MLModel):  # type: ignore[misc]
    """A bundle. Parameters: ``provider``, ``threads``, ``max_batch``, ``max_wait_ms``, ``max_queue``."""

    async def load(self) -> bool:
        """Verify the bundle's files, make the session, and try it."""
        parameters = self.settings.parameters
        extra = (parameters.extra if parameters else None) or {}
        folder = Path(str(parameters.uri if parameters else ""))
        self._runner = await asyncio.get_running_loop().run_in_executor(
            None,
            lambda: Runner(
                read_bundle(folder),
                provider=extra.get("provider", "auto"),
                threads=extra.get("threads"),
                batch=extra.get("max_batch", 1),
                report=_LOG.warning,
            ),
        )
        for spec in (*self._runner.inputs, *self._runner.outputs):
            if spec.dtype not in DATATYPES:
                raise InputError(f"{folder}: '{spec.name}' is {spec.dtype}, for which the protocol has no datatype")
        largest = extra.get("max_batch", 32)
        if largest > 1 and not await asyncio.get_running_loop().run_in_executor(
            None, samples_are_independent, self._runner
        ):
            _LOG.warning("requests are not joined: the model's outputs depend on the other samples of a batch")
            largest = 1
        self._batcher = Batcher(
            self._runner.run_checked,
            largest=largest,
            wait=extra.get("max_wait_ms", 0) / 1e3,
            longest_queue=extra.get("max_queue", 4096),
            observe=_BATCH_SIZES.observe,
        )
        self._specs = {spec.name: spec for spec in self._runner.inputs}
        self.inputs = [_metadata(spec) for spec in self._runner.inputs]
        self.outputs = [_metadata(spec) for spec in self._runner.outputs]
        _LOG.info("%s: %s, %s", folder, self._runner.providers[0], self._runner.choice.reason)
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        """Answer one request; what is wrong with it is a 400 with a message."""
        try:
            inputs, count = self._inputs(payload)
            asked = [output.name for output in payload.outputs or ()]
            names = [spec.name for spec in self._runner.outputs]
            if unknown := next((name for name in asked if name not in names), None):
                raise InputError(f"output '{unknown[:80]}': the model has {', '.join(names)}")
            outputs = await self._batcher.submit(inputs, count)
        except InputError as error:
            raise InferenceError(str(error)) from None
        except OverloadedError as error:
            raise MLServerError(str(error), 503) from None
        return InferenceResponse(
            model_name=self.name,
            model_version=self.version,
            outputs=[_output(name, outputs[name]) for name in asked or names],
        )

    async def unload(self) -> bool:
        """Answer all that wait."""
        await self._batcher.close()
        return True

    def _inputs(self, payload: InferenceRequest) -> tuple[Arrays, int]:
        inputs: Arrays = {}
        for given in payload.inputs:
            spec = self._specs.get(given.name)
            if spec is None:
                raise InputError(f"input '{given.name[:80]}': the model has {', '.join(self._specs)}")
            if given.name in inputs:
                raise InputError(f"input '{given.name}': is given twice")
            inputs[given.name] = array_of(
                spec, str(getattr(given.datatype, "value", given.datatype)), given.shape, _data(given)
            )
        return inputs, self._runner.check(inputs, origin="request")


def _data(given: Any) -> Any:
    return getattr(given.data, "root", given.data)


def _metadata(spec: TensorSpec) -> MetadataTensor:
    return MetadataTensor(name=spec.name, datatype=DATATYPES[spec.dtype], shape=shape_of(spec.shape))


def _output(name: str, array: Array) -> ResponseOutput:
    if array.dtype == object:
        output = StringCodec.encode_output(name, [str(text) for text in array.reshape(-1)])
    else:
        output = NumpyCodec.encode_output(name, array)
    # NumpyCodec gives [n] as [n, 1]: the protocol has the model's own shape.
    output.shape = list(array.shape)
    return output
