"""Reports on jobs and measurements: what they say, and that no text of a target becomes markup."""

import csv
import html.parser
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evidence_parts import TUNING, digits_plan, job_values, write_results
from modak_deploy.cli import app
from modak_deploy.errors import InputError
from modak_deploy.evidence.page import render, render_csv
from modak_deploy.evidence.report import (
    read_job,
    report_of_jobs,
    report_of_measurements,
    report_of_results,
    run_folders,
    write_job_reports,
)
from modak_deploy.evidence.workloads import scaling_sections
from modak_deploy.model.application import Workload
from modak_deploy.model.measurement import Configuration, Hardware, Measurement, Provenance, Run
from modak_deploy.model.plan import Gain, Plan

ATTACKS = json.loads((Path(__file__).parents[2] / "data" / "evidence" / "attacks.json").read_text())
_TAGS = """
html head meta link title style body a header p h1 h2 h3 nav ul li main section dl div dt dd span details summary table
caption thead tbody tr th td svg line rect text circle polygon polyline b footer
"""
TAGS = set(_TAGS.split())


class Page(html.parser.HTMLParser):
    """The elements and the text of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.texts = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())


@pytest.fixture(scope="module")
def plan():
    return digits_plan(request={"numerics": "relaxed"})


@pytest.fixture
def results(tmp_path, plan):
    return write_results(tmp_path / "digits", plan, job_values(plan))


def page_of(*folders):
    return Page(render(report_of_jobs([read_job(folder) for folder in folders])))


def test_a_job_report_says_what_was_chosen_what_it_gained_and_how_certain_that_is(results):
    text = page_of(results).text
    began = "modak began with the default, keras-tensorflow, and went on with keras-mixed-bfloat16, 1.66 times as fast."
    assert f"{began} It took 11.7 s, as predicted." in text
    assert "How certain Measured whole runs of this work were measured on this hardware" in text
    assert "Gain 1.66 \N{MULTIPLICATION SIGN} tried while the job ran: keras-mixed-bfloat16" in text
    assert "Queue: 31.8 s" in text
    assert "Compile and warm up: 1.1 s" in text
    assert "28.6 a second once warm" in text
    assert "Most memory used 1.15 GiB" in text


def test_a_trial_with_wrong_results_is_refused_whatever_its_speed(results):
    report = report_of_jobs([read_job(results)])
    (table,) = [part for part in report.sections[0].parts if part.title == "What was tried while it ran"]
    row = next(row for row in table.rows if row.label == "planted-wrong")
    assert (row.text, row.emphasis, row.mark.value) == ("refused", "bad", None)


def test_what_was_made_ready_in_the_background_is_told(tmp_path, plan):
    kept, broken = ["pytorch-openvino"], ["pytorch-onnxruntime"]
    trials = [
        {"of": "M", "levers": kept, "result": "it is faster", "seconds": 0.01, "gain": 2.0, "kept": True,
         "one_time": 3.8, "background": 3.8},
        {"of": "M", "levers": broken, "result": "it breaks", "failed": True, "one_time": 30.2, "background": 30.2},
        {"of": "M", "levers": ["pytorch-channels-last"], "result": "not faster", "seconds": 0.03, "gain": 0.9},
    ]  # fmt: skip
    job = job_values(plan, tuning={**TUNING, "trials": trials})
    report = report_of_jobs([read_job(write_results(tmp_path / "x", plan, job))])
    time, table = (
        next(part for part in report.sections[0].parts if part.title == title)
        for title in ("Where the time went", "What was tried while it ran")
    )
    assert time.summary.endswith("Beside it, 34 s went into making levers ready in the background.")
    assert [row.note for row in table.rows] == [
        "kept: it is faster; 3.8 s in the background to make ready",
        "wrong or unusable: it breaks; 30.2 s in the background to make ready",
        "not faster",
    ]
    assert "; 3.8 s in the background to make ready" in Page(render(report)).text
    made = {value.subject: value.value for value in report.values if value.quantity == "tried: time in the background"}
    assert made == {kept[0]: 3.8, broken[0]: 30.2}


def test_what_was_tried_before_the_run_is_told(tmp_path, plan):
    own = plan.chosen.name
    trials = [
        {"name": own, "state": "measured", "reason": "its rate is known", "seconds": 3.0, "steady": 0.10},
        {"name": "jemalloc", "state": "measured", "reason": "its rate is known", "steady": 0.05},
        {"name": "one-thread", "state": "different", "reason": "its result is another one"},
        {"name": "jemalloc", "levers": ["jemalloc"], "state": "measured", "round": 2, "steady": 0.05},
    ]  # fmt: skip
    restart = {"trials": trials, "chosen": "jemalloc", "levers": ["jemalloc"], "gain": 1.9, "drift": 0.97,
               "seconds": 4.5, "reason": "fastest of all that was tried"}  # fmt: skip
    job = job_values(plan, restart=restart, tuning=None)
    report = report_of_jobs([read_job(write_results(tmp_path / "x", plan, job))])
    (section,) = report.sections
    time, table = (
        next(part for part in section.parts if part.title == title)
        for title in ("Where the time went", "What was tried before the run")
    )
    assert [(phase.label, phase.share) for phase in time.phases if phase.kind == "trials"] == [
        ("Trials before the run", 4.5)
    ]
    assert "the application itself 7.2 s" in time.summary
    assert [(row.text, row.emphasis) for row in table.rows] == [
        ("1.00 \N{MULTIPLICATION SIGN}", ""), ("2.00 \N{MULTIPLICATION SIGN}", "chosen"), ("refused", "bad"),
        ("2.00 \N{MULTIPLICATION SIGN}", "chosen"),
    ]  # fmt: skip
    assert table.summary == (
        "4 starts of the program, in 4.5 s. The program ran with jemalloc: fastest of all that was tried. "
        "The default's time changed by \N{MINUS SIGN}3.0 % while they ran."
    )
    assert "different: its result is another one" in Page(render(report)).text
    assert next(figure for figure in section.figures if figure.label == "Gain").value.startswith("1.90")
    (gain,) = [value for value in report.values if value.quantity == "tried before the run: gain"]
    assert (gain.subject, gain.value) == ("jemalloc", 1.9)


def test_a_failed_job_says_how_it_ended(tmp_path, plan):
    job = job_values(plan, state="out_of_memory", reason="more than 4 GiB", seconds=None, tuning=None)
    text = page_of(write_results(tmp_path / "x", plan, job)).text
    assert "The job did not complete: out of memory (more than 4 GiB)." in text


def test_a_job_without_a_result_is_reported_as_planned(tmp_path, plan):
    assert "The job has not ended" in page_of(write_results(tmp_path / "x", plan, None)).text


@pytest.mark.parametrize(("chosen", "judged"), [(None, ", as predicted"), ("jemalloc", "")])
def test_trials_before_the_run_are_none_of_the_time_that_was_predicted(tmp_path, plan, chosen, judged):
    restart = {"chosen": chosen or plan.chosen.name, "seconds": 10.0, "gain": 1.0}
    job = job_values(plan, seconds=21.7, ended=1795208304.3, restart=restart, tuning=None)
    report = report_of_jobs([read_job(write_results(tmp_path / "x", plan, job))])
    assert f"It took 21.7 s (trials before the run took 10 s of it){judged}." in report.summary
    (took,) = [figure for figure in report.sections[0].figures if figure.label == "Took"]
    other = f", for {plan.chosen.name}, which did not run" if chosen else ""
    assert took.note.endswith(f"{other}; trials before the run took 10 s of it")
    (tried,) = [value.value for value in report.values if value.quantity == "time of trials before the run"]
    assert tried == 10.0


def test_a_gain_by_trials_is_one_over_what_was_chosen(tmp_path):
    plan = digits_plan(request={"numerics": "relaxed", "require_levers": ["one-thread"]})
    gain = Gain(ratio=1.2, low=1.1, high=1.3)
    plan = plan.model_copy(update={"default": "another", "gain": gain})
    report = report_of_jobs([read_job(write_results(tmp_path / "x", plan, job_values(plan)))])
    figures = {figure.label: (figure.value, figure.note) for figure in report.sections[0].figures}
    assert figures["Gain"] == ("1.20 \N{MULTIPLICATION SIGN}", "between 1.10 and 1.30")
    over = f"tried while the job ran over {plan.chosen.name}: keras-mixed-bfloat16"
    assert figures["Gain by trials"] == ("1.66 \N{MULTIPLICATION SIGN}", over)
    assert "and went on with keras-mixed-bfloat16, 1.66 times as fast as that." in report.summary


def test_a_time_outside_of_the_interval_is_told(tmp_path, plan):
    text = page_of(write_results(tmp_path / "x", plan, job_values(plan, seconds=500.0, ended=1795208782.0))).text
    assert "outside the predicted 8.07 s to 16.4 s" in text


def test_several_jobs_have_an_overview(tmp_path, plan):
    other = digits_plan(application={"name": "other"})
    write_results(tmp_path / "digits", plan, job_values(plan))
    write_results(tmp_path / "host" / "other", other, None)
    write_results(tmp_path / "digits" / "attempts" / "1", plan, None)
    folders = run_folders(tmp_path)
    assert [folder.name for folder in folders] == ["digits", "other"]
    assert "2 deployed jobs" in page_of(*folders).text


def test_what_a_job_has_written_is_no_job(tmp_path, plan):
    folder = write_results(tmp_path / "digits", plan, job_values(plan))
    for name in ("plan.json", "benchmark.json"):
        (folder / "out" / name).mkdir(parents=True)
        (folder / "out" / "deep").mkdir(exist_ok=True)
        (folder / "out" / "deep" / name).write_text("the application's own")
    assert "digits on" in report_of_results(tmp_path).title
    assert "digits on" in report_of_results(folder).title


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look into every folder")
def test_a_folder_of_another_user_is_passed_over(tmp_path, plan):
    write_results(tmp_path / "digits", plan, job_values(plan))
    closed = write_results(tmp_path / "other", plan, None)
    closed.chmod(0)
    assert [folder.name for folder in run_folders(tmp_path)] == ["digits"]
    closed.chmod(0o700)


def test_one_that_cannot_be_read_is_told_beside_the_others(tmp_path, plan):
    write_results(tmp_path / "digits", plan, job_values(plan))
    broken = write_results(tmp_path / "other", plan, None)
    (broken / "plan.json").write_text("{")
    report = report_of_results(tmp_path)
    assert "digits on" in report.title
    assert f"Not shown: {broken}/plan.json:1: not valid JSON" in report.summary
    with pytest.raises(InputError, match=r"plan\.json:1: not valid JSON"):
        report_of_results(broken)


def test_a_report_says_how_many_jobs_it_leaves_out(tmp_path, plan, monkeypatch):
    monkeypatch.setattr("modak_deploy.evidence.report._MOST_JOBS", 2)
    for number in range(5):
        write_results(tmp_path / f"run{number}", plan, None)
    report = report_of_results(tmp_path)
    assert report.title == "2 deployed jobs"
    assert report.summary.endswith("Not shown: 3 of 5 folders; name one with fewer.")


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_text_of_a_target_becomes_markup(tmp_path, plan, attack):
    hurt = {
        **TUNING,
        "counted": [{**TUNING["counted"][0], "name": attack, "unit": attack}],
        "trials": [{**TUNING["trials"][1], "of": attack, "result": attack}],
        "settled": [{"of": attack, "levers": ["keras-mixed-bfloat16"], "reason": attack, "gain": 2.0}],
        "not_used": [attack],
        "incomplete": [attack],
    }
    job = job_values(plan, tuning=hurt, reason=attack, host=attack, state="failed")
    evil = Plan.model_validate({**plan.model_dump(by_alias=True), "reason": attack, "default": attack})
    folder = write_results(tmp_path / "x", evil, job)
    report = report_of_jobs([read_job(folder)])
    text = render(report)
    page = Page(text)
    assert set(page.tags) <= TAGS
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    links = [value for name, value in page.attributes if name in ("href", "src", "srcdoc", "action")]
    assert [link for link in links if not link.startswith(("#", "data:,"))] == []
    assert not set(text) & set("\x00\x07\x1b\x9b\u202e\u200b\ufeff")
    clean = render(report_of_jobs([read_job(write_results(tmp_path / "y", plan, job_values(plan, state="failed")))]))
    assert text.count("<style>") == clean.count("<style>")
    for row in csv.reader(io.StringIO(render_csv(report))):
        assert not [cell for cell in row[:3] if cell.startswith(("=", "+", "-", "@", "\t"))]


def test_the_page_needs_nothing_beside_it(results):
    text = render(report_of_jobs([read_job(results)]))
    assert "default-src 'none'" in text
    assert "http://" not in text.replace("http://www.w3.org", "")
    assert "https://" not in text
    assert "<script" not in text


@pytest.mark.parametrize("name, content", [("plan.json", "{"), ("plan.json", "[]"), ("job.json", '{"id": 1}')])
def test_a_broken_file_is_named(results, name, content):
    (results / name).write_text(content)
    with pytest.raises(InputError, match=name):
        read_job(results)


def test_the_small_report_is_written_once_and_only_for_its_owner(results):
    assert write_job_reports([results]) == []
    page = results / "report.html"
    before = page.stat()
    assert before.st_mode & 0o777 == 0o600
    assert write_job_reports([results]) == []
    assert page.stat().st_mtime_ns == before.st_mtime_ns


def test_what_goes_wrong_with_a_small_report_is_one_sentence(tmp_path, results):
    (results / "job.json").write_text("{")
    problems = write_job_reports([results, tmp_path / "absent"])
    assert len(problems) == 2
    assert "report.html is not written" in problems[0]


def test_an_applications_own_report_stays(tmp_path):
    plan = digits_plan(application={"outputs": ["report.html"]})
    folder = write_results(tmp_path / "x", plan, job_values(plan))
    (folder / "report.html").write_text("mine")
    assert write_job_reports([folder]) == []
    assert (folder / "report.html").read_text() == "mine"


def test_what_ships_can_be_reported():
    report = report_of_measurements(None, shipped=True)
    text = Page(render(report)).text
    assert "Native against container" in text
    assert "+33.0 %" in text  # the study's own figure for the training of its small network
    assert "Gain of each lever" in text
    assert {"gain", "regret of the choice"} <= {value.quantity for value in report.values}


def test_an_unknown_workload_is_an_error():
    with pytest.raises(InputError, match="nothing was measured of the workload 'nosuch'"):
        report_of_measurements(None, workload="nosuch", shipped=True)


def test_the_command_writes_both_files(results, tmp_path):
    done = CliRunner().invoke(app, ["report", str(results), "-o", str(tmp_path / "out.html")], catch_exceptions=False)
    assert done.exit_code == 0
    rows = list(csv.DictReader(io.StringIO((tmp_path / "out.csv").read_text())))
    measured = next(row for row in rows if row["quantity"] == "measured time")
    assert (measured["value"], measured["unit"]) == ("11.7", "s")


def test_reports_cost_other_commands_nothing():
    code = (
        "import sys, modak_deploy.cli; sys.exit(any(name.startswith('modak_deploy.evidence') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize("gain", [0.0, 5e-324, 1e-320, 1.7e308])
def test_any_gain_that_a_target_reports_is_drawn(tmp_path, plan, gain):
    trials = [{**TUNING["trials"][1], "gain": gain}, *TUNING["trials"]]
    tuning = {**TUNING, "trials": trials, "settled": [{**TUNING["settled"][0], "gain": gain}]}
    page = page_of(write_results(tmp_path / "x", plan, job_values(plan, tuning=tuning)))
    assert "What was tried while it ran" in page.text


def test_times_of_other_sizes_are_rows_of_their_own():
    records = [
        Measurement(
            type="hpc",
            workload=Workload(model="solver", unit="run", samples=samples),
            hardware=Hardware(microarchitecture="zen2", cores=8),
            configuration=Configuration(ranks=ranks),
            runs=[Run(total=seconds) for seconds in (samples / ranks, samples / ranks, 3 * samples / ranks)],
            provenance=Provenance(source="a law", date="2026-01-01", method="computed"),
        )
        for samples in (100, 8000)
        for ranks in (1, 2, 4, 8)
    ]
    ((section, numbers),) = scaling_sections(records)
    rows = {row[0]: row[1] for row in section.parts[1].rows}
    assert (rows["4 ranks, size 100"], rows["4 ranks, size 8000"]) == ("25 s", "33.3 min")
    assert "All for a size of 100;" in section.parts[0].summary
    measured = [one.value for one in numbers if (one.subject, one.quantity) == ("4 ranks, size 100", "time")]
    assert measured == pytest.approx([25.0])
