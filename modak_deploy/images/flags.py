"""Compiler flags for a microarchitecture, from archspec, in the forms that the build systems take."""

from collections.abc import Sequence
from dataclasses import dataclass

from modak_deploy.catalogue.recipe import Compiler
from modak_deploy.errors import InputError
from modak_deploy.shell import quote


@dataclass(frozen=True)
class Flags:
    """Flags, and the microarchitecture that they are for."""

    microarchitecture: str
    options: Sequence[str]

    @property
    def text(self) -> str:
        """The flags as the one value of CFLAGS."""
        return " ".join(self.options)

    @property
    def bazel(self) -> str:
        """The flags as options of ``bazel build``, quoted for a shell."""
        return " ".join(quote(f"--copt={option}") for option in self.options)


def flags_for(microarchitecture: str, compiler: Compiler) -> Flags:
    """Return the flags that make ``compiler`` build for ``microarchitecture``.

    InputError for a name that archspec does not know, and where the compiler is too old, which names the nearest
    microarchitecture that it can build for.
    """
    import archspec.cpu

    target = archspec.cpu.TARGETS.get(microarchitecture)
    if target is None:
        raise InputError(f"'{microarchitecture}' is not a microarchitecture that archspec knows")
    options = _options(target, compiler)
    if options is None:
        nearest = nearest_supported(microarchitecture, compiler)
        raise InputError(
            f"{compiler.name} {compiler.version} cannot build for '{microarchitecture}': "
            f"the nearest that it knows is '{nearest}'"
        )
    return Flags(microarchitecture, options)


def nearest_supported(microarchitecture: str, compiler: Compiler) -> str:
    """Return ``microarchitecture`` or the nearest one that runs there and that ``compiler`` can build for."""
    import archspec.cpu

    target = archspec.cpu.TARGETS.get(microarchitecture)
    if target is None:
        raise InputError(f"'{microarchitecture}' is not a microarchitecture that archspec knows")
    for candidate in (target, *target.ancestors):
        if _options(candidate, compiler) is not None:
            return str(candidate.name)
    raise InputError(f"{compiler.name} {compiler.version} can build for nothing that runs on '{microarchitecture}'")


def _options(target: object, compiler: Compiler) -> list[str] | None:
    from archspec.cpu import UnsupportedMicroarchitecture

    try:
        text: str = target.optimization_flags(compiler.name, compiler.version)  # type: ignore[attr-defined]
    except UnsupportedMicroarchitecture:
        return None
    return text.split()
