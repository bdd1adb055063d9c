"""Whole documents: the documented ones with their exact scripts, the command, and scripts that really run."""

import json
import os
import re
import shutil
import subprocess
from functools import partial
from hashlib import sha256
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from jobmodel_parts import DATA, NOW, answered, document
from modak_deploy import cli
from modak_deploy.catalogue.catalogue import load_catalogue
from modak_deploy.documents import read_document
from modak_deploy.errors import InputError
from modak_deploy.jobmodel.answer import answer
from modak_deploy.jobmodel.recognise import is_job_document
from modak_deploy.jobmodel.site import Sites, load_sites
from modak_deploy.model.measurement import Measurement
from modak_deploy.performance.records import Table

SITES = str(DATA / "sites.yaml")
DOCUMENTS = ("training", "solver")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Return exit code, standard output and standard error of one call."""
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documented_example_has_its_scripts(name: str) -> None:
    done = answered(read_document(DATA / f"{name}.json").data)
    for stage, made in (("job", done.job_script), ("build", done.build_script or "")):
        script = re.sub("[0-9a-f]{16}", "0123456789abcdef", made)
        golden = DATA / f"{name}-{stage}.sh"
        if os.environ.get("MODAK_GOLDEN") == "write":
            golden.write_text(script)
        assert script == golden.read_text()


def test_an_efficiency_that_was_measured_needs_no_stated_one(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [
        Measurement.model_validate(
            {
                "type": "hpc",
                "workload": {"model": "solver_uc", "unit": "run"},
                "hardware": {},
                "configuration": {"nodes": 1, "ranks": ranks},
                "runs": [{"total": 10.0 + 90.0 / ranks}],
                "provenance": {"source": "a law", "date": "2026-01-01", "method": "computed"},
            }
        )
        for ranks in (1, 2, 4, 8)
    ]
    monkeypatch.setattr("modak_deploy.jobmodel.answer.available_measurements", lambda: Table(records))
    done = answered(document("hpc", {"application/minimal_efficiency": 0.8}))
    assert done.document["job"]["application"]["mpi_ranks"] == 3
    assert "#SBATCH --ntasks=3" in done.job_script
    assert answered(done.document).document["job"]["application"]["mpi_ranks"] == 3


KERAS = {
    "optimisation": {
        "app_type": "ai_training",
        "app_type-ai_training": {"config": {"ai_framework": "keras"}, "ai_framework-keras": {"version": "3.15"}},
    },
    "target": {"job_scheduler_type": "none"},
}


def test_an_image_that_nobody_built_comes_with_its_build(folder: Path) -> None:
    """The script writes the definition and its files, and gives them to modak's own build; here a stand-in runs it."""
    done = answer(document("plain", {**KERAS, "job_options/job_name": "here"}), sites=Sites(), now=NOW)
    image = done.document["job"]["application"]["container_runtime"]
    assert re.fullmatch(r"private://keras-3\.15-pip-cpu-[0-9a-f]{16}\.sif", image)
    (folder / "job.sh").write_text(done.job_script)
    (folder / "build.sh").write_text(done.build_script or "")
    tool = folder / "bin" / "singularity"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\nfor last; do :; done\n"
                    'case $1 in build) eval "new=\\${$(($# - 1))}"; cat "$last" ./*.txt >"$new" 2>&1 || : ;;\n'
                    "--version) echo 3.8 ;; *) echo \"$@\" ;; esac\n")  # fmt: skip
    tool.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tool.parent}:{os.environ['PATH']}"}
    for told in ("the images are there\n", "the image keras-3.15-pip-cpu is there already\nthe images are there\n"):
        built = subprocess.run(["sh", "build.sh"], cwd=folder, env=environment, capture_output=True, text=True)
        assert (built.returncode, built.stderr) == (0, "")
        assert built.stdout.endswith(told)
    file = folder / "modak-images" / image.removeprefix("private://")
    assert "BootStrap: localimage" in file.read_text()
    assert "keras==3.15.1" in file.read_text()
    subprocess.run(["sh", "job.sh"], cwd=folder, env=environment, check=True)
    assert f" {file} bin/solver" in (folder / "here.out").read_text()
    assert not list(folder.glob(".modak-build*"))


