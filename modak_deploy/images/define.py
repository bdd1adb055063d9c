"""Definitions of images for Apptainer and for podman or docker, written by HPCCM from entry and recipe."""

import hashlib
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from modak_deploy.catalogue.recipe import Archive, Checkout, CMakeBuild, Compiler, Recipe, Recipes, load_recipes
from modak_deploy.documents import check
from modak_deploy.errors import InputError
from modak_deploy.images.buildscript import fill
from modak_deploy.images.checks import test_program
from modak_deploy.images.flags import Flags, flags_for, nearest_supported
from modak_deploy.images.languages import LANGUAGES, Form, Language, comment_text
from modak_deploy.model.image import ImageEntry
from modak_deploy.model.reference import parse
from modak_deploy.shell import quote
from modak_deploy.util.architectures import MACHINES
from modak_deploy.util.digest import sha256_of

PREFIX = "/opt/modak"
"""The Python environment inside an image."""
WORK = "/opt/modak-build"
"""Where the build's files lie inside; it is gone at the end."""
TEST = "/opt/modak-test.py"
_DISTRIBUTIONS = {"debian12": "ubuntu22"}
"""What HPCCM, which has no Debian, takes in its place: both are served by apt-get."""
_BASE_VARIABLES = (
    "for file in /.singularity.d/env/10-docker*.sh /.singularity.d/env/90-environment.sh; do "
    '[ ! -e "$file" ] || . "$file"; done'
)
_FOREIGN_SOURCES = "rm -f /etc/apt/sources.list.d/cuda*.list /etc/apt/sources.list.d/nvidia*.list"
"""NVIDIA's images name package archives whose key has changed since; nothing here comes from them."""


@dataclass(frozen=True)
class Definition:
    """Everything that an image is made from, except what the build downloads and checks."""

    entry: ImageEntry
    base: "Definition | None"
    """The definition of the image it is built on; None where that one is pulled."""
    flags: Flags | None
    texts: Mapping[Form, str]
    files: Mapping[str, str]
    """Files that lie beside the definition, by name."""
    labels: Mapping[str, str]
    source_package: str | None
    """A Python package that is compiled from its source archive instead of installed from a wheel."""
    digest: str
    """Hash of all this and of the base: the same digest is the same image."""

    @property
    def stem(self) -> str:
        """Name for files: entry and the digest's beginning."""
        return f"{self.entry.name}-{self.digest.removeprefix('sha256:')[:16]}"

    @property
    def tag(self) -> str:
        """Name in podman's or docker's store."""
        return f"localhost/modak/{self.entry.name.lower()}:{self.digest.removeprefix('sha256:')[:16]}"


def define(entry: ImageEntry, images: Mapping[str, ImageEntry], recipes: Recipes | None = None) -> Definition:
    """Return the definition of ``entry``, whose base is found in ``images``.

    Where the Python packages come from is not part of it: the build puts a folder ``pip`` beside the definition.
    InputError where the recipe is missing, or its compiler cannot build for the entry's microarchitecture.
    """
    recipes = recipes or load_recipes()
    recipe = recipes.get(entry.name)
    if recipe is None and entry.reference is None:
        raise InputError(f"no recipe to build the image '{entry.name}' by")
    base = _base(entry, images, recipes)
    flags = None
    if entry.source == "opt-build" and entry.microarchitecture is not None:
        flags = flags_for(entry.microarchitecture, compiler_of(entry, images, recipes))
    return _Writer(entry, recipe or Recipe(entry=entry.name), recipes, base, flags).definition()


def compiler_of(entry: ImageEntry, images: Mapping[str, ImageEntry], recipes: Recipes | None = None) -> Compiler:
    """Return the compiler that builds ``entry``: its recipe's, or its base's."""
    recipes = recipes or load_recipes()
    current: ImageEntry | None = entry
    while current is not None:
        recipe = recipes.get(current.name)
        if recipe is not None and recipe.compiler is not None:
            return recipe.compiler
        current = images.get(current.base) if current.base else None
    raise InputError(f"no recipe says which compiler is in the image '{entry.name}' or below it")


def for_microarchitecture(
    entry: ImageEntry, microarchitecture: str, images: Mapping[str, ImageEntry], recipes: Recipes | None = None
) -> ImageEntry:
    """Return an opt-build entry made over for ``microarchitecture``, or the nearest that its compiler can build for.

    The entry's name and label say which one it became.
    """
    if entry.source != "opt-build":
        raise InputError(f"the image '{entry.name}' is not compiled: only an opt-build can be made for a processor")
    nearest = nearest_supported(microarchitecture, compiler_of(entry, images, recipes))
    if nearest == entry.microarchitecture:
        return entry
    return entry.model_copy(update={"microarchitecture": nearest})


def _base(entry: ImageEntry, images: Mapping[str, ImageEntry], recipes: Recipes) -> Definition | None:
    if entry.base is None:
        return None
    if entry.base not in images:
        raise InputError(f"the image '{entry.name}' is built on '{entry.base}', which the catalogue does not have")
    return define(images[entry.base], images, recipes)


