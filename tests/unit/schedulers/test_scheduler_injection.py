"""Whatever a user writes arrives literally or is refused by its key; nothing of it is executed."""

import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from examples import examples
from modak_deploy.errors import InputError
from modak_deploy.jobs.script import render
from modak_deploy.model.base import SchedulerName
from modak_deploy.transport.local import encode
from scheduler_parts import make

# Each would leave a file at $CANARY, or change the job, if anything took it for more than text.
NASTY = [
    "$(touch $CANARY)",
    "`touch $CANARY`",
    "; touch $CANARY #",
    "\ntouch $CANARY\n",
    "'; touch $CANARY; '",
    '"; touch $CANARY; "',
    "& touch $CANARY &",
    "| touch $CANARY",
    "$(touch${IFS}$CANARY)",
    "\r\ntouch $CANARY\r\n",
    "'\"'\"'",
    "\\",
    "\\'",
    "\n#SBATCH --nodes=99\n",
    "\n#PBS -l nodes=99\n",
    "#SBATCH --wrap=x",
    " --wrap=touch",
    "{{ 7 * 7 }}",
    "{% include '/etc/passwd' %}",
    "{{ ''.__class__ }}",
    "{#",
    "${#A[@]}",
    "$HOME",
    "$$",
    "~root",
    "*",
    "?[a-z]",
    "!!",
    "%j",
    "%s%n",
    "-n",
    "--",
    "=",
    "EOT",
    "\t",
    "\x1b[2J",
    "\x7f",
    "é",
    "日本",
    "🚀",
    "\u202e",
    "\u2028",
    " ",
    "",
    "..",
    "../..",
    "/",
]
text = st.lists(st.sampled_from(NASTY) | st.text(st.characters(codec="utf-8"), max_size=6), max_size=5).map("".join)
word = st.sampled_from(["A", "proj", "n1", "gpu"])
mixed = text | st.tuples(word, text, word).map("".join)
SETTINGS = settings(
    max_examples=examples(300),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
RECORDER = """#!/bin/sh
printf '%s\\0' "$@" >../seen
printf '%s\\0' "$PWD" "$FIRST" "$SECOND" "$THIRD" >>../seen
echo out; echo err >&2
"""


@settings(SETTINGS, max_examples=examples(380))  # of which some 320 run; the rest is refused
@given(
    arguments=st.lists(mixed, max_size=4),
    values=st.tuples(mixed, mixed, mixed),
    folder=mixed,
    output=st.just("out put.log") | mixed.map(lambda name: re.sub(r"[\r\n%]|\.\.", "-", f"o{name}")) | mixed,
)
def test_values_arrive_literally_in_a_job_that_runs(
    arguments: list[str], values: tuple[str, str, str], folder: str, output: str
) -> None:
    with tempfile.TemporaryDirectory() as top:
        canary = Path(top, "canary")
        directory = Path(top, "runs", folder.replace("/", "_").replace("\0", "_")[:60] + "_")
        try:
            part = make(
                "process",
                ("./recorder", *arguments),
                directory=str(directory),
                job={"output": output, "environment": {"SECOND": values[1]}},
                environment={"FIRST": values[0]},
                candidate={"environment": {"THIRD": values[2]}},
            )
            script = part.script()
        except (ValidationError, InputError) as refusal:
            assert named(refusal) & {"argv", "environment", "output", "a NUL character"}, str(refusal)
            return
        for name in ("work", "state"):
            (directory / name).mkdir(parents=True)
        (directory / "work" / "recorder").write_text(RECORDER)
        (directory / "work" / "recorder").chmod(0o755)
        target = Path(part.spec.output)
        escapes = ".." in output or output.endswith("/") or output in (".", "") or len(os.fsencode(target.name)) > 240
        if escapes:
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        (directory / "job.sh").write_bytes(encode(script))
        done = subprocess.run(
            ["/bin/sh", str(directory / "job.sh")],
            env={**os.environ, "CANARY": str(canary)},
            cwd=top,
            capture_output=True,
            stdin=subprocess.DEVNULL,
        )
        assert not canary.exists(), script
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        seen = (directory / "seen").read_bytes().split(b"\0")[:-1]
        assert seen == [encode(value) for value in (*arguments, f"{directory}/work", *values)] or (
            not arguments and seen[1:] == [encode(value) for value in (f"{directory}/work", *values)]
        )
        assert target.read_text() == "out\nerr\n"


def named(refusal: ValidationError | InputError) -> set[str]:
    """Return the fields that a refusal names."""
    if isinstance(refusal, ValidationError):
        return {str(place) for error in refusal.errors() for place in error["loc"]}
    words = re.findall(r"(?:job|target|application)\.(\w+)", str(refusal))
    return {*words, *(["a NUL character"] if "a NUL character" in str(refusal) else [])}


FIELDS = [
    "name",
    "account",
    "partition",
    "qos",
    "constraint",
    "node_list",
    "mail_user",
    "begin",
    "array",
    "output",
    "gpu_spelling",
    "dependency",
]
HARMLESS = re.compile(r"#(SBATCH --|PBS -)[A-Za-z0-9_ =,.:;@%&|*()\[\]/+^-]+")


@pytest.mark.parametrize("scheduler", ["slurm", "torque", "openpbs"])
@SETTINGS
@given(field=st.sampled_from(FIELDS), value=mixed)
def test_a_directive_holds_nothing_but_its_value(scheduler: SchedulerName, field: str, value: str) -> None:
    job: dict[str, Any] = {"mail_events": ["end"]}
    target: dict[str, Any] = {}
    if field == "gpu_spelling":
        target[field] = value
    else:
        job[field] = [f"afterok:{value}"] if field == "dependency" else value
    plain = make(scheduler, job={"mail_events": ["end"]}, resources={"gpus": 1})
    before = [line.split("=")[0].split(" ")[1] for line in plain.scheduler.directives(plain.spec)]
    try:
        part = make(scheduler, job=job, target=target, resources={"gpus": 1})
        script = part.script()
    except (ValidationError, InputError) as refusal:
        assert field in named(refusal), str(refusal)
        return
    header, _, body = script.partition("\n#\n")
    lines = header.splitlines()
    assert lines[0] == "#!/bin/sh"
    assert all(HARMLESS.fullmatch(line) for line in lines[1:]), header
    options = [line.split("=")[0].split(" ")[1] for line in lines[1:]]
    assert len(options) <= len(before) + 2, "a value has become an option of its own"
    # Both schedulers stop reading at the first command, which comes before any value of the user's.
    first = body.splitlines().index(next(line for line in body.splitlines() if line.startswith("modak_")))
    assert not re.search(r"^#(SBATCH|PBS)", "\n".join(body.splitlines()[:first]), re.MULTILINE)


@SETTINGS
@given(value=mixed)
def test_names_of_variables_modules_and_libraries(value: str) -> None:
    try:
        script = make(
            "slurm", job={"environment": {value: "x"}, "modules": [value]}, candidate={"preload": [value]}
        ).script()
    except (ValidationError, InputError) as refusal:
        assert named(refusal) & {"environment", "modules", "preload"}, str(refusal)
        return
    assert re.search(rf"^  export {re.escape(value)}=x$", script, re.MULTILINE)


@pytest.mark.parametrize(("scheduler", "program"), [("slurm", "sbatch"), ("torque", "qsub"), ("openpbs", "qsub")])
@settings(SETTINGS, max_examples=examples(60))
@given(folder=mixed)
def test_the_folder_reaches_the_scheduler_literally(scheduler: SchedulerName, program: str, folder: str) -> None:
    with tempfile.TemporaryDirectory() as top:
        canary = Path(top, "canary")
        directory = Path(top, folder.replace("/", "_").replace("\0", "_")[:60] + "_")
        directory.mkdir()
        recorder = Path(top, program)
        recorder.write_text('#!/bin/sh\nprintf "%s\\0" "$PWD" "$@" >"$SEEN"\necho 1\n')
        recorder.chmod(0o755)
        part = make(scheduler, directory=str(directory))
        if scheduler != "slurm" and not re.fullmatch(r"[\w./+@=~-]+", str(directory), re.ASCII):
            with pytest.raises(InputError, match=r"^target\.workspace"):
                part.script()
        command = part.scheduler.submit_command(part.spec)
        environment = {"PATH": f"{top}:{os.environ['PATH']}", "CANARY": str(canary), "SEEN": f"{top}/seen"}
        done = subprocess.run(["/bin/sh", "-c", command], env=environment, cwd=top, capture_output=True)
        assert done.returncode == 0, done.stderr
        assert not canary.exists()
        seen = Path(top, "seen").read_bytes().split(b"\0")[:-1]
        assert seen[0] == encode(str(directory))
        assert seen[-1] == encode(f"{directory}/job.sh")


@settings(SETTINGS, max_examples=examples(100))
@given(value=mixed)
def test_shell_of_the_users_own_cannot_break_out_of_its_step(value: str) -> None:
    """It is run, because it is shell, but where it is no whole piece of shell the rest of the script is unharmed."""
    try:
        part = make("process", ("true",), job={"pre_execution": value, "post_execution": value})
    except ValidationError as refusal:
        assert named(refusal) & {"pre_execution", "post_execution"}
        return
    script = render(part.spec, part.request, part.scheduler)
    done = subprocess.run(["/bin/sh", "-n"], input=encode(script), capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


@settings(SETTINGS, max_examples=examples(80))
@given(folder=mixed, output=mixed)
def test_a_scratch_folder_and_what_comes_back_from_it_are_taken_literally(folder: str, output: str) -> None:
    with tempfile.TemporaryDirectory() as top:
        canary, directory = Path(top, "canary"), Path(top, "job")
        place = f"{top}/{folder.replace('/', '_').replace(chr(0), '_')[:60]}_"
        try:
            part = make(
                "process", ("./writer", f"-{output}"), directory=str(directory), job={"scratch": place},
                application={"outputs": [f"-{output}"]},
            )  # fmt: skip
            script = part.script()
        except (ValidationError, InputError) as refusal:
            assert named(refusal) & {"scratch", "outputs", "argv", "a NUL character"}, str(refusal)
            return
        for path in (Path(place), directory / "work", directory / "state"):
            path.mkdir(parents=True)
        written = directory / "work" / f"-{output}"
        if output.endswith("/") or any(len(os.fsencode(name)) > 240 for name in written.parts):
            return
        (directory / "work" / "writer").write_text('#!/bin/sh\nmkdir -p "./${1%/*}" && rmdir "./$1"\necho x >"./$1"\n')
        (directory / "work" / "writer").chmod(0o755)
        (directory / "job.sh").write_bytes(encode(script))
        environment = {**os.environ, "CANARY": str(canary)}
        done = subprocess.run(["/bin/sh", str(directory / "job.sh")], env=environment, cwd=top, capture_output=True)
        log = (directory / "output.log").read_text(errors="replace")
        assert not canary.exists(), script
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b""), log
        assert written.read_text() == "x\n"
        assert not list(Path(place).iterdir())
