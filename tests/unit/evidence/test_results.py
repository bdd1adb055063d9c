"""What counts as a wrong result of a configuration, and what is none."""

import json
import time

import pytest

from evidence_parts import drive
from modak_deploy.evidence.driver import runs
from modak_deploy.evidence.driver.results import Reference
from modak_deploy.evidence.driver.runs import Run
from modak_deploy.evidence.protocol import gain, outcomes, read_repeats


def results(folder, outputs):
    """Return the results of a run that wrote these texts; metrics are given as what their file holds."""
    settings = {"outputs": ["out.txt", "logs"], "metrics": "metrics.json", "first_key": "first", "later_key": "later"}
    work = folder / "work"
    work.mkdir(parents=True)
    for name, text in outputs.items():
        (work / name).parent.mkdir(exist_ok=True)
        (work / name).write_text(text)
    return Run(settings, {}, str(folder)).results()


def reference_of(folder, *defaults):
    reference = Reference(1e-4)
    for number, outputs in enumerate(defaults):
        reference.learn(results(folder / f"default{number}", outputs))
    return reference


def table(values):
    return "id,label\n" + "".join(f"{10_000_000 + row},{value}\n" for row, value in enumerate(values))


METRICS = [
    ({"test": {"accuracy": 0.9}}, {"test": {"accuracy": 0.1}}),
    ({"loss": [0.5, 0.2]}, {"loss": [0.5, 0.9]}),
    ({"layers": [{"norm": 1.0}, {"norm": 2.0}]}, {"layers": [{"norm": 1.0}, {"norm": 7.0}]}),
    *(
        ({name: 0.05}, {name: 0.9})
        for name in ("word_error_rate", "falsePositiveRate", "validated_accuracy", "sentiment_loss", "loss_per_sample",
                     "pathology_auc", "learning_rate")
    ),
]  # fmt: skip


@pytest.mark.parametrize("right, wrong", METRICS)
def test_wrong_metrics_are_refused(tmp_path, right, wrong):
    right, wrong = ({"metrics.json": json.dumps(metrics)} for metrics in (right, wrong))
    reference = reference_of(tmp_path, right, right)
    assert reference.fault(results(tmp_path / "same", right)) is None
    assert "differs from the default's" in reference.fault(results(tmp_path / "other", wrong))


TEXTS = [
    ("samples 60000, accuracy 0.98\n", "samples 60000, accuracy 0.1\n"),
    ('{"samples": 60000, "accuracy": 0.98}', '{"samples": 60000, "accuracy": 0.1}'),
    ('{"seen": 60000,\n "loss": [\n  0.5,\n  0.25\n ]}', '{"seen": 60000,\n "loss": [\n  0.5,\n  0.75\n ]}'),
    (table(row % 10 for row in range(50)), table(0 for _ in range(50))),
    ("1000000 0.5\n1000001 0.25\n", "1000000 0.5\n1000001 0.75\n"),
    ("# of 60000\nscore: 0.5\n", "# of 60000\nscore: 0.75\n"),
]


@pytest.mark.parametrize("right, wrong", TEXTS)
def test_a_large_number_beside_a_wrong_one_does_not_hide_it(tmp_path, right, wrong):
    reference = reference_of(tmp_path, {"out.txt": right}, {"out.txt": right})
    assert reference.fault(results(tmp_path / "same", {"out.txt": right})) is None
    assert "out.txt differs from the default's" in reference.fault(results(tmp_path / "other", {"out.txt": wrong}))


def test_a_time_that_varies_does_not_loosen_what_is_compared_beside_it(tmp_path):
    texts = ("accuracy 0.98, count 120.1\n", "accuracy 0.98, count 123.4\n", "accuracy 0.5, count 121.0\n")
    first, again, wrong = ({"out.txt": text} for text in texts)
    fault = reference_of(tmp_path, first, again).fault(results(tmp_path / "other", wrong))
    assert fault == "accuracy in out.txt differs from the default's by 0.49, more than 0.0001"


