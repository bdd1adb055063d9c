"""Recipes: how an image of the catalogue is made, read from the package's data and from a site's folders."""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from modak_deploy.catalogue.catalogue import Catalogue
from modak_deploy.catalogue.recipefiles import DATA, folders_beside
from modak_deploy.documents import check, read_document
from modak_deploy.documents.reading import read_text
from modak_deploy.errors import InputError
from modak_deploy.model.base import DeferredModel, Line, Model, Name, Sha256, Specifier, VariableName, VersionText
from modak_deploy.model.image import DefinitionText, ImageAccelerator, definition_text

Token = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9.+_-]*$")]
"""A name that means the same in every shell."""
Url = Annotated[str, StringConstraints(pattern=r"^https://[A-Za-z0-9._~:/?#@!&=%+,;-]+$")]
Option = Annotated[str, StringConstraints(pattern=r"^-[A-Za-z0-9_][A-Za-z0-9 ._=:/,+@;%-]*$")]
Options = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._=:/,+@-]*$")]
"""What build scripts get without quotes."""
Folder = Annotated[str, StringConstraints(pattern=r"^(/[A-Za-z0-9._+-]+)+$")]
File = TypeVar("File", bound=Model)


def command(value: str) -> str:
    """Return a shell command that may stand in a definition file; ValueError says why it may not."""
    text = definition_text(value).strip()
    if not text or text[0] in "%#":
        raise ValueError(
            f"is not a command: a definition file takes {text[:1] or 'an empty line'!r} for something else"
        )
    if text.endswith("\\"):
        raise ValueError("ends in a backslash, which joins it with the next line of a definition file")
    return text


Command = Annotated[str, AfterValidator(command)]
Commit = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]


class Archive(DeferredModel):
    """A source archive, a .tar.gz with one folder at its top."""

    url: Url
    sha256: Sha256


class Checkout(DeferredModel):
    """A commit of a git repository: its name is its hash."""

    repository: Url
    commit: Commit
    submodules: bool = False


class Program(DeferredModel):
    """A file that the build needs."""

    name: Token
    url: Url
    sha256: Sha256


class Compiler(DeferredModel):
    """The C and C++ compiler that the image is built with."""

    name: Literal["gcc", "clang"]
    version: VersionText


class CMakeBuild(DeferredModel):
    """A build by CMake."""

    prefix: Folder
    options: list[Option] = []
    then: list[Command] = []
    """Shell commands after the installation, inside the image."""


class Recipe(DeferredModel):
    """What goes into one image on top of its base."""

    entry: Name
    packages: list[Token] = []
    """Debian packages, whose archive signs them."""
    compiler: Compiler | None = None
    """The base's when absent."""
    tools: Name | None = None
    """List of pip and what builds wheels, by file name below ``locks/``."""
    lock: Name | None = None
    """List of Python packages with hashes."""
    programs: list[Program] = []
    source: Archive | Checkout | None = None
    cmake: CMakeBuild | None = None
    build: Name | None = None
    """Template of the build's shell script, by file name below ``build/``."""
    values: dict[VariableName, Options] = {}
    """Values for the template."""
    stubs: Folder | None = None
    """Folder with stand-ins for libraries of the GPU's driver, for the image's own test."""
    environment: dict[VariableName, DefinitionText] = {}
    """Variables in the image; ``$NAME`` stands for what the base has."""

    @model_validator(mode="after")
    def _single_build(self) -> "Recipe":
        if self.build is not None and self.cmake is not None:
            raise ValueError("'build' and 'cmake' are two ways: give one of them")
        if (self.lock is None) != (self.tools is None):
            raise ValueError("'tools' and 'lock' belong together: give both or none")
        return self


class RecipeFile(DeferredModel):
    """One YAML file of recipes."""

    version: Literal[1]
    recipes: list[Recipe]


class Condition(DeferredModel):
    """Holds for an image when all that is given holds."""

    framework: Name | None = None
    version: Specifier | None = None
    accelerator: ImageAccelerator | None = None
    compilers: list[Name] = []


class Check(DeferredModel):
    """A Python expression that is true in an image as it should be."""

    when: Condition
    expression: Line


class CheckFile(DeferredModel):
    """The YAML file of checks."""

    version: Literal[1]
    modules: dict[str, Line] = {}
    versionless: list[str] = []
    checks: Annotated[list[Check], Field(min_length=1)]


class Recipes:
    """Recipes by the name of their entry, with the files that they name."""

    def __init__(self, folders: Sequence[Path]) -> None:
        """Read ``folders``; a later one replaces what an earlier one says of an entry, and adds files."""
        self.folders = list(folders)
        self._recipes: dict[str, Recipe] = {}
        for folder in folders:
            for path in sorted(folder.glob("recipes*.yaml")):
                self._add(path)

    def _add(self, path: Path) -> None:
        file = _read(path, RecipeFile)
        names = [recipe.entry for recipe in file.recipes]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise InputError(f"there are two recipes for '{twice[0]}'", source=path)
        self._recipes.update((recipe.entry, recipe) for recipe in file.recipes)

    def __iter__(self) -> Iterator[Recipe]:
        """Iterate over the recipes in their order."""
        return iter(self._recipes.values())

    def get(self, entry: str) -> Recipe | None:
        """Return the recipe for an entry; None where it has none."""
        return self._recipes.get(entry)

    def path(self, kind: str, name: str) -> Path:
        """Return where ``<kind>/<name>`` lies in the last folder that has it; InputError when none has."""
        for folder in reversed(self.folders):
            path = folder / kind / name
            if path.is_file():
                return path
        raise InputError(f"no file '{kind}/{name}' lies beside the recipes in {', '.join(map(str, self.folders))}")

    def read(self, kind: str, name: str) -> str:
        """Return the text of ``<kind>/<name>`` in the last folder that has it; InputError when it cannot be read."""
        return read_text(self.path(kind, name))


def load_recipes(folders: Sequence[Path] = ()) -> Recipes:
    """Return the shipped recipes with those of a site's ``folders`` on top."""
    return _shipped() if not folders else Recipes([DATA, *folders])


def recipes_of(catalogue: Catalogue) -> Recipes:
    """Return the recipes that go with a catalogue: a site's folder has its own in a folder ``recipes``."""
    return load_recipes(folders_beside(source.path for source in catalogue.sources))


@cache
def _shipped() -> Recipes:
    return Recipes([DATA])


@cache
def load_checks() -> CheckFile:
    """Return the shipped checks."""
    return _read(DATA / "checks.yaml", CheckFile)


def _read(path: Path, model: type[File]) -> File:
    document = read_document(path)
    return check(model, document.data, origin=str(path), locate=document.locate)
