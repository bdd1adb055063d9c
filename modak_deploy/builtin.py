"""Names and classes of the built-in extensions; written by ``python scripts/registration.py`` (``make generate``).

The order of the container runtimes is the order of preference where nothing else decides.
"""

from collections.abc import Mapping

SCHEDULERS: Mapping[str, str] = {
    "process": "modak_deploy.schedulers.process:Process",
    "slurm": "modak_deploy.schedulers.slurm:Slurm",
    "torque": "modak_deploy.schedulers.torque:Torque",
    "openpbs": "modak_deploy.schedulers.openpbs:OpenPBS",
    "gridengine": "modak_deploy.schedulers.gridengine:GridEngine",
}
TARGETS: Mapping[str, str] = {
    "machine": "modak_deploy.model.kinds:Machine",
    "cloud": "modak_deploy.model.kinds:CloudInstance",
    "kubernetes": "modak_deploy.model.kinds:KubernetesCluster",
}
RUNTIMES: Mapping[str, str] = {
    "apptainer": "modak_deploy.containers.apptainer:Apptainer",
    "singularity": "modak_deploy.containers.apptainer:Singularity",
    "podman": "modak_deploy.containers.oci:Podman",
    "docker": "modak_deploy.containers.oci:Docker",
    "charliecloud": "modak_deploy.containers.charliecloud:Charliecloud",
}
LEVER_EFFECTS: Mapping[str, str] = {
    "threads": "modak_deploy.catalogue.effects:Threads",
    "environment": "modak_deploy.catalogue.effects:Environment",
    "preload": "modak_deploy.catalogue.effects:Preload",
    "launcher": "modak_deploy.catalogue.effects:Launcher",
    "launch": "modak_deploy.catalogue.effects:Launch",
    "prefix": "modak_deploy.catalogue.effects:Prefix",
    "arguments": "modak_deploy.catalogue.effects:Arguments",
    "packing": "modak_deploy.catalogue.effects:Packing",
    "session": "modak_deploy.catalogue.effects:SessionOptions",
}
ENGINES: Mapping[str, str] = {
    "pytorch": "modak_deploy.engines.frameworks:PyTorch",
    "tensorflow": "modak_deploy.engines.frameworks:TensorFlow",
    "keras": "modak_deploy.engines.frameworks:Keras",
    "jax": "modak_deploy.engines.frameworks:Jax",
    "sklearn": "modak_deploy.engines.frameworks:ScikitLearn",
    "xgboost": "modak_deploy.engines.frameworks:XGBoost",
    "lightgbm": "modak_deploy.engines.frameworks:LightGBM",
    "onnxruntime": "modak_deploy.onnx.engines:OnnxRuntime",
    "openvino": "modak_deploy.onnx.engines:OpenVINO",
    "tvm": "modak_deploy.onnx.engines:Tvm",
    "mxnet": "modak_deploy.engines.frameworks:MXNet",
    "cntk": "modak_deploy.engines.frameworks:Cntk",
    "numexpr": "modak_deploy.engines.frameworks:NumExpr",
    "tensorrt": "modak_deploy.engines.frameworks:TensorRT",
}
PROVIDERS: Mapping[str, str] = {
    "existing": "modak_deploy.providers.existing:Existing",
    "aws": "modak_deploy.providers.aws:Aws",
    "openstack": "modak_deploy.providers.openstack:OpenStack",
    "libvirt": "modak_deploy.providers.libvirt:Libvirt",
}
