"""Every image of the catalogue is rendered and compared whole; set MODAK_WRITE_GOLDEN=1 to write the files anew."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from spython.main.parse.parsers import get_parser

from modak_deploy.catalogue.catalogue import load_catalogue
from modak_deploy.catalogue.recipe import Compiler, Recipes, load_recipes
from modak_deploy.errors import InputError
from modak_deploy.images.define import Definition, compiler_of, define, for_microarchitecture
from modak_deploy.images.flags import flags_for, nearest_supported
from modak_deploy.model.image import ImageEntry

IMAGES = load_catalogue().images
GOLDEN = Path("tests/data/images/definitions")
SUFFIX = {"apptainer": ".def", "containerfile": ".Containerfile"}
TABLE_I = {
    "tensorflow-1.14-hub-cpu", "tensorflow-1.14-pip-cpu", "tensorflow-2.1-hub-cpu", "tensorflow-2.1-pip-cpu",
    "tensorflow-2.1-src-cpu", "tensorflow-2.1-src-gpu", "pytorch-1.4-hub-cpu", "pytorch-1.4-pip-cpu",
    "pytorch-1.4-src-cpu", "pytorch-1.4-src-gpu", "mxnet-1.6-hub-cpu", "cntk-2.7-hub-cpu", "pytorch-1.4-glow-cpu",
    "tensorflow-1.14-ngraph-cpu",
}  # fmt: skip


def parts(definition: Definition) -> Iterator[tuple[str, str]]:
    """Yield file name and text of what is kept as golden; the lists of packages are the data that they come from."""
    for form, text in definition.texts.items():
        yield f"{definition.entry.name}{SUFFIX[form]}", text
    for name, text in definition.files.items():
        if not name.endswith(".txt"):
            yield f"{definition.entry.name}.{name}", text


@pytest.fixture(scope="module", params=sorted(IMAGES))
def definition(request: pytest.FixtureRequest) -> Definition:
    return define(IMAGES[request.param], IMAGES)


def test_the_definition_is_as_written_down(definition: Definition) -> None:
    for name, text in parts(definition):
        path = GOLDEN / name
        if os.environ.get("MODAK_WRITE_GOLDEN"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert path.read_text() == text, f"{path} differs"


def test_nothing_is_written_down_that_is_not_rendered() -> None:
    rendered = {name for entry in IMAGES.values() for name, _ in parts(define(entry, IMAGES))}
    assert {path.name for path in GOLDEN.iterdir()} == rendered


def test_the_paper_s_table_is_whole() -> None:
    assert set(IMAGES) >= TABLE_I
    assert {recipe.entry for recipe in load_recipes()} <= set(IMAGES)


@pytest.mark.parametrize("form", ["apptainer", "containerfile"])
def test_spython_reads_it(definition: Definition, form: str, tmp_path: Path) -> None:
    path = tmp_path / ("Dockerfile" if form == "containerfile" else "image.def")
    # spython knows one bootstrap agent; the base's file name stands for an image then.
    path.write_text(re.sub("^BootStrap: localimage$", "BootStrap: docker", definition.texts[form], flags=re.M))
    [stage] = get_parser("docker" if form == "containerfile" else "singularity")(str(path)).recipe.values()
    assert stage.fromHeader
    assert any("modak.digest" in str(label) for label in stage.labels)
    assert any("modak-test.py" in line for line in stage.install)


def shell_of(definition: Definition) -> Iterator[tuple[str, str]]:
    """Yield each piece of shell in the definition."""
    sections = re.split(r"^%(\w+)\n", definition.texts["apptainer"], flags=re.M)
    for name, text in zip(sections[1::2], sections[2::2], strict=True):
        if name in ("post", "test", "environment", "runscript"):
            yield f"%{name}", text
    for text in re.findall(r"^RUN (.*?[^\\])$", definition.texts["containerfile"], flags=re.M | re.S):
        yield "RUN", text
    for name, text in definition.files.items():
        if name.endswith(".sh"):
            yield name, text


def test_shellcheck_finds_nothing_in_any_section(definition: Definition) -> None:
    program = shutil.which("shellcheck")
    assert program, "shellcheck is needed: make setup installs it"
    for name, text in shell_of(definition):
        # SC1090: which files of variables a base has is known only in it.
        done = subprocess.run([program, "-s", "sh", "-e", "SC1090", "-"], input=text, capture_output=True, text=True)
        assert not done.returncode, f"{name}: {done.stdout}"


def test_the_test_program_is_python(definition: Definition) -> None:
    compile(definition.files["test.py"], "test.py", "exec", dont_inherit=True)


def test_nothing_is_piped_into_a_shell_or_taken_unchecked(definition: Definition) -> None:
    everything = "\n".join([*definition.texts.values(), *definition.files.values()])
    assert not re.search(r"(curl|wget)[^\n|]*\|", everything)
    assert "--no-check-certificate" not in everything
    assert "http://" not in everything
    fetch = definition.files.get("fetch.sh", "")
    assert fetch.count("wget ") == fetch.count("sha256sum -c")
    assert fetch.count("git fetch") == fetch.count("git rev-parse HEAD")
    for name in ("tools.txt", "requirements.txt"):
        if name in definition.files:
            lines = [line for line in definition.files[name].splitlines() if re.match(r"[A-Za-z]", line)]
            assert lines
            assert all(line.endswith("\\") and "==" in line for line in lines)


def test_flags_reach_every_build_system() -> None:
    bazel = define(IMAGES["tensorflow-2.1-src-cpu"], IMAGES).files["build.sh"]
    assert 'bazel build "$@" --config=opt --copt=-march=broadwell --copt=-mtune=broadwell' in bazel
    cmake = define(IMAGES["tvm-0.19-src-cpu"], IMAGES).texts["apptainer"]
    assert "CFLAGS='-march=x86-64-v3 -mtune=generic' CXXFLAGS='-march=x86-64-v3 -mtune=generic' cmake" in cmake
    assert "-DUSE_LLVM=" in cmake
    pip = define(IMAGES["numexpr-2.14-src-cpu"], IMAGES).files["build.sh"]
    assert "export CFLAGS='-O3 -march=x86-64-v3 -mtune=generic'" in pip


def test_an_image_is_made_over_for_a_processor_or_the_nearest_that_its_compiler_knows() -> None:
    entry = IMAGES["numexpr-2.14-src-cpu"]
    zen = for_microarchitecture(entry, "zen3", IMAGES)
    assert define(zen, IMAGES).labels["modak.flags"] == "-march=znver3 -mtune=znver3"
    assert define(zen, IMAGES).digest != define(entry, IMAGES).digest
    assert for_microarchitecture(entry, "x86_64_v3", IMAGES) == entry
    assert for_microarchitecture(IMAGES["tensorflow-2.1-src-cpu"], "zen5", IMAGES).microarchitecture == "x86_64_v4"
    with pytest.raises(InputError, match="only an opt-build"):
        for_microarchitecture(IMAGES["numexpr-2.14-pip-cpu"], "zen4", IMAGES)


def test_a_compiler_that_is_too_old_is_named_with_the_nearest_it_can_do() -> None:
    gcc = Compiler(name="gcc", version="7.5.0")
    with pytest.raises(
        InputError, match=r"gcc 7.5.0 cannot build for 'zen5': the nearest that it knows is 'x86_64_v4'"
    ):
        flags_for("zen5", gcc)
    assert nearest_supported("zen5", Compiler(name="gcc", version="14.2.0")) == "zen5"
    with pytest.raises(InputError, match="not a microarchitecture"):
        flags_for("pentium9", gcc)


def test_the_digest_follows_the_content() -> None:
    first = define(IMAGES["keras-3.15-pip-cpu"], IMAGES)
    assert define(IMAGES["keras-3.15-pip-cpu"], IMAGES).digest == first.digest
    changed_base = {**IMAGES, "debian12-cpu": IMAGES["debian12-cpu"].model_copy(update={"glibc": "2.37"})}
    assert define(IMAGES["keras-3.15-pip-cpu"], changed_base).digest != first.digest
    other = IMAGES["keras-3.15-pip-cpu"].model_copy(update={"labels": {"site": "mine"}})
    assert define(other, IMAGES).digest != first.digest


def test_labels_may_hold_what_shells_and_files_treat_specially() -> None:
    entry = IMAGES["keras-3.15-pip-cpu"].model_copy(update={"labels": {"site": 'a "b" $(id) `id` \\ $HOME'}})
    text = define(entry, IMAGES).texts["containerfile"]
    assert 'site="a \\"b\\" \\$(id) `id` \\\\ \\$HOME"' in text


def test_an_unknown_base_or_recipe_is_refused() -> None:
    entry = ImageEntry(name="x", source="pip", framework="keras", version="1", base="nowhere")
    with pytest.raises(InputError, match="no recipe"):
        define(entry, {})
    with pytest.raises(InputError, match="'nowhere', which the catalogue does not have"):
        define(IMAGES["keras-3.15-pip-cpu"].model_copy(update={"base": "nowhere"}), {})


def test_a_site_s_recipes_replace_the_shipped_ones_and_bring_their_files(tmp_path: Path) -> None:
    (tmp_path / "recipes.yaml").write_text(
        "version: 1\nrecipes:\n  - {entry: debian12-cpu, packages: [python3], compiler: {name: gcc, version: '12'}}\n"
    )
    shipped = load_recipes().folders
    recipes = Recipes([*shipped, tmp_path])
    assert recipes.get("debian12-cpu").packages == ["python3"]
    assert compiler_of(IMAGES["keras-3.15-pip-cpu"], IMAGES, recipes).version == "12"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("recipes: [{entry: a, packages: ['a; reboot']}]", "packages"),
        ("recipes: [{entry: a, build: b, cmake: {prefix: /x}}]", "two ways"),
        ("recipes: [{entry: a, lock: b}]", "belong together"),
        ("recipes: [{entry: a}, {entry: a}]", "two recipes for 'a'"),
        ("recipes: [{entry: a, source: {url: 'http://x/a.tar.gz', sha256: '0'}}]", "source"),
        ("recipes: [{entry: a, source: {repository: 'https://x/a.git', commit: main}}]", "source"),
    ],
)
def test_bad_recipes_are_refused_with_their_file(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "recipes.yaml").write_text(f"version: 1\n{text}\n")
    with pytest.raises(InputError, match=says) as caught:
        Recipes([tmp_path])
    assert str(tmp_path / "recipes.yaml") in str(caught.value)
