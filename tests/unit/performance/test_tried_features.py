"""What the launcher saw of the running model becomes part of the measurements."""

import pytest

from modak_deploy.performance.records import Table
from tried_parts import COUNTED, LAST, plan

SEEN = {
    "model": "Net", "parameters": 276, "layers": 2, "batch": 16, "flops": 5e5, "flops_per_sample": 31250.0,
    "bytes_per_sample": 4000.0, "mix_convolution": 0.9, "mix_dense": 0.1, "device": "cpu",
}  # fmt: skip


def with_features(made, features, **change):
    tuning = {"processes": 1, "counted": [{**COUNTED, "features": features}], "trials": [LAST], "levers": []}
    return {"tuning": tuning, **change}


def test_what_the_launcher_saw_of_the_model_is_measured_too(records):
    found = records([LAST], number=40, **with_features(plan(), SEEN))
    for record in found:
        workload = record.workload
        assert (workload.parameters, workload.layers, workload.batch) == (276, 2, 16)
        # Two digits: another job whose sequences differ a little does the same work.
        assert (workload.flops_per_sample, workload.bytes_per_sample, workload.samples) == (31000.0, 4000.0, 16)
        assert record.mix == {"convolution": 0.9, "dense": 0.1}
    # The same document, which says nothing of them, is still the same work.
    assert plan(Table(found)).prediction.basis == "trial"


@pytest.mark.parametrize(
    "change",
    [
        {"parameters": -1},
        {"parameters": "many"},
        {"parameters": 2.5},
        {"flops_per_sample": 0.0},
        {"flops_per_sample": 5e-324},
        {"bytes_per_sample": 1e29},
        {"layers": 10**7},
        {"batch": 10**15},
    ],
)
def test_impossible_features_count_as_not_seen(records, change):
    (first, *_) = records([LAST], number=50, **with_features(plan(), {**SEEN, **change}))
    (name,) = change
    assert getattr(first.workload, name) is None


def test_ranks_have_a_batch_of_their_own(records):
    (first, *_) = records([LAST], number=45, **with_features(plan(), {**SEEN, "ranks": 4}))
    assert (first.workload.batch, first.workload.samples) == (64, 64)


@pytest.mark.parametrize("mix", [{"mix_convolution": 0.2, "mix_dense": 0.1}, {"mix_dense": 7.0}, {"mix_dense": "all"}])
def test_shares_that_are_none_are_not_recorded(records, mix):
    features = {name: value for name, value in SEEN.items() if not name.startswith("mix_")}
    (first, *_) = records([LAST], number=60, **with_features(plan(), {**features, **mix}))
    assert first.mix is None and first.workload.parameters == 276
