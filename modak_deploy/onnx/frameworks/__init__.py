"""What writes models of a framework as ONNX, one module each; nothing of it is imported before it is asked for."""

from modak_deploy.engines.registry import converter_of, get
from modak_deploy.onnx.frameworks.base import Framework
from modak_deploy.onnx.packages import require


def framework(name: str) -> Framework:
    """Return the framework of that name, its packages imported; InputError has pip's command for a missing one."""
    converter: Framework = converter_of(get(name), Framework)
    for package, requirement in converter.packages.items():
        require(package, requirement, purpose=f"a model of {name}", extra=converter.extra)
    return converter
