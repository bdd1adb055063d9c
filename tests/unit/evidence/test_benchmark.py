"""Benchmarks: rounds, disturbed runs, wrong results, resumption, and what the repeats amount to."""

import ast
import fcntl
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evidence_parts import digits_plan, drive, prepare, repeat
from modak_deploy.cli import _mount, app
from modak_deploy.errors import InputError
from modak_deploy.evidence import driver
from modak_deploy.evidence.benchmarked import table_lines
from modak_deploy.evidence.command import protocol_of
from modak_deploy.evidence.driver.machine import children, resident
from modak_deploy.evidence.driver.results import Reference, contents, difference
from modak_deploy.evidence.driver.runs import Run, remove
from modak_deploy.evidence.finished import Description, read_finished, write_description
from modak_deploy.evidence.page import render, render_csv
from modak_deploy.evidence.protocol import Protocol, gain, outcomes, read_repeats
from modak_deploy.evidence.report import report_of_results


def test_rounds_are_interleaved_and_a_wrong_result_is_refused(tmp_path):
    done, work = drive(
        tmp_path,
        {"default": "echo 1.0 >out.txt", "same": "echo 1.00001 >out.txt", "wrong": "echo 1.5 >out.txt"},
    )
    assert done.returncode == 0, done.stderr
    found = {one.name: one for one in outcomes(read_repeats(work / "benchmark"))}
    assert (len(found["default"].counted), len(found["same"].counted)) == (2, 2)
    assert found["same"].fault is None
    assert found["wrong"].counted == []
    assert "out.txt differs from the default's by 0.5" in found["wrong"].fault
    assert not (work / "runs").exists()


def test_a_configuration_that_fails_is_refused_with_its_last_words(tmp_path):
    done, work = drive(tmp_path, {"default": "echo 1 >out.txt", "broken": "echo no such library; exit 3"})
    assert done.returncode == 0
    (broken,) = [one for one in outcomes(read_repeats(work / "benchmark")) if one.name == "broken"]
    assert broken.fault == "ended with code 3: no such library"


def test_a_configuration_that_hangs_is_ended_and_the_others_are_measured(tmp_path):
    done, work = drive(tmp_path, {"default": "echo 1 >out.txt", "hangs": "echo waiting; sleep 600"}, hanging=1)
    assert done.returncode == 0, done.stderr
    default, hangs = outcomes(read_repeats(work / "benchmark"))
    assert len(default.counted) == 2
    assert re.fullmatch(r"was ended after \d+ s: waiting", hangs.fault)


def test_a_default_that_fails_ends_the_benchmark(tmp_path):
    done, _ = drive(tmp_path, {"default": "exit 4"})
    assert done.returncode == 1
    assert "modak benchmark: the default ended with code 4" in done.stderr


def test_a_disturbed_run_is_repeated_and_counts_only_where_nothing_else_does(tmp_path):
    done, work = drive(tmp_path, {"default": "echo 1 >out.txt"}, others=1e-9, retries=1, least=1, most=1)
    assert done.returncode == 0
    repeats = [one for one in read_repeats(work / "benchmark") if one.block == 0]
    if all(one.disturbed for one in repeats):  # on a machine on which nothing else runs none is
        assert [one.attempt for one in repeats] == [0, 1]
        assert len(outcomes(repeats)[0].counted) == 1


def test_a_later_attempt_goes_on_where_the_first_was(tmp_path):
    _, work = drive(tmp_path, {"default": "echo 1 >out.txt"}, most=3, least=3)
    before = (work / "benchmark" / "repeats.jsonl").read_text().splitlines()
    kept = "\n".join(before[:4]) + '\n{"name": "torn'
    earlier = tmp_path / "attempts" / "1" / "work"
    (earlier / "benchmark").mkdir(parents=True)
    (earlier / "benchmark" / "repeats.jsonl").write_text(kept)
    (work / "benchmark" / "repeats.jsonl").unlink()
    done, _ = drive(tmp_path, {"default": "echo 1 >out.txt"}, most=3, least=3)
    assert "goes on after 4 repeats" in done.stdout
    after = (work / "benchmark" / "repeats.jsonl").read_text().splitlines()
    assert after[:4] == before[:4]
    assert sorted(json.loads(line)["block"] for line in after if json.loads(line)["block"] >= 0) == [0, 1, 2]


