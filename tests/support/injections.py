"""Attacks on definitions of images, from tests/data/images/injections.yaml, as entries and recipes of a catalogue."""

from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from modak_deploy.catalogue.recipe import Recipe, Recipes
from modak_deploy.catalogue.recipefiles import DATA
from modak_deploy.model.image import ImageEntry

TABLE = yaml.safe_load(Path("tests/data/images/injections.yaml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Attack:
    """A text where it must not be."""

    field: str
    text: Any
    says: str

    @property
    def section(self) -> str:
        """The field's first key."""
        return self.field.removeprefix("recipe.").partition(".")[0]


ATTACKS = [Attack(**row) for row in TABLE["refused"]]
LITERAL: list[str] = TABLE["literal"]


def documents(origin: str, sentinel: str, *attacks: Attack) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return an image and its recipe as plain data, with the attacks in them."""
    entry: dict[str, Any] = {
        "name": "evil", "source": "base", "origin": origin, "distribution": "debian12", "framework": "keras",
        "version": "1.0", "accelerator": "nvidia", "toolkit": "12.0", "packages": {}, "labels": {"first": "label"},
    }  # fmt: skip
    recipe: dict[str, Any] = {"entry": "evil", "environment": {}, "values": {}}
    for attack in attacks:
        document = recipe if attack.field.startswith("recipe.") else entry
        section, dot, key = attack.field.removeprefix("recipe.").partition(".")
        text = _aimed(attack.text, sentinel)
        if dot:
            document[section] = {**document[section], _aimed(key, sentinel): text}
        else:
            document[section] = text
    return entry, recipe


def unchecked(entry: dict[str, Any], recipe: dict[str, Any]) -> tuple[ImageEntry, Recipes]:
    """Return the image and the shipped recipes with its own, as no model would let them pass."""
    recipes = Recipes([DATA])
    plain = Recipe.model_validate({"entry": "evil"})
    recipes._recipes["evil"] = plain.model_copy(update=deepcopy(recipe))
    model = ImageEntry.model_validate({"name": "evil", "source": "base", "origin": "docker://docker.io/library/x:1"})
    return model.model_copy(update=deepcopy(entry)), recipes


def _aimed(value: Any, sentinel: str) -> Any:
    if isinstance(value, str):
        return value.replace("SENTINEL", sentinel)
    if isinstance(value, list):
        return [_aimed(item, sentinel) for item in value]
    if isinstance(value, dict):
        return {key: _aimed(item, sentinel) for key, item in value.items()}
    return value
