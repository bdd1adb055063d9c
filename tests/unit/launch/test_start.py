"""Unchanged programs under the launcher, in processes of their own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from launch_parts import launch
from modak_deploy.launch import bundle

ANY = """
import sys
print("arguments", sys.argv[1:])
print("first on the path", sys.path[0])
"""


def interpreter(name):
    """Return an interpreter that runs, pyenv's included; its shims are on the path also for versions that do not."""
    folder = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    paths = [shutil.which(name), *(str(one) for one in sorted(folder.glob(f"*/bin/{name}")))]
    for path in filter(None, paths):
        if subprocess.run([path, "-c", ""], capture_output=True).returncode == 0:
            return path
    return None


def older_pythons():
    """Return the interpreters that are older than modak's own, from 3.8 on, the oldest first."""
    return list(filter(None, (interpreter(f"python3.{minor}") for minor in range(8, sys.version_info[1]))))


@pytest.fixture
def script(tmp_path):
    def write(text, name="program.py"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


def test_a_program_without_a_framework_runs_as_it_is(script, tmp_path):
    done = launch([sys.executable, str(script(ANY)), "-m", "a b"], tmp_path, {"trials": {"mode": "live"}})
    assert done.stdout == f"arguments ['-m', 'a b']\nfirst on the path {tmp_path}\n"
    assert (done.stderr, done.returncode, done.entries) == ("", 0, [])


@pytest.mark.parametrize("code", [0, 3, 255])
def test_exit_codes_stay(script, tmp_path, code):
    assert launch(script(f"import sys; sys.exit({code})"), tmp_path, {}).returncode == code


def test_a_signal_ends_it_as_ever(script, tmp_path):
    text = "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"
    assert launch(script(text), tmp_path, {}).returncode == -15


def test_standard_input_is_the_programs(script, tmp_path):
    done = launch(script("print(input() + '!')"), tmp_path, {}, input="line\n")
    assert done.stdout == "line!\n"


def test_modules_and_console_scripts_are_covered(script, tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__main__.py").write_text(
        "import modak_launch.session as s; print(s.current() is not None)"
    )
    assert launch([sys.executable, "-m", "package"], tmp_path, {}).stdout == "True\n"
    program = script(f"#!{sys.executable}\nimport modak_launch.session as s; print(s.current() is not None)", "console")
    program.chmod(0o755)
    assert launch([str(program)], tmp_path, {}).stdout == "True\n"
    assert launch(["sh", "-c", f'"{program}"; "{program}"'], tmp_path, {}).stdout == "True\nTrue\n"


def test_an_archive_does_what_the_folder_does(script, tmp_path):
    bundle.write_archive(str(tmp_path / "launch.zip"))
    program = script("import modak_launch.session as s; print(s.__file__); import sklearn_like")
    (tmp_path / "sklearn_like.py").write_text("")
    done = launch(program, tmp_path, {}, environment={"PYTHONPATH": str(tmp_path / "launch.zip")})
    assert "launch.zip/modak_launch/session.py" in done.stdout
    assert done.returncode == 0


@pytest.mark.parametrize("text", ["PATH = __file__", "import sys; sys.path.append('/added'); PATH = __file__"])
def test_the_sitecustomize_that_is_hidden_runs(script, tmp_path, text):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(text)
    program = script("import sys, sitecustomize; print(sitecustomize.PATH); print('/added' in sys.path, sys.path[1:3])")
    done = launch(program, tmp_path, {}, behind=[str(tmp_path / "site")])
    assert done.stdout.splitlines()[0] == str(tmp_path / "site" / "sitecustomize.py")
    expected = [str(tmp_path / "path"), str(tmp_path / "site")]
    assert done.stdout.splitlines()[1] == f"{'/added' in text} {expected}"


def test_a_hidden_sitecustomize_that_fails_fails_as_without_the_launcher(script, tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text("1 / 0")
    done = launch(script("print('runs')"), tmp_path, {}, behind=[str(tmp_path / "site")])
    assert "ZeroDivisionError" in done.stderr
    assert done.stdout == "runs\n"


OWN = "import statistics, socket; print(statistics.OWN, hasattr(socket, 'socket'))"


@pytest.mark.parametrize("how", ["script", "-c", "-uc", "-m", "-X dev -m", "folder", "on the path"])
def test_modules_of_the_program_come_before_the_standard_library(script, tmp_path, how):
    for folder in ("own", "other"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "statistics.py").write_text("print('imported'); OWN = 1\n")
    (tmp_path / "other" / "tempfile.py").write_text("print('not wanted')\n")
    for name in ("own/main.py", "own/__main__.py", "program.py"):
        (tmp_path / name).write_text(OWN)
    words = {"script": ["main.py"], "-c": ["-c", OWN], "-uc": ["-uc", OWN], "-m": ["-m", "main"]}
    words |= {"-X dev -m": ["-X", "dev", "-m", "main"], "folder": ["."], "on the path": [str(tmp_path / "program.py")]}
    behind = [str(tmp_path / "other")] if how == "on the path" else []
    done = launch([sys.executable, *words[how]], tmp_path, {}, cwd=tmp_path / "own", behind=behind)
    assert (done.stdout, done.stderr) == ("imported\n1 True\n", "")


ADDED = """
import statistics as first, sys
import onnxruntime, statistics
print(first is statistics)
sys.path.insert(0, "added")
del sys.modules["statistics"]
"""


@pytest.mark.parametrize("before", ["", ADDED], ids=["at once", "after the standard library's"])
def test_modules_of_a_folder_that_the_program_adds_are_the_programs(script, tmp_path, before):
    (tmp_path / "added").mkdir()
    (tmp_path / "added" / "statistics.py").write_text("OWN = 1\n")
    (tmp_path / "onnxruntime.py").write_text("class InferenceSession:\n    def run(self):\n        pass\n")
    program = script(f"{before}import sys; sys.path.insert(0, 'added'); import statistics; print(statistics.OWN)")
    done = launch(program, tmp_path, {"trials": {"mode": "live"}})
    assert done.stdout.splitlines() == [*(["True"] if before else []), "1"], done.stderr


LATER = {
    "later": "import keras; print('before'); import statistics",
    "before": "import statistics; print('before'); import keras; import statistics",
}


@pytest.mark.parametrize("when", sorted(LATER))
def test_modules_of_the_program_are_not_run_for_an_adapter(script, tmp_path, when):
    (tmp_path / "statistics.py").write_text("print('imported'); OWN = 1\n")
    (tmp_path / "mmap.py").write_text("print('not wanted')\n")
    for name in ("keras", "onnxruntime"):
        (tmp_path / f"{name}.py").write_text("__version__ = '99.0'\n")
    program = script(f"{LATER[when]}; import onnxruntime; print(statistics.OWN)")
    done = launch(program, tmp_path, {"trials": {"mode": "live"}})
    words = ["before", "imported", "1"] if when == "later" else ["imported", "before", "1"]
    assert done.stdout.split() == words, done.stderr
    assert [line.split(":")[2] for line in done.stderr.splitlines()] == [" AttributeError"] * 2


@pytest.mark.parametrize(
    ("config", "line"),
    [
        ({"version": 7}, "modak: the launcher is not used: "),
        ({"trials": {"share": -1}}, "share: must be a number from 0 to 1"),
        ({"levers": ["no-such-lever"]}, "modak: no-such-lever is not used: no lever has this name"),
    ],
)
def test_a_faulty_configuration_is_one_line_and_the_program_runs(script, tmp_path, config, line):
    done = launch(script("print('runs')"), tmp_path, config)
    assert done.stdout == "runs\n"
    assert line in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_missing_configuration_is_one_line_and_the_program_runs(script, tmp_path):
    done = launch(script("print('runs')"), tmp_path, {}, environment={"MODAK_LAUNCH": "/none"})
    assert (done.stdout, done.stderr.count("\n")) == ("runs\n", 1)


def test_a_fault_of_the_launchers_own_is_one_line_and_the_program_runs(script, tmp_path):
    bundle.write_folder(str(tmp_path / "path"))
    (tmp_path / "path" / bundle.PACKAGE / "config.py").write_text("1 / 0\n")
    done = launch(script("print('runs')"), tmp_path, {})
    assert done.stdout == "runs\n"
    assert done.stderr == "modak: the launcher cannot start (division by zero); the program runs as it is\n"


FAKE = """
__version__ = "99.0"
"""


def test_an_adapter_that_fails_leaves_the_framework_as_it_is(script, tmp_path):
    (tmp_path / "torch.py").write_text(FAKE)
    done = launch(script("import torch; print(torch.__version__)"), tmp_path, {"trials": {"mode": "live"}})
    assert done.stdout == "99.0\n"
    assert done.stderr.startswith("modak: the adapter of pytorch is not used: AttributeError: ")
    assert [entry["event"] for entry in done.entries] == ["fallback", "end"]


def test_a_lever_that_fails_is_one_line_and_an_entry(script, tmp_path):
    (tmp_path / "keras.py").write_text(FAKE)
    done = launch(script("import keras; print('runs')"), tmp_path, {"levers": ["keras-mixed-bfloat16"]})
    assert done.stdout == "runs\n"
    assert "modak: keras-mixed-bfloat16 is not used: AttributeError: " in done.stderr
    assert done.entries[0]["what"] == "keras-mixed-bfloat16"


def test_a_lever_for_another_version_is_not_used(script, tmp_path):
    (tmp_path / "keras.py").write_text("__version__ = '2.15'")
    done = launch(script("import keras"), tmp_path, {"levers": ["keras-mixed-bfloat16"]})
    assert "keras 2.15 is not supported; it needs >=3" in done.stderr


FORKS = """
import modak_launch.session as s, multiprocessing, os

def child(queue):
    queue.put(s.current() is not None and s.current().active)

if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        queue = context.Queue()
        process = context.Process(target=child, args=(queue,))
        process.start()
        print(method, queue.get())
        process.join()
    print("own", s.current().active)
"""


def test_children_take_no_part(script, tmp_path):
    done = launch(script(FORKS), tmp_path, {})
    assert done.stdout == "fork False\nspawn False\nforkserver False\nown True\n"


def test_a_program_that_a_program_starts_takes_part_by_itself(script, tmp_path):
    inner = script("import modak_launch.session as s; print(s.current().active)", "inner.py")
    outer = script(f"import subprocess, sys; subprocess.run([sys.executable, {str(inner)!r}], check=True)")
    assert launch(outer, tmp_path, {}).stdout == "True\n"


def test_what_was_being_tried_when_a_run_crashed_is_not_tried_again(tmp_path, session_of):
    from modak_deploy.launch.config import Config, Trials
    from modak_deploy.launch.session import Session

    (tmp_path / "node-7.jsonl").write_text('{"event": "trying", "lever": "pytorch-channels-last"}\n')
    trials = Trials(mode="live", candidates=["pytorch-channels-last", "pytorch-fused-optimizer"])
    session = Session(Config(record=str(tmp_path), trials=trials))
    names = [lever.name for lever in session.candidates("pytorch", "2.13", lambda lever: True)]
    assert names == ["pytorch-fused-optimizer"]
    assert "an earlier run of this job ended while it was tried" in Path(session.record.path).read_text()


@pytest.mark.parametrize("python", older_pythons()[:2] or [None])
def test_the_oldest_pythons_run_it(script, tmp_path, python):
    if python is None:
        pytest.skip("no Python from 3.8 on older than this one is installed")
    (tmp_path / "keras.py").write_text("__version__ = '3.0'\nconfig = None")
    text = f"import keras\nfrom {bundle.PACKAGE} import lever, session, search, bundle\n"
    text += "print(session.current().active, len(lever.all_levers()) > 20)"
    done = launch([python, str(script(text))], tmp_path, {"levers": ["keras-mixed-bfloat16"]})
    assert done.stdout == "True True\n", done.stderr
    assert "modak: keras-mixed-bfloat16 is not used: AttributeError" in done.stderr
    assert done.returncode == 0


@pytest.mark.parametrize("name", ["python2.7", "python3.6", "python3.7"])
def test_pythons_that_are_too_old_run_their_program(script, tmp_path, name):
    python = interpreter(name)
    if python is None:
        pytest.skip(f"{name} is not installed")
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text("print('hidden')")
    done = launch([python, str(script("print('runs')"))], tmp_path, {}, behind=[str(tmp_path / "site")])
    assert done.stdout == "hidden\nruns\n"
    assert done.stderr == "modak: the launcher needs Python 3.8; the program runs as it is\n"


def test_the_language_is_python_3_8(tmp_path):
    """The checker knows what an older interpreter would not read, where none is installed."""
    bundle.write_folder(str(tmp_path))
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--target-version", "py38"]
    checked = subprocess.run([*command, "--select", "F", str(tmp_path)], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout


def test_what_runs_while_python_ends_takes_no_part(script, tmp_path):
    text = "import modak_launch.session as s\nclass Late:\n    def __del__(self):\n        print(self.session.active)\n"
    done = launch(script(text + "late = Late(); late.session = s.current(); late.__del__()"), tmp_path, {})
    assert (done.stdout, done.stderr) == ("True\nFalse\n", "")


def test_of_the_launchers_of_two_jobs_one_starts(script, tmp_path):
    """A job that is submitted from within another one inherits that one's PYTHONPATH."""
    bundle.write_folder(str(tmp_path / "outer"))
    text = "import sys; print([type(finder).__name__ for finder in sys.meta_path].count('ImportHooks'))"
    assert launch(script(text), tmp_path, {}, behind=[str(tmp_path / "outer")]).stdout == "1\n"


def test_records_of_other_processes_are_read_once_something_is_tried(script, tmp_path):
    """A job may start thousands of interpreters, each of which leaves a record."""
    (tmp_path / "record").mkdir()
    (tmp_path / "record" / "node-token-7.jsonl").write_text('{"event": "trying", "lever": "pytorch-compile"}\n')
    text = "import modak_launch.session as s; now = s.current(); print('_crashed' in vars(now), now._crashed)"
    done = launch(script(text), tmp_path, {"trials": {"mode": "live"}})
    assert done.stdout == "False ['pytorch-compile']\n"
