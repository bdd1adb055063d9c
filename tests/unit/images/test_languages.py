"""No text of a catalogue becomes a section or an instruction of a definition: see tests/data/images/injections.yaml."""

import re
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from injections import ATTACKS, LITERAL, Attack, documents, unchecked
from modak_deploy.catalogue.cli import app
from modak_deploy.catalogue.recipe import Recipe
from modak_deploy.errors import InputError
from modak_deploy.images.define import define
from modak_deploy.images.languages import LANGUAGES, Form

ORIGIN = "docker://docker.io/library/debian:12"


def write(folder: Path, attack: Attack) -> Path:
    """Write a site's catalogue with the attack; return the file that has it."""
    entry, recipe = documents(ORIGIN, "/nowhere", attack)
    (folder / "recipes").mkdir()
    images, recipes = folder / "images.yaml", folder / "recipes" / "recipes.yaml"
    images.write_text(yaml.safe_dump({"version": 1, "images": [entry]}, sort_keys=False))
    recipes.write_text(yaml.safe_dump({"version": 1, "recipes": [recipe]}, sort_keys=False))
    return recipes if attack.field.startswith("recipe.") else images


@pytest.mark.parametrize("attack", ATTACKS, ids=str)
def test_validate_names_file_and_line(attack: Attack, tmp_path: Path) -> None:
    path = write(tmp_path, attack)
    done = CliRunner().invoke(app, ["validate", str(tmp_path)])
    said = str(done.exception) if isinstance(done.exception, InputError) else done.output
    assert done.exit_code != 0
    assert attack.says in said
    assert re.search(rf"{re.escape(str(path))}:\d+: \S*{attack.section}", said), said
    assert not re.search(r"[^\n -~\u00a0-\u2027]", said), "no control character reaches the terminal"


@pytest.mark.parametrize("attack", ATTACKS, ids=str)
def test_what_no_model_has_checked_is_not_rendered(attack: Attack) -> None:
    entry, recipes = unchecked(*documents(ORIGIN, "/nowhere", attack))
    with pytest.raises(InputError, match=re.escape(attack.says)):
        define(entry, {}, recipes)


@pytest.mark.parametrize("form", sorted(LANGUAGES))
@pytest.mark.parametrize("text", ["a\n%setup", "a\nRUN x", "a\u2028%setup", "a\x85b", "\0", "{{ x }}", "a\ud800"])
def test_no_language_writes_what_it_would_read_otherwise(form: Form, text: str) -> None:
    for write_value in (LANGUAGES[form].label, LANGUAGES[form].variable):
        with pytest.raises(InputError, match="'site' contains"):
            write_value("site", text)


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("apptainer", "Bootstrap: docker\nFrom: x\n%setup\n"),
        ("apptainer", "Bootstrap: docker\nFrom: x\n  %pre\n"),
        ("apptainer", "Bootstrap: docker\nFrom: x\n%setup x\n"),
        ("apptainer", "Bootstrap: docker\nFrom: x\n%appinstall x\n"),
        ("apptainer", "Bootstrap: docker\nFrom: x\nBootstrap: localimage\n"),
        ("apptainer", "Bootstrap: docker\nFrom: x\n%labels\n a {{ b }}\n"),
        ("containerfile", "FROM x\nUSER me\n"),
        ("containerfile", "FROM x\nRUN a && \\\n  b\nADD http://x /\n"),
        ("containerfile", "FROM x\nFROM y\n"),
    ],
)
def test_a_definition_with_a_part_that_modak_never_writes_is_refused(form: Form, text: str) -> None:
    with pytest.raises(InputError, match=r"definition|Containerfile"):
        LANGUAGES[form].check(text)


def test_what_is_literal_stays_one_line() -> None:
    for text in LITERAL:
        entry, recipe = documents(ORIGIN, "/nowhere", Attack("labels.site", text, ""))
        Recipe.model_validate({**recipe, "environment": {"A": text}})
        model, recipes = unchecked(entry, {**recipe, "environment": {"A": text}})
        texts = define(model, {}, recipes).texts
        assert f"    site {text.replace('SENTINEL', '/nowhere')}".rstrip() in texts["apptainer"].split("\n")


def test_variables_of_the_base_stay_alive_and_nothing_else() -> None:
    text = "$HOME:${PATH}:$(id):${X:-$(id)}:$1:$"
    for language in LANGUAGES.values():
        assert language.variable("A", text) == '"$HOME:${PATH}:\\$(id):\\${X:-\\$(id)}:\\$1:\\$"'
