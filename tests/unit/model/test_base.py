"""The base of all models."""

from modak_deploy.model.measurement import Run


def test_a_copy_has_nothing_that_was_derived_of_other_values() -> None:
    run = Run(total=4.0, first=1.5, later=[1.0])
    assert run.start == 1.5
    assert run.model_copy(update={"total": 5.0}).start == 2.5
    assert run.model_copy() == run
