"""Every field that a user may write or read is described, and the description is the docstring below it."""

import pytest

from modak_deploy.catalogue.hardware import HardwareFile, WorkloadFile
from modak_deploy.catalogue.imagefile import ImageFile
from modak_deploy.catalogue.lever import LeverFile
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.descriptions import describe
from modak_deploy.model.measurement import Measurement
from modak_deploy.model.plan import Plan
from modak_deploy.model.target import Facts


@pytest.mark.parametrize(
    "model", [Deployment, Plan, Facts, Measurement, LeverFile, ImageFile, HardwareFile, WorkloadFile]
)
def test_the_schema_describes_its_fields(model):
    schema = model.model_json_schema()
    described = [
        "description" in entry
        for definition in (schema, *schema.get("$defs", {}).values())
        for entry in definition.get("properties", {}).values()
    ]
    assert sum(described) / len(described) > 0.4


def test_the_description_is_the_docstring_below_the_field():
    describe(Plan)
    assert (
        Plan.model_fields["inputs"].description
        == "Hash of what was asked of this target: application, target, request, job, sources."
    )
    properties = Plan.model_json_schema()["$defs"]["Prediction"]["properties"]
    assert properties["steady"]["description"] == "Seconds per unit."