@pytest.mark.parametrize("left", ['{"name": "torn', '{"name": "torn{"name": "default", "block": 0}\n'])
def test_a_torn_line_is_no_repeat_and_spoils_none(tmp_path, left):
    work = prepare(tmp_path, {"default": "echo 1 >out.txt"})
    (work / "benchmark").mkdir()
    (work / "benchmark" / "repeats.jsonl").write_text(left)
    done, _ = drive(tmp_path, {"default": "echo 1 >out.txt"})
    assert done.returncode == 0, done.stderr
    assert [one.block for one in read_repeats(work / "benchmark")] == [-1, -1, 0, 1]


def test_a_default_that_failed_in_an_earlier_attempt_is_run_again(tmp_path):
    done, work = drive(tmp_path, {"default": "echo 1 >out.txt; exit 4"})
    assert done.returncode == 1
    done, _ = drive(tmp_path, {"default": "echo 1 >out.txt"})
    assert done.returncode == 0, done.stderr
    (one,) = outcomes(read_repeats(work / "benchmark"))
    assert (one.fault, len(one.counted)) == (None, 2)


def test_two_drivers_do_not_measure_in_one_folder(tmp_path):
    (tmp_path / "work" / "runs").mkdir(parents=True)
    handle = os.open(tmp_path / "work" / "runs", os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    done, work = drive(tmp_path, {"default": "echo 1 >out.txt"})
    os.close(handle)
    assert done.returncode == 1
    assert f"another benchmark runs in {work}" in done.stderr
    assert not (work / "benchmark").exists()


def test_a_driver_that_is_ended_leaves_no_process(tmp_path):
    work = prepare(tmp_path, {"default": "(setsid sh -c 'echo $$; exec sleep 60' & echo $$; wait) >out.txt"})
    process = subprocess.Popen([sys.executable, "driver.pyz", "settings.json"], cwd=work, stderr=subprocess.DEVNULL)
    out = work / "runs" / "c0" / "work" / "out.txt"
    deadline = time.monotonic() + 20
    while not out.is_file() or len(out.read_text().split()) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.terminate()
    assert process.wait(20) == 128 + signal.SIGTERM
    assert [pid for pid in out.read_text().split() if Path("/proc", pid).exists()] == []


def test_a_process_may_have_any_bytes_for_its_name():
    code = "import ctypes, time; ctypes.CDLL(None).prctl(15, b'caf\\xc3', 0, 0, 0); print(flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        try:
            assert process.pid in children()
            assert resident(os.getpid()) > 0
        finally:
            process.kill()


def test_last_words_with_control_characters_can_be_read(tmp_path):
    done, work = drive(tmp_path, {"default": "echo 1 >out.txt", "broken": "printf 'a\\000b\\033]0;x\\007'; exit 3"})
    assert done.returncode == 0
    (broken,) = [one for one in outcomes(read_repeats(work / "benchmark")) if one.name == "broken"]
    assert broken.fault == "ended with code 3: a\ufffdb\ufffd]0;x\ufffd"


def test_time_and_memory_of_processes_that_run_apart_are_counted(tmp_path):
    code = "import time; b = bytearray(60_000_000); t = time.process_time()\nwhile time.process_time() - t < 0.2: pass"
    command = f"(setsid {sys.executable} -c '{code}' &) ; {sys.executable} -c '{code}'; echo 1 >out.txt"
    _, work = drive(tmp_path, {"default": command}, least=1, most=1, sample=0.02)
    (one,) = outcomes(read_repeats(work / "benchmark"))[0].counted
    assert one.cpu >= 0.39
    assert one.peak >= 100_000_000


def test_each_run_begins_in_a_clean_folder(tmp_path):
    (tmp_path / "work" / "app").mkdir(parents=True)
    (tmp_path / "work" / "app" / "input").write_text("5")
    done, work = drive(tmp_path, {"default": "test ! -e out.txt && cat input >out.txt && echo 6 >input"})
    assert done.returncode == 0, done.stderr
    assert (work / "app" / "input").read_text() == "5"


def test_a_large_input_that_a_run_changes_ends_the_benchmark(tmp_path, monkeypatch):
    monkeypatch.setattr("modak_deploy.evidence.driver.runs.LARGE", 5)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "state").write_text("large")
    entry = {"name": "x", "command": "cat state", "environment": {}}
    run = Run({"sample": 0.1}, entry, str(tmp_path / "runs" / "c0"))
    run.prepare()
    run.check_inputs()
    (tmp_path / "runs" / "c0" / "work" / "state").write_text("larger")
    with pytest.raises(SystemExit, match="the program changes its input state, which runs share"):
        run.check_inputs()