@pytest.mark.parametrize("name", [f"{name}-{stage}" for name in DOCUMENTS for stage in ("job", "build")])
def test_shellcheck_finds_nothing(name: str) -> None:
    # SC2016: what would expand outside of the quotes is literal on purpose.
    done = subprocess.run(["shellcheck", "--exclude=SC2016", DATA / f"{name}.sh"], capture_output=True, text=True)
    assert done.stdout == ""


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_command_completes_a_document(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(DATA / f"{name}.json", folder / "job.json")
    site = str(DATA / "sites.yaml")
    code, out, _ = run(capsys, "plan", "job.json", "--site", site, "-o", "made")
    assert code == 0
    done = json.loads(out)
    given = json.loads((folder / "job.json").read_text())
    assert set(done["job"]) == {*given["job"], "job_content", "job_script", "build_content", "build_script"}
    assert Path(done["job"]["job_script"]).read_text() == done["job"]["job_content"]
    assert Path(done["job"]["build_script"]).read_text() == done["job"]["build_content"]
    assert (folder / "made" / "job.json").read_text() == out
    code, again, _ = run(capsys, "plan", "made/job.json", "--site", site)
    assert code == 0
    assert set(json.loads(again)["job"]) == set(done["job"]) - {"job_script", "build_script"}


def test_the_command_gives_the_plan_as_well(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "job.json").write_text(json.dumps(document("mpi", {})))
    _, plan, _ = run(capsys, "plan", "job.json", "--json")
    assert json.loads(plan)["schema"] == "modak.plan/2"
    code, table, told = run(capsys, "plan", "job.json", "--explain")
    assert (code, table.startswith("Plan for solver on slurm (slurm)\n")) == (0, True)
    assert told == "job.json: no site is named: what the job asks for is taken to be there\n"


@pytest.mark.parametrize(
    ("text", "site", "sentence"),
    [
        ('{"job": {"application": {"executable": "x", "theads": 1}}}', [], ":1: job.application: unknown key 'theads'; "
         "did you mean 'threads'?"),
        ('{"job": {"job_options": {}}}', [], ":1: job: the key 'application' is required"),
        ('{"job": {"application": {"executable": "x"}, "target": {"name": "alp"}}}', ["--site", SITES],
          "job.json:1: job.target.name: no site 'alp' is described; did you mean 'alps'?"),
        ('{"job": {"application": "x"}}', [], ":1: job.application: must be a mapping of keys to values, not 'x'"),
        ('{"application": {"name": "a", "executable": "x"}}', ["--site", "s"], "--site describes targets of the JSON"),
        ('{"job": {"application": {"executable": "x"}}}', ["--site", "nowhere.yaml"], "nowhere.yaml: "),
    ],
)  # fmt: skip
def test_a_fault_is_one_sentence(
    text: str, site: list[str], sentence: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "job.json").write_text(text)
    code, out, err = run(capsys, "plan", "job.json", *site)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert sentence in err
    assert [path.name for path in folder.iterdir()] == ["job.json"]


def test_all_faults_are_reported_at_their_lines(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = """{"job": {
      "job_options": {
        "defer_job": "soon",
        "request_event_notification": "abc",
        "copy_environment_variable": "1=2",
        "memory_limit": "1G", "minimum_memory_per_processor": "1G"
      },
      "application": {
        "executable": "a; b",
        "container_runtime": "x y",
        "build": {"src": "ftp://a/b", "build_command": "make"}
      }}}"""
    (folder / "job.json").write_text(text)
    code, _, err = run(capsys, "plan", "job.json")
    assert code == 2
    assert sorted(line.split(": ")[0] + " " + line.split(": ")[1] for line in err.splitlines()) == sorted(
        [
            "job.json:3 job.job_options.defer_job",
            "job.json:4 job.job_options.request_event_notification",
            "job.json:5 job.job_options.copy_environment_variable",
            "job.json:6 job.job_options.memory_limit",
            "job.json:9 job.application.executable",
            "job.json:10 job.application.container_runtime",
            "job.json:11 job.application.build.src",
        ]
    )


@pytest.mark.parametrize(
    ("escaped", "text"),
    [(r"\ud83d\ude00", "😀"), (r"\\\uD83D\uDE00", "\\😀"), (r"\\ud83d", "\\ud83d"), (r"\u00ef", "ï")],
)
def test_characters_that_json_escapes_as_pairs(
    escaped: str, text: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "job.json").write_text(
        f'{{"job": {{"application": {{"executable": "echo", "arguments": "\'{escaped}\'"}}}}}}'
    )
    code, out, err = run(capsys, "plan", "job.json")
    assert code == 0, err
    assert json.loads(out)["job"]["application"]["arguments"] == f"'{text}'"


def test_half_a_pair_is_an_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "job.json").write_text(r'{"job": {"application": {"executable": "echo", "arguments": "\ud83d"}}}')
    code, out, err = run(capsys, "plan", "job.json")
    assert (code, out) == (2, "")
    assert "job.json:1: " in err


def test_versions_in_messages_are_those_of_the_catalogue(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(DATA / "training.json", folder / "job.json")
    text = (folder / "job.json").read_text().replace('"version": "2.1"', '"version": "9.9"')
    (folder / "job.json").write_text(text)
    code, _, err = run(capsys, "plan", "job.json")
    assert code != 0
    entries = load_catalogue().images.values()
    there = {str(version) for entry in entries for version in (entry.version, *entry.packages.values())}
    named = set(re.findall(r"the image has (\d[\w.]*\w)", err))
    assert "tensorflow 9.9 is requested" in err
    assert named
    assert named <= there


def test_a_version_written_as_a_number_keeps_its_zero(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy(DATA / "training.json", folder / "job.json")
    text = (folder / "job.json").read_text().replace('"version": "2.1"', '"version": 2.10')
    assert "2.10" in text
    (folder / "job.json").write_text(text)
    code, _, err = run(capsys, "plan", "job.json", "--site", str(DATA / "sites.yaml"))
    assert (code, "tensorflow 2.10 is requested" in err) == (3, True)


def test_a_site_is_recognised_by_hyphen_or_underscore(folder: Path) -> None:
    (folder / "sites.yaml").write_text("version: 1\ninfrastructures: [{name: hlrs_testbed, scheduler: torque}]\n")
    done = answer(document("plain", {"target": {"name": "hlrs-testbed"}}), sites=load_sites([folder]), now=NOW)
    assert "#PBS -N " in done.job_script


def test_a_program_beside_the_script_is_run(folder: Path) -> None:
    (folder / "tool").write_text("#!/bin/sh\necho 42\n")
    (folder / "tool").chmod(0o755)
    ended, out = _local(folder, {"application/executable": "tool", "application/arguments": ""})
    assert (ended.returncode, out) == (0, "42\n")


def test_a_script_of_the_site_depends_on_its_mpi_library(folder: Path) -> None:
    (folder / "sites.yaml").write_text(
        'version: 1\ninfrastructures: [{name: a, scheduler: slurm, mpi: [{family: openmpi, version: "4.1.0"}]}]\n'
        "scripts: [{name: m, conditions: {application: {feature: {library: openmpi}}}, data: {stage: pre, raw: hi}}]\n"
    )
    sites = load_sites([folder])
    for base, expected in (("mpi", True), ("plain", False)):
        done = answer(document(base, {"target": {"name": "a"}}), sites=sites, now=NOW)
        assert ("eval hi" in done.job_script) is expected


def test_which_documents_are_of_the_job_model() -> None:
    assert is_job_document(document("plain", {}))
    assert not is_job_document({"job": {"name": "x", "wall_time": "1h"}})
    assert not is_job_document({"job": {}, "application": {}})
    assert not is_job_document([])


def _local(folder: Path, change: dict[str, Any]) -> tuple[subprocess.CompletedProcess[str], str]:
    change = {"target": {"job_scheduler_type": "none"}, "job_options/job_name": "here", **change}
    done = answer(document("plain", change), sites=Sites(), now=NOW)
    (folder / "job.sh").write_text(done.job_script)
    ended = subprocess.run(["sh", "job.sh"], cwd=folder, capture_output=True, text=True, timeout=60)
    out = folder / "here.out"
    return ended, out.read_text() if out.exists() else ""


def test_the_script_runs_and_keeps_words_apart(folder: Path) -> None:
    change = {
        "application/executable": "printf '%s\\n'",
        "application/arguments": '"$WHO" \'$(id)\' "a  b" {{x}}',
        "application/pre-execution": "export WHO='$(id) me'; A=abc; echo ${#A}",
    }
    ended, out = _local(folder, change)
    assert (ended.returncode, out) == (0, "3\n$(id) me\n$(id)\na  b\n{{x}}\n")


def test_the_post_step_does_not_hide_a_failure(folder: Path) -> None:
    ended, out = _local(folder, {"application/executable": "false", "application/post-execution": "echo after; exit 0"})
    assert (ended.returncode, out) == (1, "after\n")


def test_a_failing_pre_step_is_the_end(folder: Path) -> None:
    ended, out = _local(folder, {"application/executable": "echo ran", "application/pre-execution": "false\necho on"})
    assert (ended.returncode, out) == (1, "")


def test_the_wall_time_is_kept_without_a_scheduler(folder: Path) -> None:
    ended, _ = _local(folder, {"application/executable": "sleep 30", "job_options/wall_time_limit": "0:00:01"})
    assert ended.returncode == 124


def test_it_is_built_once(folder: Path) -> None:
    work = folder / "upstream"
    work.mkdir()
    (work / "source.txt").write_text("hello\n")
    for command in (
        ["git", "init", "-q", "-b", "main"],
        ["git", "add", "source.txt"],
        ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "-m", "one"],
    ):
        subprocess.run(command, cwd=work, check=True)
    build = {"src": "https://example.org/upstream/solver.git", "build_command": "cat source.txt >made; echo {{BUILD_PARALLELISM}} >>made"}  # fmt: skip  # noqa: E501
    change = {"target": {"job_scheduler_type": "none"}, "application/build": {**build, "build_parallelism": 3}}
    script = answer(document("plain", change), sites=Sites(), now=NOW).build_script or ""
    (folder / "build.sh").write_text(script)
    # The address is that of the document; git itself is told where it lies here.
    rewrite = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": f"url.file://{work}.insteadOf", "GIT_CONFIG_VALUE_0": build["src"]}  # fmt: skip  # noqa: E501
    for _ in range(2):
        done = subprocess.run(
            ["sh", "build.sh"], cwd=folder, capture_output=True, text=True, env={**os.environ, **rewrite}
        )
        assert done.returncode == 0, done.stderr
        assert (folder / "solver" / "made").read_text() == "hello\n3\n"
    assert done.stdout == f"it is built: {folder}/solver\n"
    assert sorted(path.name for path in folder.iterdir()) == ["build.sh", "solver", "upstream"]


def test_one_source_file_is_built_in_the_folder_of_the_job(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    source = tmp_path_factory.mktemp("served") / "tool.sh.in"
    source.write_text("#!/bin/sh\necho 42\n")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(source.parent)))
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        address = (
            f"http://127.0.0.1:{server.server_port}/{source.name}#sha256={sha256(source.read_bytes()).hexdigest()}"
        )
        build = {"src": address, "build_command": "cp tool.sh.in tool; chmod +x tool"}
        data = document("plain", {"target": {"job_scheduler_type": "none"}, "application/build": build})
        (folder / "build.sh").write_text(answer(data, sites=Sites(), now=NOW).build_script or "")
        for said in ("", "it is built: "):
            done = subprocess.run(["sh", "build.sh"], cwd=folder, capture_output=True, text=True)
            assert (done.returncode, done.stdout[: len(said)]) == (0, said), done.stderr
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert subprocess.run([folder / "tool"], capture_output=True, text=True).stdout == "42\n"
    assert sorted(path.name for path in folder.glob("[!.]*")) == ["build.sh", "tool", "tool.sh.in"]


def test_a_failed_build_leaves_nothing(folder: Path) -> None:
    build = {"src": "https://localhost:1/solver.tar.gz", "build_command": "make"}
    change = {"target": {"job_scheduler_type": "none"}, "application/build": build}
    script = answer(document("plain", change), sites=Sites(), now=NOW).build_script or ""
    (folder / "build.sh").write_text(script)
    done = subprocess.run(["sh", "build.sh"], cwd=folder, capture_output=True, text=True)
    assert done.returncode != 0
    assert [path.name for path in folder.iterdir()] == ["build.sh"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("version: 1\ntargets: []\n", ":2: unknown key 'targets'"),
        ("version: 1\ninfrastructures: [{name: a, scheduler: pbs}]\n", ":2: infrastructures[0].scheduler: must be"),
        (
            "version: 1\nscripts: [{name: a, data: {stage: during, raw: x}}]\n",
            ":2: scripts[0].data.stage: must be 'pre' or 'post', not 'during'",
        ),
    ],
)
def test_a_faulty_site_is_refused(text: str, sentence: str, folder: Path) -> None:
    (folder / "sites.yaml").write_text(text)
    with pytest.raises(InputError) as refusal:
        load_sites([folder])
    assert sentence in str(refusal.value)


def test_a_folder_of_a_site_brings_its_images(folder: Path) -> None:
    shutil.copy(DATA / "sites.yaml", folder)
    (folder / "images.yaml").write_text(
        "version: 1\nimages:\n  - {name: ours, source: opt-build, base: ubuntu18.04-cpu, framework: tensorflow, "
        'version: "2.1.0", reference: /mnt/images/ours.sif, microarchitecture: skylake_avx512}\n'
    )
    made = document("training", {"job_options/request_gpus": None, "application/container_runtime": "ours"})
    done = answer(made, sites=load_sites([folder]), now=NOW)
    assert " /mnt/images/ours.sif ./train.sh" in done.job_script
    made["job"]["optimisation"]["enable_opt_build"] = False
    with pytest.raises(InputError, match="has no image 'ours'"):
        answer(made, sites=load_sites([folder]), now=NOW)
