"""From a Plan, or an image's build, to the job that is submitted."""

from pathlib import Path
from typing import Any

import pytest

from jobplans import plan
from modak_deploy.catalogue.catalogue import load_catalogue
from modak_deploy.errors import InputError
from modak_deploy.images.build import make_build
from modak_deploy.images.pin import definition_for
from modak_deploy.jobrequest import job_request
from modak_deploy.jobs.files import document_uploads, paths_of
from modak_deploy.model.plan import Plan
from modak_deploy.model.request import JobOptions
from modak_deploy.model.target import Target


def with_chosen(made: Plan, **changes: Any) -> Plan:
    return made.model_copy(update={"chosen": made.chosen.model_copy(update=changes)})


def test_the_job_of_a_plan_has_its_name_tag_and_document(tmp_path: Path) -> None:
    made = plan(["true", "a b"], tmp_path, environment={"A": "1"}, outputs=["out"])
    request = job_request(made)
    assert (request.name, request.tag, request.argv, request.outputs) == ("probe", made.tag(), ["true", "a b"], ["out"])
    assert [upload.read() for upload in document_uploads(request)] == [made.to_json().encode()]


def test_a_document_describes_the_same_job_for_another_reason_alone(tmp_path: Path) -> None:
    made = plan(["true"], tmp_path)
    document = job_request(made).document
    assert document is not None
    assert document.describes(made.model_copy(update={"reason": "it is new"}).to_json().encode())
    assert not document.describes(plan(["false"], tmp_path).to_json().encode())
    assert not document.describes(b"{}")


def test_a_sites_launcher_travels_as_a_program(tmp_path: Path) -> None:
    request = job_request(with_chosen(plan(["true"], tmp_path), launcher="wrap.py", launcher_text="# ours\n"))
    assert dict(request.programs) == {"launchers/wrap.py": b"# ours\n"}
    assert paths_of(request) == ["work/launchers/wrap.py"]


@pytest.mark.parametrize("name", ["absent.py", "../import_first.py", ".hidden"])
def test_a_launcher_that_modak_does_not_ship_is_an_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="is not one that modak ships"):
        job_request(with_chosen(plan(["true"], tmp_path), launcher=name))


def test_the_build_of_an_image_is_the_same_job_for_all_who_want_it(tmp_path: Path) -> None:
    definition = definition_for("debian12-cpu", load_catalogue().images, resolved=False)

    def tag(folder: str, **job: Any) -> str:
        target = Target(name="here", workspace="/space")
        return make_build(definition, target, tmp_path / folder, wheels=False, job=JobOptions(**job)).request.tag

    assert tag("a") == tag("b") == tag("c", array="1-3")
    assert tag("d", account="other") != tag("a")
    request = make_build(definition, Target(name="here"), tmp_path / "e", wheels=False).request
    assert request.document is None
    assert request.argv[:2] == ["sh", "build.sh"]