class _Writer:
    """Writes one definition; HPCCM's blocks are made once per form, because it keeps the form in a global variable."""

    def __init__(
        self,
        entry: ImageEntry,
        recipe: Recipe,
        recipes: Recipes,
        base: Definition | None,
        flags: Flags | None,
    ) -> None:
        # An entry or a recipe that was made by model_copy has passed no check yet.
        self.entry = check(ImageEntry, entry.model_dump(warnings=False), origin=f"the image '{entry.name}'")
        self.recipe = check(Recipe, recipe.model_dump(warnings=False), origin=f"the recipe for '{entry.name}'")
        self.recipes = recipes
        self.base = base
        self.flags = flags
        self.files = self._files()
        self.labels = self._labels()

    def definition(self) -> Definition:
        """Return all forms, with a digest over what they are made from."""
        digest = self._digest()
        labels = {**self.labels, "modak.digest": digest}
        texts: dict[Form, str] = {form: self._text(form, labels) for form in ("apptainer", "containerfile")}
        package = self.recipe.values.get("package") if self.recipe.build == "pip" else None
        return Definition(self.entry, self.base, self.flags, texts, self.files, labels, package, digest)

    def _digest(self) -> str:
        texts = [self._text(form, self.labels) for form in ("apptainer", "containerfile")]
        content = {
            "texts": texts,
            "files": {name: hashlib.sha256(text.encode()).hexdigest() for name, text in self.files.items()},
            "base": self.base.digest if self.base else None,
        }
        return f"sha256:{sha256_of(content)}"

    def _files(self) -> dict[str, str]:
        files = {"test.py": test_program(self.entry)}
        if self.recipe.tools and self.recipe.lock:
            files["tools.txt"] = self.recipes.read("locks", f"{self.recipe.tools}.txt")
            files["requirements.txt"] = self.recipes.read("locks", f"{self.recipe.lock}.txt")
        if self.recipe.source or self.recipe.programs:
            files["fetch.sh"] = self._script("fetch.sh.j2")
        if self.recipe.build:
            files["build.sh"] = self._script(f"{self.recipe.build}.sh.j2")
        return files

    def _script(self, name: str) -> str:
        # The recipe's model lets no shell characters into these values.
        source = self.recipe.source
        values = {
            "programs": self.recipe.programs,
            "archive": source if isinstance(source, Archive) else None,
            "checkout": source if isinstance(source, Checkout) else None,
            "values": self.recipe.values,
            "accelerator": self.entry.accelerator,
            "toolkit": self.entry.toolkit,
            "flags": self.flags.text if self.flags else "",
            "bazel_flags": self.flags.bazel if self.flags else "",
        }
        text = fill(self.recipes.read("build", name), values, self.recipes.path("build", name))
        return f"#!/bin/sh\nset -eu\n{text.rstrip()}\n"

    def _labels(self) -> dict[str, str]:
        entry = self.entry
        labels = {
            "org.opencontainers.image.title": entry.name,
            "org.opencontainers.image.version": entry.version,
            "org.opencontainers.image.description": entry.summary,
            "modak.source": entry.source,
            "modak.framework": entry.framework,
            "modak.framework.version": entry.version,
            "modak.compilers": ",".join(sorted(entry.compilers)),
            "modak.packages": ",".join(f"{name}=={version}" for name, version in sorted(entry.packages.items())),
            "modak.architecture": entry.architecture,
            "modak.microarchitecture": entry.microarchitecture,
            "modak.flags": self.flags.text if self.flags else None,
            "modak.accelerator": entry.accelerator,
            "modak.toolkit": entry.toolkit,
            "modak.driver": entry.driver,
            "modak.mpi": f"{entry.mpi.family} {entry.mpi.version}" if entry.mpi else None,
            "modak.python": entry.python,
            "modak.glibc": entry.glibc,
            "modak.base": entry.base,
            **entry.labels,
        }
        return {name: value for name, value in labels.items() if value}

    # --- the text --------------------------------------------------------------------------------------------------

    def _text(self, form: Form, labels: Mapping[str, str]) -> str:
        import hpccm
        from hpccm.primitives import comment

        language = LANGUAGES[form]
        with _hpccm_for(form):
            stage = hpccm.Stage()
            summary = comment_text("summary", self.entry.summary or self.entry.source)
            stage += comment(f"{self.entry.name}: {summary}", reformat=False)
            for block in (
                *self._base_blocks(form),
                *self._content_blocks(language),
                *self._end_blocks(language, labels),
            ):
                stage += block
            text = str(stage)
        # Not splitlines(): it takes U+2028 and others for line breaks, and would make lines out of values.
        text = re.sub(r"\n{3,}", "\n\n", "\n".join(line.rstrip() for line in text.split("\n"))).strip() + "\n"
        try:
            language.check(text)
        except InputError as error:
            raise InputError(f"the image '{self.entry.name}' cannot be defined: {error}") from None
        return text

    def _base_blocks(self, form: Form) -> Iterator[Any]:
        from hpccm.primitives import baseimage, raw, shell

        settings = {"_arch": MACHINES[self.entry.architecture], "_distro": self._distribution(), "_docker_env": False}
        if self.base is None:
            reference = parse(self.entry.origin or self.entry.reference or "")
            if reference.scheme != "docker":
                raise InputError(f"no image can be built on '{reference}': a base is a docker:// reference")
            if self.entry.digest is not None:
                reference = reference.pinned(self.entry.digest)
            yield baseimage(image=str(reference).removeprefix("docker://"), **settings)
        elif form == "apptainer":
            yield baseimage(image=f"{self.base.stem}.sif", _bootstrap="localimage", **settings)
        else:
            yield baseimage(image=self.base.tag, **settings)
        # Apptainer keeps an image's variables there, and the build on top of it does not see them by itself.
        yield raw(singularity=f"%post\n    {_BASE_VARIABLES}")
        if self.base is None and self.entry.accelerator == "nvidia":
            yield shell(commands=[_FOREIGN_SOURCES], chdir=False)

    def _distribution(self) -> str:
        name = self.entry.distribution or ""
        return _DISTRIBUTIONS.get(name, name.split(".")[0] if name.startswith("ubuntu") else "ubuntu")

    def _content_blocks(self, language: Language) -> Iterator[Any]:
        from hpccm.building_blocks import packages
        from hpccm.primitives import copy, environment, shell

        recipe = self.recipe
        if recipe.packages:
            yield packages(apt=list(recipe.packages))
        if recipe.environment:
            yield environment(
                variables={name: language.variable(name, value) for name, value in recipe.environment.items()}
            )
        scripts = sorted(name for name in self.files if name != "test.py")
        if scripts:
            yield copy(src=scripts, dest=f"{WORK}/")
        if recipe.lock:
            yield copy(src="pip", dest=f"{WORK}/pip")
            yield from self._python_blocks(language)
        if "fetch.sh" in self.files:
            yield shell(commands=[f"sh {WORK}/fetch.sh"])
        if "build.sh" in self.files:
            yield shell(commands=[f"sh {WORK}/build.sh"])
        if recipe.cmake:
            yield shell(commands=self._cmake_commands(recipe.cmake))
        if scripts:
            yield shell(commands=[f"rm -rf {WORK}"])

    def _python_blocks(self, language: Language) -> Iterator[Any]:
        from hpccm.building_blocks import pip
        from hpccm.primitives import environment, shell

        python = f"env PIP_CONFIG_FILE={WORK}/pip/pip.conf {PREFIX}/bin/python3 -m pip"
        yield shell(
            commands=[
                f"python3 -m venv {PREFIX}",
                f"{python} install --no-cache-dir --require-hashes --requirement {WORK}/tools.txt",
            ]
        )
        yield pip(
            pip=python, args=["--no-cache-dir"], ospackages=[], requirements="requirements.txt", wd=f"{WORK}/list"
        )
        yield environment(variables={"PATH": language.variable("PATH", f"{PREFIX}/bin:$PATH")})

    def _cmake_commands(self, build: CMakeBuild) -> list[str]:
        from hpccm.templates import CMakeBuild as Template
        from hpccm.toolchain import toolchain

        flags = self.flags.text if self.flags else ""
        cmake = Template(prefix=build.prefix, opts=[quote(option) for option in build.options])
        return [
            cmake.configure_step(directory=f"{WORK}/source", toolchain=toolchain(CFLAGS=flags, CXXFLAGS=flags)),
            cmake.build_step(parallel='"$(nproc)"'),
            cmake.build_step(target="install", parallel='"$(nproc)"'),
            f"echo {build.prefix}/lib >/etc/ld.so.conf.d/modak.conf",
            "ldconfig",
            *build.then,
        ]

    def _end_blocks(self, language: Language, labels: Mapping[str, str]) -> Iterator[Any]:
        from hpccm.primitives import copy, label, raw, shell

        yield copy(src="test.py", dest=TEST)
        yield label(metadata={name: language.label(name, text) for name, text in sorted(labels.items())})
        yield raw(singularity='%runscript\n    exec "$@"')
        python = f"{PREFIX}/bin/python3" if self.recipe.lock else "python3"
        if self.recipe.stubs:
            # The driver's libraries come from the machine that has the GPUs, and a build may run elsewhere.
            python = f'env LD_LIBRARY_PATH="$LD_LIBRARY_PATH:{self.recipe.stubs}" {python}'
        yield shell(commands=[f"{python} {TEST}"], _test=True)


@contextmanager
def _hpccm_for(form: Form) -> Iterator[None]:
    """Set HPCCM's global state to one form and its log to silence."""
    import hpccm.config
    from hpccm.common import container_type

    logger = logging.getLogger()
    level, before = logger.level, hpccm.config.g_ctype
    logger.setLevel(logging.ERROR)
    hpccm.config.g_ctype = container_type.SINGULARITY if form == "apptainer" else container_type.DOCKER
    try:
        yield
    finally:
        hpccm.config.g_ctype = before
        logger.setLevel(level)
