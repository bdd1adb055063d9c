"""Templates of build scripts come with a document's catalogue: they run nothing, and end soon."""

from pathlib import Path

import pytest

from modak_deploy.catalogue.catalogue import load_catalogue
from modak_deploy.catalogue.recipe import recipes_of
from modak_deploy.errors import InputError
from modak_deploy.images.define import define

IMAGE = "version: 1\nimages: [{name: mine, source: base, origin: 'docker://docker.io/library/debian:12'}]\n"
PROGRAM = "{name: p, url: 'https://example.org/p', sha256: '" + "0" * 64 + "'}"
RECIPE = f"version: 1\nrecipes: [{{entry: mine, build: mine, values: {{a: x y, b: z}}, programs: [{PROGRAM}]}}]\n"


def script(folder: Path, template: str | bytes, recipe: str = RECIPE) -> str:
    """Return the build script of an image in the catalogue ``folder``."""
    (folder / "recipes" / "build").mkdir(parents=True)
    (folder / "images.yaml").write_text(IMAGE)
    (folder / "recipes" / "recipes.yaml").write_text(recipe)
    data = template.encode() if isinstance(template, str) else template
    (folder / "recipes" / "build" / "mine.sh.j2").write_bytes(data)
    catalogue = load_catalogue([folder])
    return define(catalogue.images["mine"], catalogue.images, recipes_of(catalogue)).files["build.sh"]


@pytest.mark.parametrize(
    "expression",
    [
        "cycler.__init__.__globals__.os.system('touch {}')",
        "values.__class__.__base__.__subclasses__()",
        "values['__class__']",
        "programs[0].__init__.__globals__",
        "self.__init__",
        "''|attr('__class__')",
    ],
)
def test_a_template_runs_nothing(tmp_path: Path, expression: str) -> None:
    with pytest.raises(InputError, match=r"mine\.sh\.j2"):
        script(tmp_path / "site", "{{ " + expression.replace("{}", str(tmp_path / "ran")) + " }}")
    assert not (tmp_path / "ran").exists()


def test_conditions_loops_and_filters_are_supported(tmp_path: Path) -> None:
    template = (
        "{% for name in values if name != 'b' %}\necho {{ ('-' ~ values[name]) | quote }} {{ loop.index }}\n"
        "{% endfor %}\n"
        "{% for program in programs %}\nls {{ program.name | upper }}{{ values.c | default('') }}\n{% endfor %}\n"
        "{% if accelerator is none and toolkit not in ['x'] %}\ntrue\n{% endif %}\n"
    )
    assert script(tmp_path, template) == "#!/bin/sh\nset -eu\necho '-x y' 1\nls P\ntrue\n"


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("\n{% for a in range(10**9) %}{% endfor %}", ":2: a loop .* goes over 'programs' or 'values'"),
        (
            "{% for a in values %}{% if a %}{% for b in a %}{% endfor %}{% endif %}{% endfor %}",
            ":1: a loop within",
        ),
        ("{{ 'x' * 10**10 }}", ":1: 'Mul' is not supported"),
        ("{{ '%9999999999d' % 1 }}", ":1: 'Mod' is not supported"),
        ("{% if '%800000000d' is divisibleby 1 %}{% endif %}", ": .*No test named 'divisibleby'"),
        ("{{x" + "|d" * 195 + "}}", ":1: more than 20 levels are not supported"),
        ("{{ '\\ud800' }}", ": the template cannot be filled: "),
        ("{% set a = values.a %}", ":1: 'Assign' is not supported"),
        ("{% macro f() %}{% endmacro %}", ":1: 'Macro' is not supported"),
        ("{{ values.a | center(10000000000) }}", ":1: .*No filter named 'center'"),
        ("{{ values.a | quote | trim | quote }}", ":1: a value is quoted twice"),
        ("{% include '/etc/passwd' %}", ":1: 'Include' is not supported"),
        ("{{ values.missing }}", ": the template cannot be filled: .*'missing'"),
        ("\n{% if", ":2: the template cannot be filled"),
        ("{{ 1 < values.a }}", ": the template cannot be filled: '<' not supported"),
        ("{{ " + "9" * 5000 + " }}", ": the template cannot be filled: Exceeds the limit"),
        ("{{ " + "[" * 2000 + "]" * 2000 + " }}", ": the template cannot be filled"),
        ("x" * 9000, ": the template has more than 8192 characters"),
        (b"\xff", ":1: this is not UTF-8 text"),
    ],
)
def test_what_is_endless_or_faulty_is_one_message(tmp_path: Path, template: str | bytes, says: str) -> None:
    with pytest.raises(InputError, match=r"mine\.sh\.j2" + says):
        script(tmp_path, template)


def test_files_of_recipes_are_bounded(tmp_path: Path) -> None:
    (tmp_path / "recipes" / "build").mkdir(parents=True)
    (tmp_path / "images.yaml").write_text(IMAGE)
    with (tmp_path / "recipes" / "build" / "big.sh.j2").open("wb") as file:
        file.truncate(65 * 1024**2)
    with pytest.raises(InputError, match="larger than 64 MiB"):
        _ = load_catalogue([tmp_path]).version


def test_values_and_script_are_bounded(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="values have more than 8192 characters"):
        script(tmp_path / "values", "", RECIPE.replace("x y", "x" * 9000))
    with pytest.raises(InputError, match="script has more than 65536 bytes"):
        script(tmp_path / "script", "{{ values.a }}" * 20, RECIPE.replace("x y", "x" * 5000))