def test_the_driver_is_written_for_python_3_8():
    for path in Path(driver.__file__).parent.glob("*.py"):
        ast.parse(path.read_text(), feature_version=(3, 8))


def test_results_are_compared_by_their_numbers(tmp_path):
    (tmp_path / "a").write_text('{"x": [1.0, 2.0], "n": "a"}')
    (tmp_path / "b").write_text('{"x": [1.0, 2.0002], "n": "a"}')
    (tmp_path / "c").write_text('{"y": [1.0, 2.0], "n": "a"}')
    a, b, c = (contents(str(tmp_path / name)) for name in "abc")
    assert difference(a, b) == pytest.approx(0.0002 / 5**0.5, rel=0.01)
    assert difference(a, c) == float("inf")
    assert difference(a, contents(str(tmp_path / "absent"))) == float("inf")
    assert difference(a, ([1.0, float("nan")], a[1])) == float("inf")


def test_results_that_are_no_usual_numbers_are_compared():
    large, nan = ([4e200, 1.0], ""), float("nan")
    assert difference(large, large) == 0
    assert difference(large, ([5e180, 1.0], "")) == pytest.approx(1)
    assert difference(([nan, 1.0], ""), ([nan, 1.0], "")) == 0
    assert difference(([nan, 1.0, math.inf], ""), ([nan, 1.5, math.inf], "")) == pytest.approx(0.5)
    assert difference(([math.inf], ""), ([-math.inf], "")) == math.inf
    reference = Reference(1e-4)
    reference.learn({"masked": ([nan, 1.0], "")})
    reference.learn({"masked": ([nan, 1.0], "")})
    assert "masked differs" in reference.fault({"masked": ([nan, 77.0], "")})


@pytest.mark.parametrize(
    "header", ["{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", "{'descr': '<f4'", "[]", None]
)
def test_an_array_that_cannot_be_read_counts_by_its_bytes(tmp_path, header):
    data = b"\x93NUMPY\x01"
    if header is not None:
        data += b"\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(8)
    (tmp_path / "a.npy").write_bytes(data)
    (tmp_path / "b.npy").write_bytes(data + b"x")
    a, b = (contents(str(tmp_path / name)) for name in ("a.npy", "b.npy"))
    assert difference(a, a) == 0
    assert difference(a, b) == math.inf


