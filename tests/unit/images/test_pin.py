from collections.abc import Callable
from types import SimpleNamespace

import pytest

import modak_deploy.images.pin
from modak_deploy.catalogue.catalogue import load_catalogue
from modak_deploy.catalogue.recipe import Recipe, Recipes
from modak_deploy.catalogue.recipefiles import DATA
from modak_deploy.containers.location import pin
from modak_deploy.errors import InputError, TargetError
from modak_deploy.images.pin import Unavailable, definition_for, registry_of, resolved
from modak_deploy.model.plan import Plan
from modak_deploy.model.reference import Reference

IMAGES = load_catalogue().images
DIGEST = "sha256:" + "0123456789abcdef" * 4
CIRCLE = {"debian12-mpich": "debian12-openmpi", "debian12-openmpi": "debian12-mpich"}
HUB = {"reference": "docker://tensorflow/tensorflow:2.1.0"}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the registry is asked for; hosts with 'gone' in their name do not answer."""
    seen: list[str] = []

    def resolve(reference: Reference, architecture: str = "amd64", login: object = None) -> SimpleNamespace:
        seen.append(str(reference))
        if "gone" in reference.registry:
            raise TargetError(f"the registry {reference.registry} cannot be reached: no answer in time")
        return SimpleNamespace(digest=DIGEST, reference=reference.pinned(DIGEST))

    monkeypatch.setattr(modak_deploy.images.pin, "resolve", resolve)
    return seen


def test_a_native_plan_and_a_pinned_one_ask_nobody(make_plan: Callable[..., Plan], asked: list[str]) -> None:
    for plan in (make_plan({"runtime": "native", "image": None}), make_plan()):
        assert resolved(plan, IMAGES) is plan.chosen.image
    assert asked == []


def test_a_tag_becomes_a_digest(make_plan: Callable[..., Plan], asked: list[str]) -> None:
    image = resolved(make_plan({"image": HUB}), IMAGES)
    assert image is not None
    assert image.digest == DIGEST
    assert asked == ["docker://docker.io/tensorflow/tensorflow:2.1.0"]


def test_an_image_to_build_gets_the_digest_of_its_definition_on_a_pinned_base(
    make_plan: Callable[..., Plan], asked: list[str]
) -> None:
    chosen = {"image": {"reference": "build://numexpr-2.14-src-cpu"}}
    facts = {"node": {"microarchitecture": "zen3"}}
    image = resolved(make_plan(chosen, facts=facts), IMAGES)
    assert image is not None
    definition = definition_for("numexpr-2.14-src-cpu", IMAGES, "zen3")
    assert image.digest == definition.digest
    assert image.labels == {"modak.digest": definition.digest}
    assert definition.base is not None
    assert f"From: docker.io/library/debian@{DIGEST}" in definition.base.texts["apptainer"]
    assert definition.digest != definition_for("numexpr-2.14-src-cpu", IMAGES, "zen2").digest


def test_what_an_image_is_built_on_is_compiled_for_the_same_processor(asked: list[str]) -> None:
    definition = definition_for("pytorch-1.4-glow-cpu", IMAGES, "zen")
    assert definition.base is not None
    assert {definition.labels["modak.flags"], definition.base.labels["modak.flags"]} == {"-march=znver1 -mtune=znver1"}


def test_images_that_are_built_on_each_other_are_refused() -> None:
    circle = {name: IMAGES[name].model_copy(update={"base": base}) for name, base in CIRCLE.items()}
    with pytest.raises(InputError, match="the image 'debian12-mpich' is built on itself"):
        definition_for("debian12-mpich", circle)


def test_an_image_that_is_not_available_is_named_with_the_reason(
    make_plan: Callable[..., Plan], asked: list[str]
) -> None:
    with pytest.raises(Unavailable) as caught:
        resolved(make_plan({"image": {"reference": "docker://gone.example.org/a:1", "entry": "a"}}), IMAGES)
    assert caught.value.is_silence
    message = "the image 'a' is not available: the registry gone.example.org cannot be reached: no answer in time"
    assert str(caught.value.error()) == message


@pytest.mark.parametrize(
    ("name", "registry"),
    [
        ("tensorflow-1.14-hub-cpu", "docker.io"),
        ("numexpr-2.14-src-cpu", "docker.io"),
    ],
)
def test_the_registry_that_an_image_depends_on(name: str, registry: str) -> None:
    assert registry_of(IMAGES[name], IMAGES) == registry
    resolved = {**IMAGES, name: IMAGES[name].model_copy(update={"digest": DIGEST, "base": None, "origin": None})}
    assert registry_of(resolved[name], resolved) is None


def test_a_file_s_digest_must_be_given_where_no_target_can_be_asked(make_plan: Callable[..., Plan]) -> None:
    with pytest.raises(Unavailable, match="give it, as sha256sum prints it"):
        resolved(make_plan({"image": {"reference": "/images/a.sif"}}), IMAGES)


def test_an_index_named_by_its_digest_stays_the_one(make_plan: Callable[..., Plan], asked: list[str]) -> None:
    """The registry's answer is the variant for the processor, another digest, which the reference does not name."""
    index = "sha256:" + "a" * 64
    image = resolved(make_plan({"image": {"reference": f"docker://r.example.org/app@{index}"}}), IMAGES)
    assert image is not None
    assert image.digest == index
    assert pin(image).digest == index


def test_a_published_image_that_another_is_built_on_is_pinned(asked: list[str]) -> None:
    hub = IMAGES["tensorflow-2.19-hub-cpu"]
    images = {**IMAGES, "mine": IMAGES["numexpr-2.14-pip-cpu"].model_copy(update={"name": "mine", "base": hub.name})}
    recipes = Recipes([DATA])
    recipes._recipes["mine"] = Recipe(entry="mine", packages=["hello"])
    definition = definition_for("mine", images, recipes=recipes)
    assert definition.base is not None
    assert f"From: docker.io/tensorflow/tensorflow@{DIGEST}" in definition.base.texts["apptainer"]
    assert asked == ["docker://docker.io/tensorflow/tensorflow:2.19.0"]
    images[hub.name] = hub.model_copy(update={"digest": "sha256:" + "b" * 64})
    assert definition_for("mine", images, recipes=recipes).digest != definition.digest
    assert len(asked) == 1