FASTER = [
    ({"out.txt": "accuracy 0.98, seconds: 120.0\n"}, {"out.txt": "accuracy 0.98, seconds: 12.0\n"}),
    ({"out.txt": "step 5: loss 0.5, 120 ms\n"}, {"out.txt": "step 5: loss 0.5, 12 ms\n"}),
    ({"out.txt": "loss 0.5, time (s): 120\n"}, {"out.txt": "loss 0.5, time (s): 12\n"}),
    ({"out.txt": "epoch,loss,seconds\n1,0.5,12.1\n"}, {"out.txt": "epoch,loss,seconds\n1,0.5,3.3\n"}),
    ({"out.txt": "loss 0.5, 100 images/s\n"}, {"out.txt": "loss 0.5, 900 images/s\n"}),
    ({"out.txt": "[1.0, 1e-12]"}, {"out.txt": "[1.0, 3e-12]"}),
    ({"out.txt": "1.0 0.0\n1.0 0.0\n"}, {"out.txt": "1.0 0.0\n1.0 1e-17\n"}),
    ({"out.txt": "norm 1.25, residual 0.0001234\n"}, {"out.txt": "norm 1.25, residual 0.0001233\n"}),
    *(
        ({"metrics.json": json.dumps({"loss": 0.5, **slow})}, {"metrics.json": json.dumps({"loss": 0.5, **fast})})
        for slow, fast in (
            ({"images_per_second": 100.0}, {"images_per_second": 900.0}),
            ({"imagesPerSec": 100.0}, {"imagesPerSec": 900.0}),
            ({"samples_per_s": 100.0}, {"samples_per_s": 900.0}),
            ({"rate": 100.0}, {"rate": 900.0}),
            ({"walltime": 9.0}, {"walltime": 1.0}),
            ({"history": {"time": [9.0, 9.0]}}, {"history": {"time": [1.0, 1.0]}}),
            ({"first": 9.0, "later": [9.0]}, {"first": 1.0, "later": [1.0]}),
        )
    ),
]


@pytest.mark.parametrize("slow, fast", FASTER)
def test_a_faster_run_is_no_wrong_one(tmp_path, slow, fast):
    assert reference_of(tmp_path, slow, slow).fault(results(tmp_path / "other", fast)) is None


def test_files_whose_names_vary_are_not_held_against_others(tmp_path):
    named = [{"out.txt": "1.0\n", f"logs/events.{number}": "x"} for number in (17, 42, 99)]
    reference = reference_of(tmp_path, *named[:2])
    assert reference.fault(results(tmp_path / "other", named[2])) is None
    assert reference.comparable() == ["out.txt"]
    assert "out.txt differs" in reference.fault(results(tmp_path / "wrong", {**named[2], "out.txt": "2.0\n"}))


def test_what_the_default_does_not_repeat_is_not_told_to_be_compared(tmp_path):
    done, work = drive(tmp_path, {"default": "head -c 99 /dev/urandom >out.txt"})
    assert done.returncode == 0, done.stderr
    assert [one.compared for one in read_repeats(work / "benchmark") if one.block >= 0] == [0, 0]


def test_what_a_run_leaves_behind_makes_it_no_disturbed_one(tmp_path, monkeypatch):
    """Until its processes have ended other work goes on, too."""
    monkeypatch.setattr(runs, "busy", lambda: time.perf_counter() * 0.05)
    monkeypatch.setattr(runs, "used", lambda: 0.0)
    monkeypatch.setattr(runs, "adopt", lambda limit: time.sleep(0.5))
    run = Run({"sample": 0.1}, {"command": "true", "environment": {}}, str(tmp_path / "c0"))
    run.prepare()
    assert run.measure(None)["others"] == pytest.approx(0.05, rel=0.1)


def test_runs_of_two_attempts_are_no_pair(tmp_path):
    """The second attempt may be on another machine."""
    line = {"block": -1, "attempt": 0, "fault": None, "time": 1, "load": 0.1, "code": 0, "cpu": 1.0, "disturbed": False}
    earlier = tmp_path / "attempts" / "1" / "work" / "benchmark"
    earlier.mkdir(parents=True)
    repeats = [("default", -1), ("default", -1), ("other", -1), ("default", 0)]
    text = "".join(json.dumps({**line, "name": name, "block": block, "wall": 1000.0}) + "\n" for name, block in repeats)
    (earlier / "repeats.jsonl").write_text(text)
    both = {"default": "sleep 0.05; echo 1 >out.txt", "other": "sleep 0.05; echo 1 >out.txt"}
    done, work = drive(tmp_path, both, least=4, most=4)
    assert "goes on after 4 repeats" in done.stdout
    default, other = outcomes(read_repeats(work / "benchmark"))
    assert [one.block for one in default.counted] == [0, 1, 2, 3]
    assert [one.block for one in other.counted] == [0, 1, 2, 3]
    assert gain(default, other).value == pytest.approx(1, rel=0.5)
