"""Variants that are tried on the first rows of a batch, with real PyTorch; a call's time follows from its rows."""

import pytest

from modak_deploy.launch.frameworks.pytorch import calls as calls_module
from modak_deploy.launch.frameworks.pytorch import inference

BF16, AUTOCAST = "pytorch-bf16-weights", "pytorch-autocast-bf16"
BATCH, ROWS = 16, 2


class Clock:
    """Goes on as modules are called: a second for a whole batch in single precision."""

    now = 0.0
    bf16 = 0.25
    seen: list = []

    @classmethod
    def spend(cls, module, rows, single):
        """Note a call; a forward that did so itself would be seen to change what its code names."""
        cls.seen.append((id(module), rows, single))
        cls.now += (1.0 if single else cls.bf16) * rows / BATCH


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    Clock.now, Clock.bf16 = 0.0, 0.25
    monkeypatch.setattr(inference.Inference, "now", lambda self, search: Clock.now)


@pytest.fixture(scope="module")
def net(torch):
    """Return the class of a module that tells who called it with how many rows."""

    class Net(torch.nn.Module):
        def __init__(self, kind="plain"):
            super().__init__()
            torch.manual_seed(0)
            self.layer = torch.nn.Linear(8, 4)
            self.kind = kind
            self.calls = []
            self.count = 0
            self.masks = {}

        def forward(self, values, table=None, **more):
            single = self.layer.weight.dtype == torch.float32
            rows = values.shape[0]
            Clock.spend(self, rows, single)
            return self.finish(values, table, self.layer(values), rows, single)

        def finish(self, values, table, scores, rows, single):
            if self.kind == "mean over the batch":
                return scores - scores.mean(0)
            if self.kind == "one mean":
                return scores.mean(0)
            if self.kind == "mapping":
                return {"scores": scores, "more": [scores * 2]}
            if self.kind == "generator":
                return (score for score in scores)
            if self.kind == "counts":
                self.count += 1
            if self.kind == "table":
                return scores + table.sum()
            if self.kind == "cache by rows":
                self.masks.setdefault(rows, len(self.masks))
            if self.kind == "fails on a part" and rows < BATCH:
                raise RuntimeError("rows must be 16")
            if self.kind == "nan on the whole" and not single and rows == BATCH:
                return scores * float("nan")
            if self.kind == "nan on a part" and not single and rows < BATCH:
                return scores * float("nan")
            if self.kind == "other shape on the whole" and not single and rows == BATCH:
                return scores[:, :2]
            if self.kind == "wrong after the part" and not single:
                return torch.cat([scores[:ROWS], scores[ROWS:] + 10])
            return scores

    Clock.seen = []
    return Net


@pytest.fixture
def follow(torch, net, session_of):
    """Return a followed module, what runs it, and its record."""

    def make(kind="plain", units=23, rows=BATCH, candidates=(BF16,), **options):
        options.setdefault("share", 0.03)
        model = net(kind).eval()
        session = session_of(numerics="relaxed", units=units, candidates=list(candidates), **options)
        calls_module.Calls(session, torch, model)
        torch.manual_seed(1)
        values = torch.randn(rows, 8)
        Clock.seen.clear()

        def run(calls=units, **more):
            with torch.inference_mode():
                return [model(values, **more) for _ in range(calls)]

        return model, run, session.record

    return make


def best(record):
    return record.of("settled")[-1]["variant"]


def test_in_a_short_job_of_long_units_a_faster_variant_is_found(follow, net):
    model, run, record = follow()
    results = run()
    assert best(record) == BF16
    assert Clock.now < 17
    (probe,) = record.of("probe")
    assert (probe["rows"], probe["batch"], probe["problem"]) == (ROWS, BATCH, None)
    assert 0 < probe["difference"] < 0.05
    # The program's own module never sees a part, and the whole was compared after all.
    assert {rows for which, rows, _ in Clock.seen if which == id(model)} == {BATCH}
    assert sum(rows == BATCH for _, rows, _ in Clock.seen) == 23 + 1
    assert all(result.shape == (BATCH, 4) for result in results)


def test_without_a_batch_it_is_told_that_nothing_could_be_tried(follow):
    _, run, record = follow(rows=2)
    run()
    assert not record.of("trial") and not record.of("probe")
    (left,) = record.of("not_tried")
    assert left["lever"] == BF16 and "may lose 0.25 s, and trials may lose 0.0862 s" in left["reason"]
    assert "nothing could be tried: a unit takes 0.125 s and trials may lose" in record.of("settled")[0]["reason"]


