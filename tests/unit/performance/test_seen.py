"""What was seen of a running model completes a workload of which the document says nothing."""

import pytest

from lawful import measured
from modak_deploy.catalogue import load_catalogue
from modak_deploy.model.application import Workload
from modak_deploy.model.measurement import Configuration
from modak_deploy.performance.features import Case, features
from modak_deploy.performance.matching import Work
from modak_deploy.performance.seen import completed

RECORD = measured(1).records[0]


def record(date, mix=None, type_="ai_training", **workload):
    plain = Workload.model_validate({"model": "net", "unit": "step", **workload})
    provenance = RECORD.provenance.model_copy(update={"date": date})
    update = {"workload": plain, "mix": mix, "provenance": provenance, "type": type_, "framework": "pytorch"}
    return RECORD.model_copy(update=update)


def work(**workload):
    return Work("ai_training", "pytorch", Workload.model_validate({"model": "net", "unit": "step", **workload}),
                None, None, None, None, 0)  # fmt: skip


OLD = record("2026-01-01", {"dense": 1.0}, parameters=5, flops_per_sample=10.0, batch=4, samples=4)
NEW = record("2026-02-01", {"convolution": 1.0}, parameters=7, flops_per_sample=20.0)
CALLS = record("2026-03-01", {"attention": 1.0}, "ai_inference", parameters=8, flops_per_sample=5.0)


def test_the_latest_record_of_the_same_kind_completes_the_workload():
    found, mix = completed(work(), [OLD, NEW, CALLS])
    assert (found.parameters, found.flops_per_sample, found.batch, found.samples) == (7, 20.0, 4, 4)
    assert mix == {"convolution": 1.0}


def test_what_the_document_says_stays_and_samples_of_another_batch_are_not_taken():
    found, _ = completed(work(parameters=9, batch=2), [OLD, NEW])
    assert (found.parameters, found.batch, found.samples, found.flops_per_sample) == (9, 2, None, 20.0)


@pytest.mark.parametrize("other", [{"unit": "epoch"}, {"dataset": "another"}])
def test_samples_of_another_unit_or_of_other_data_are_not_taken(other):
    found, _ = completed(work(**other), [OLD, NEW])
    assert (found.parameters, found.batch, found.samples) == (7, None, None)


def test_nothing_seen_changes_nothing():
    assert completed(work(), []) == (work().workload, None)


def test_a_model_can_be_fitted_to_what_was_seen_alone():
    """Of a network that no catalogue knows, and of which the document says nothing."""
    catalogue = load_catalogue()
    case = Case("ai_training", "pytorch", work().workload, RECORD.hardware, Configuration())
    assert features(case, catalogue) is None
    seen, mix = completed(work(), [NEW])
    inputs = features(Case("ai_training", "pytorch", seen, RECORD.hardware, Configuration(), mix), catalogue)
    assert inputs is not None and inputs["runs:pytorch x convolution"] == 0.5
    assert inputs["flops"] == pytest.approx(2.9957, abs=0.001)
