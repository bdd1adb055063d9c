"""HiT: ensembles of models as ONNX bundles, converted, verified, combined and run on any hardware."""