@pytest.mark.parametrize("slower", [1.0, 1.1, 1.5, 3.0])
@pytest.mark.parametrize("units", [10, 23, 60])
def test_where_nothing_is_faster_at_most_the_share_is_lost(follow, slower, units):
    Clock.bf16 = slower
    _, run, record = follow(units=units)
    run()
    assert record.of("probe") or units == 10
    assert not any(entry["kept"] for entry in record.of("trial"))
    # Three times is more than the lever declares: the part itself may go beyond by that.
    assert Clock.now <= units * 1.03 + max(0.0, slower - 2) * ROWS / BATCH


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("mean over the batch", "the result differs by"),
        ("one mean", "no row for each row"),
        ("fails on a part", "rows must be 16"),
        ("nan on a part", "not finite"),
    ],
)
def test_what_does_not_fit_on_a_part_is_compared_on_the_whole_or_not_tried(follow, net, kind, problem):
    _, run, record = follow(kind)
    run()
    assert problem in record.of("probe")[0]["problem"]
    assert not record.of("trial")
    assert record.of("not_tried")[0]["lever"] == BF16
    assert {single for _, rows, single in Clock.seen if rows == BATCH} == {True}
    assert best(record) == "default"
    _, run, record = follow(kind, units=400)
    run(100)
    assert problem in record.of("probe")[0]["problem"] and len(record.of("probe")) == 1
    assert best(record) == BF16


@pytest.mark.parametrize(
    ("kind", "reason"),
    [("counts", "changes the module's state"), ("generator", "the result cannot be looked into")],
)
def test_a_module_with_state_or_unknown_results_is_left_alone(follow, kind, reason):
    model, run, record = follow(kind)
    run()
    assert reason in record.of("no_trials")[0]["reason"]
    assert not record.of("probe")
    assert model.count in (0, 23)


def test_a_module_whose_state_follows_from_the_rows_is_left_alone(follow):
    model, run, record = follow("cache by rows")
    model.masks[BATCH] = 0
    run()
    assert "with a part of the arguments changes" in record.of("no_trials")[0]["reason"]
    assert best(record) == "default"


@pytest.mark.parametrize("kind", ["mapping", "plain"])
def test_levers_that_copy_nothing_are_tried_on_a_copy(follow, net, kind):
    model, run, record = follow(kind, candidates=[AUTOCAST])
    run()
    assert record.of("probe")[0]["problem"] is None
    assert {rows for which, rows, _ in Clock.seen if which == id(model)} == {BATCH}
    assert ROWS in {rows for which, rows, _ in Clock.seen if which != id(model)}


@pytest.mark.parametrize(("rows", "probes"), [(5, 0), (1, 1), (BATCH, 1)])
def test_a_second_input_of_another_length_has_no_part(follow, torch, rows, probes):
    _, run, record = follow("table")
    run(table=torch.full((rows, 3), 0.1))
    assert len(record.of("probe")) == probes
    # A table of as many rows as the batch is cut as well: its sum is another one, and the variant is not tried.
    assert best(record) == (BF16 if rows == 1 else "default")


@pytest.mark.parametrize(
    ("kind", "reason"),
    [("nan on the whole", "not finite"), ("other shape on the whole", "another shape")],
)
def test_a_whole_that_cannot_be_right_never_reaches_the_program(follow, torch, kind, reason):
    _, run, record = follow(kind)
    results = run()
    assert record.of("probe")[0]["problem"] is None
    assert reason in record.of("fallback")[0]["reason"]
    assert best(record) == "default"
    assert all(torch.equal(result, results[0]) for result in results)


def test_a_winner_that_is_wrong_beyond_the_part_is_given_up_at_once(follow, torch):
    _, run, record = follow("wrong after the part", units=60, candidates=[BF16, AUTOCAST])
    results = run()
    assert record.of("trial")[0]["kept"]
    assert "the result differs by" in record.of("fallback")[0]["reason"]
    assert best(record) == "default"
    wrong = [number for number, result in enumerate(results) if not torch.allclose(result, results[0], atol=0.1)]
    assert len(wrong) <= 4, "units of its measurement only"
    assert len(record.of("probe")) == 1  # no part of this module is trusted any more


def test_weights_that_change_between_the_part_and_its_use_are_compared_again(follow, torch):
    model, run, record = follow(units=60)
    for _ in range(60):
        if not record.of("probe"):
            run(1)
    with torch.no_grad():
        model.layer.weight.mul_(3)
    results = run(40)
    assert record.of("weights_changed")
    assert len(record.of("probe")) == 2
    assert best(record) == BF16
    assert all(torch.allclose(result, results[0], rtol=0.05, atol=0.1) for result in results)