def test_a_pipe_among_the_outputs_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert contents(str(tmp_path / "pipe")) == ([], "no file")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write to every folder")
def test_a_folder_that_a_run_has_made_read_only_is_removed(tmp_path):
    (tmp_path / "run" / "kept" / "below").mkdir(parents=True)
    (tmp_path / "run" / "kept").chmod(0o500)
    remove(str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_what_the_default_does_not_repeat_itself_is_not_held_against_others():
    reference = Reference(1e-4)
    reference.learn({"loss": ([1.0], ""), "log": ([], "a")})
    reference.learn({"loss": ([1.01], ""), "log": ([], "b")})
    assert reference.fault({"loss": ([1.02], ""), "log": ([], "c")}) is None
    assert "loss differs" in reference.fault({"loss": ([1.1], ""), "log": ([], "a")})
    assert "loss differs" in reference.fault({})


def test_warm_up_disturbed_runs_and_outliers_do_not_count():
    repeats = [repeat("x", -1, 9.0), *(repeat("x", n, 1.0 + n / 1000) for n in range(9)), repeat("x", 9, 1.5)]
    repeats += [repeat("x", 10, 2.0, disturbed=True)]
    (one,) = outcomes(repeats)
    assert (len(one.counted), one.disturbed, one.outliers) == (9, 1, 1)
    assert one.mean.low < 1.004 < one.mean.high


def test_many_repeats_are_counted_at_once():
    began = time.process_time()
    (one,) = outcomes([repeat("x", number, 1.0 + number % 7 / 1000) for number in range(5000)])
    assert len(one.counted) == 5000
    assert time.process_time() - began < 2


def test_the_gain_is_paired_by_rounds():
    walls = [1.0, 2.0, 4.0, 8.0]
    repeats = [repeat("a", n, wall) for n, wall in enumerate(walls)]
    repeats += [repeat("b", n, wall / 2) for n, wall in enumerate(walls)]
    default, other = outcomes(repeats)
    found = gain(default, other)
    assert found.value == pytest.approx(2.0)
    assert 1.98 < found.low < found.high < 2.02


def test_phases_come_from_the_metrics_or_from_the_launcher():
    assert repeat("a", 0, 5.0, first=2.0, later=[1.0, 1.0]).unit_seconds(3) == [2.0, 1.0, 1.0]
    assert repeat("a", 0, 5.0, first=2.0, later=[1.0, 1.0]).unit_seconds(1) == []
    assert repeat("a", 0, 5.0, first=2.0, later=[1.0, 1.0]).unit_seconds(2) == [2.5, 1.5]
    assert repeat("a", 0, 5.0, steady=1.0, units=3, compile=0.5).unit_seconds(3) == [1.5, 1.0, 1.0]
    assert repeat("a", 0, 2.0, first=2.0, later=[1.0]).unit_seconds(2) == []


GOOD = {"name": "x", "block": 0, "time": 1, "load": 0.1, "wall": 1.0, "cpu": 1.0}
BAD = [{"wall": 1.7e308}, {"wall": 5e-324}, {"block": 10**4000}, {"time": 10**18}, {"cpu": 1e308}, {"code": 10**4000}]


@pytest.mark.parametrize(
    "line",
    ["{", "[]", '{"name": "x"}', '{"name": "x", "wall": -1}', "1" * 5000, *(json.dumps(GOOD | bad) for bad in BAD)],
)
def test_a_repeat_that_makes_no_sense_is_an_error_with_its_place(tmp_path, line):
    (tmp_path / "repeats.jsonl").write_text(line + "\n")
    with pytest.raises(InputError, match=r"repeats\.jsonl:1: not a repeat"):
        read_repeats(tmp_path)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"width": 0.0}, "width"),
        ({"limit": "soon"}, "limit: 'soon' is not a time"),
        ({"least": 9, "most": 3}, "most: 3 rounds are fewer than the least, 9"),
        ({"seed": -1}, "seed"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(InputError, match=message):
        protocol_of(options)


@pytest.fixture
def finished(tmp_path):
    folder = tmp_path / "x-benchmark"
    (folder / "benchmark").mkdir(parents=True)
    repeats = []
    for block in range(6):
        memory = [10_000_000 * (n + block) for n in range(5)]
        repeats.append(repeat("default", block, 2.0 + block / 100, first=1.0, later=[0.3, 0.3], memory=memory, peak=5))
        repeats.append(repeat("<b>fast</b>", block, 1.0 + block / 100, steady=0.2, units=3, elapsed=0.7, memory=memory))
    repeats.append(repeat("wrong", -1, 0.1, fault="x differs"))
    lines = "".join(one.model_dump_json() + "\n" for one in repeats)
    (folder / "benchmark" / "repeats.jsonl").write_text(lines)
    write_description(
        folder, Description(title="x on here", default="default", choice="<b>fast</b>", protocol=Protocol())
    )
    return folder


def test_the_report_of_a_benchmark(finished):
    report = report_of_results(finished)
    text = render(report)
    assert "<b>fast" not in text
    assert "modak&#39;s choice, &lt;b&gt;fast&lt;/b&gt;, was 1.98 times as fast as the default" in text
    assert "Memory over time" in text
    assert "x differs" in text
    assert "Regret" in text
    table = render_csv(report)
    assert ",time in round 6," in table
    assert ",time in the warm-up (does not count),0.1," in table


def test_the_report_tells_runs_that_other_work_disturbed(finished):
    path = finished / "benchmark" / "repeats.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(line | {"disturbed": line["name"] != "default"}) + "\n" for line in lines))
    text = render(report_of_results(finished))
    assert "6 runs, all disturbed by other work" in text
    assert "6 disturbed by other work, 0 outliers" in text
    assert "note: other work disturbed all runs of <b>fast</b>" in table_lines(read_finished(finished))


def test_a_single_run_has_no_interval(finished):
    path = finished / "benchmark" / "repeats.jsonl"
    lines = [line for line in path.read_text().splitlines() if json.loads(line)["block"] < 1]
    path.write_text("\n".join(lines) + "\n")
    text = render(report_of_results(finished))
    assert "default, one run" in text
    assert "standard deviation" not in render_csv(report_of_results(finished))


def test_a_benchmark_without_its_default_is_an_error(finished):
    write_description(finished, Description(title="x", default="other", protocol=Protocol()))
    with pytest.raises(InputError, match="no repeat of 'other'"):
        read_finished(finished)


def test_a_name_that_no_plan_has_is_none_of_the_benchmark(finished):
    plan = digits_plan()
    name = plan.chosen.name
    lines = [repeat(other, block, 1.0).model_dump_json() + "\n" for other in (name, "\x1b[2J") for block in range(3)]
    (finished / "benchmark" / "repeats.jsonl").write_text("".join(lines))
    write_description(finished, Description(title="x", default=name, protocol=Protocol(), plans=[plan]))
    assert [one.name for one in read_finished(finished).outcomes] == [name]


def test_the_command_needs_no_name_before_the_document(tmp_path):
    _mount(["benchmark"])
    done = CliRunner().invoke(app, ["benchmark", str(tmp_path / "absent.yml")])
    assert isinstance(done.exception, InputError)
    assert "absent.yml" in str(done.exception)
    assert Path("absent.yml").name in str(done.exception)


def test_repeats_of_an_earlier_benchmark_of_the_same_name_do_not_count(finished):
    other = (finished / "benchmark" / "repeats.jsonl").read_text()
    (finished / "benchmark" / "repeats.2.jsonl").write_text(other)
    assert len(read_finished(finished).default.counted) == 6


def test_an_array_counts_the_rounds_of_each_task_apart(tmp_path):
    for task in (1, 2):
        (tmp_path / f"repeats.{task}.jsonl").write_text(repeat("a", 0, float(task)).model_dump_json() + "\n")
    repeats = read_repeats(tmp_path, ["repeats.1.jsonl", "repeats.2.jsonl"])
    assert [one.block for one in repeats] == [0, 100_000]
    with pytest.raises(InputError, match=r"repeats\.3\.jsonl: not found"):
        read_repeats(tmp_path, ["repeats.3.jsonl"])
