"""The study of native runs against containers: its options, its commands, and a tiny run of the native kind."""

import os
import runpy
import shlex
import subprocess
import sys
import time
import types
from collections import Counter
from pathlib import Path

import pytest

from modak_deploy.errors import InputError, JobError, TargetError
from modak_deploy.evidence import packing, study
from modak_deploy.evidence.benchmarked import table_lines
from modak_deploy.evidence.driver.runs import HERE
from modak_deploy.evidence.page import render
from modak_deploy.evidence.report import report_of_results
from modak_deploy.evidence.study import Study, carry_out, check_study

TOP = Path(__file__).resolve().parents[3]
PROGRAM = """
import json, sys
json.dump({"arguments": sys.argv[1:]}, open("result.json", "w"))
json.dump({"first_epoch_seconds": 0.001, "later_epoch_seconds": [0.001]}, open("metrics.json", "w"))
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def tiny(program, **change):
    return Study(**{"networks": ["snn"], "kinds": ["native"], "runs": 2, "script": program, "others": 1000.0} | change)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"networks": ["small"]}, "--network: 'small' is not one of snn, lnn"),
        ({"phases": ["trainig"]}, "did you mean 'training'"),
        ({"kinds": ["native", "sif-zsd"]}, "did you mean 'sif-zstd'"),
        ({"kinds": ["sandbox"]}, "--kind: native is required"),
        ({"kinds": ["native", "sandbox"]}, "--base is required"),
        ({"kinds": ["native", "sandbox"], "base": Path("/nosuch")}, "--base: /nosuch not found"),
    ],
)
def test_options_are_checked(change, message):
    with pytest.raises(InputError, match=message):
        check_study(Study(**change))


def test_a_tiny_study_has_a_table_and_goes_on(tmp_path, program):
    said = []
    finished = carry_out(tiny(program), tmp_path / "results", tmp_path / "work", said.append)
    assert [one.description.title for one in finished] == ["SNN training", "SNN inference"]
    assert [len(one.default.counted) for one in finished] == [2, 2]
    settings = (tmp_path / "results" / "snn-inference" / "settings.json").read_text()
    assert "--images=145" in settings
    assert "--epochs=1" in settings
    assert "SNN training" in render(report_of_results(tmp_path / "results"))
    said.clear()
    again = carry_out(tiny(program), tmp_path / "results", tmp_path / "work", said.append)
    assert any("goes on after" in line for line in said)
    assert [len(one.default.counted) for one in again] == [2, 2]


def test_a_study_within_the_task_of_an_array_is_none_of_its_own(tmp_path, program, monkeypatch):
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "3")
    study_of = tiny(program, phases=["training"])
    (finished,) = carry_out(study_of, tmp_path / "results", tmp_path / "work", lambda text: None)
    assert len(finished.default.counted) == 2


def test_a_study_that_is_ended_ends_its_driver(tmp_path, program):
    """By Ctrl-C after the first warm-up, while the second one goes on."""
    program.write_text(f"import time\n{PROGRAM}\nopen('out', 'w').close(); time.sleep(0.3)")
    driver = []

    def stop(text):
        if "warm-up" in text:
            driver.extend(path for path in Path("/proc").glob("[0-9]*") if runs_below(path, tmp_path))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        carry_out(tiny(program, phases=["training"]), tmp_path, tmp_path / "work", stop)
    assert len(driver) >= 1
    assert [path for path in driver if path.exists()] == []


def runs_below(process, folder):
    try:
        return (process / "cwd").readlink().is_relative_to(folder)
    except OSError:
        return False


def test_a_study_under_nohup_outlives_the_shell_that_began_it(tmp_path, program):
    """Its driver ends with the process that waits for it, and not with that one's parent."""
    options = ["--network=snn", "--phase=training", "--kind=native", "--runs=2", "--others=1000"]
    study = [sys.executable, "-m", "modak_deploy", "benchmark", "study", *options, f"--script={program}"]
    begun = f"nohup {shlex.join([*study, '--results', 'results'])} >out 2>&1 &"
    subprocess.run(["sh", "-c", begun], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(TOP)}, check=True)
    finished, deadline = tmp_path / "results" / "snn-training" / "benchmark.json", time.monotonic() + 60
    while not finished.is_file() and time.monotonic() < deadline:
        time.sleep(0.2)
    assert finished.is_file(), (tmp_path / "out").read_text()


def test_what_cannot_be_written_is_an_error(tmp_path, program, monkeypatch):
    (tmp_path / "snn-training").write_text("a file")
    with pytest.raises(InputError, match=r"snn-training.*cannot be prepared"):
        carry_out(tiny(program, phases=["training"]), tmp_path, tmp_path / "work", lambda text: None)
    packed = tiny(program, kinds=["native", "charliecloud"], base=tmp_path)
    monkeypatch.setattr(study, "lacking", lambda kind: None)
    with pytest.raises(InputError, match=r"snn-training/images cannot be made: Not a directory"):
        carry_out(packed, tmp_path, tmp_path / "snn-training" / "images", lambda text: None)


def test_another_study_in_the_same_folder_is_an_error(tmp_path, program):
    carry_out(tiny(program, phases=["training"]), tmp_path, tmp_path / "work", lambda text: None)
    with pytest.raises(InputError, match="it holds another study"):
        carry_out(tiny(program, phases=["training"], runs=3), tmp_path, tmp_path / "work", lambda text: None)


def test_a_program_that_fails_is_an_error(tmp_path, program):
    program.write_text("raise SystemExit('no such backend')")
    with pytest.raises(JobError, match="no such backend"):
        carry_out(tiny(program), tmp_path, tmp_path / "work", lambda text: None)


def test_what_this_machine_lacks_is_left_out(tmp_path, program, monkeypatch):
    monkeypatch.setattr(packing.shutil, "which", lambda name: "/bin/sh" if name == "sh" else None)
    said = []
    kinds = ["native", "sif-gzip", "podman", "podman-rootfs", "charliecloud"]
    (tmp_path / "base").mkdir()
    carry_out(tiny(program, kinds=kinds, base=tmp_path / "base", phases=["training"]), tmp_path, tmp_path, said.append)
    assert "podman is left out: podman is not installed" in said
    assert "podman-rootfs is left out: podman is not installed" in said
    assert "sif-gzip is left out: neither apptainer nor singularity is installed" in said


def test_each_kind_shows_the_runs_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(packing, "apptainer", lambda: "/opt/bin/apptainer")
    monkeypatch.setattr(packing, "_import", lambda tree, say: "localhost/modak-study:1")
    monkeypatch.setattr(packing, "_storage_driver", lambda: "overlay")
    made = []

    def run(words, problem):
        made.append(words)
        Path(words[-2]).write_bytes(b"image")

    monkeypatch.setattr(packing, "_run", run)
    packs = {kind: packing.pack(kind, tmp_path / "tree", tmp_path, str) for kind in packing.KINDS if kind != "sandbox"}
    assert [words[3] for words in made] == [f"--mksquashfs-args={text}" for text in packing.SQUASHFS.values()]
    assert packs["sif-zstd"].before == [
        "/opt/bin/apptainer", "exec", "--cleanenv", f"--bind={HERE}", f"--pwd={HERE}/work", f"{tmp_path}/sif-zstd.sif",
    ]  # fmt: skip
    assert packs["sif-zstd"].size == 5
    assert f"--volume={HERE}:{HERE}" in packs["podman"].before
    assert packs["podman"].notes == []
    assert f"--volume={HERE}:/mnt/0" in packs["podman-rootfs"].before
    assert packs["podman-rootfs"].before[-2:] == ["--rootfs", f"{tmp_path}/tree"]
    assert f"--bind={HERE}:/mnt/0" in packs["charliecloud"].before


@pytest.fixture
def podman(tmp_path, monkeypatch):
    """A podman that answers with the driver in a file, and runs a command as it is."""
    program = tmp_path / "bin" / "podman"
    program.parent.mkdir()
    program.write_text(f"""#!/bin/sh
case $1 in
info) cat {tmp_path}/driver ;;
image) grep -qx "$3" {tmp_path}/images ;;
import) cat >/dev/null; echo 0123abcd; [ "$#" = 2 ] || echo "$3" >>{tmp_path}/images ;;
tag) echo "$3" >>{tmp_path}/images ;;
rmi) echo "$2" >>{tmp_path}/removed ;;
run) while :; do case $1 in localhost/*|{tmp_path}/tree) shift; exec "$@" ;; esac; shift; done ;;
esac
""")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree.complete").write_text("1")
    monkeypatch.setattr(study, "make_tree", lambda base, python, work: tmp_path / "tree")
    monkeypatch.setattr(study, "outside", lambda kind, python: None)  # this checkout may lie below /tmp
    return tmp_path / "driver"


@pytest.mark.parametrize("driver, notes", [("overlay", []), ("vfs", [packing.COPIES])])
def test_a_podman_that_copies_images_is_told_in_the_result(tmp_path, program, podman, driver, notes):
    podman.write_text(f"{driver}\n")
    said = []
    kinds = ["native", "podman", "podman-rootfs"]
    tiny_study = tiny(program, kinds=kinds, base=tmp_path, phases=["training"])
    finished = carry_out(tiny_study, tmp_path / "results", tmp_path / "work", said.append)[0]
    assert [len(outcome.counted) for outcome in finished.outcomes] == [2, 2, 2]
    assert finished.description.notes == notes
    assert [line for line in table_lines(finished) if line.startswith("note:")] == [f"note: {note}" for note in notes]
    hints = [line for line in said if "--kind podman-rootfs" in line]
    assert hints == [f"{note}; {packing._NO_COPIES}" for note in notes]
    page = render(report_of_results(tmp_path / "results"))
    assert ("Note on podman: its storage driver vfs copies" in page) == bool(notes)


@pytest.mark.parametrize(
    ("kind", "python", "folder"),
    [
        ("sif-gzip", "/tmp/env/bin/python", "/tmp"),
        ("sandbox", "/var/tmp/env/bin/python", "/var/tmp"),
        ("sif-none", "/home/ada/env/bin/python", "/home/ada"),
        ("podman-rootfs", "/tmp/env/bin/python", "/tmp"),
        ("podman-rootfs", "/home/ada/env/bin/python", None),
        ("podman", "/tmp/env/bin/python", None),
        ("native", "/tmp/env/bin/python", None),
        ("sif-gzip", "/srv/env/bin/python", None),
    ],
)
def test_python_in_a_folder_that_the_machine_shows_is_told(monkeypatch, kind, python, folder):
    monkeypatch.setenv("HOME", "/home/ada")
    note = packing.outside(kind, Path(python))
    assert note == (folder and f"{kind}: {folder} is the machine's, so that {python} is not read from the image")


@pytest.mark.parametrize("code", [0, 2])
def test_an_image_has_its_name_once_all_of_it_is_imported(tmp_path, podman, code):
    tar = tmp_path / "bin" / "tar"
    tar.write_text(f"#!/bin/sh\necho content\nexit {code}\n")
    tar.chmod(0o755)
    if code:
        with pytest.raises(TargetError, match=r"tree cannot be packed: tar ended with exit code 2"):
            packing._import(tmp_path / "tree", str)
        assert (tmp_path / "removed").read_text() == "0123abcd\n"
        assert not (tmp_path / "images").exists()
        tar.write_text("#!/bin/sh\necho content\n")
    image = packing._import(tmp_path / "tree", str)
    assert (tmp_path / "images").read_text() == f"{image}\n"
    tar.unlink()
    said = []
    assert packing._import(tmp_path / "tree", said.append) == image
    assert said == []


def test_a_podman_that_does_not_work_is_an_error(tmp_path, podman):
    with pytest.raises(TargetError, match=r"podman does not work here: .*No such file") as error:
        packing.pack("podman-rootfs", tmp_path / "tree", tmp_path, str)
    assert error.value.diagnostics[0].hint == "leave it out: name the others with --kind"


def test_the_tree_holds_the_same_python_at_the_same_paths(tmp_path, monkeypatch):
    base, outside = tmp_path / "base", tmp_path / "env"
    (base / "etc").mkdir(parents=True)
    (outside / "lib").mkdir(parents=True)
    (outside / "lib" / "a.py").write_text("1")
    (outside / "libx.so.1").write_text("library")
    (outside / "link.so").symlink_to("libx.so.1")
    monkeypatch.setattr(packing, "_closure", lambda python: [outside / "lib", outside / "link.so"])
    tree = packing.make_tree(base, Path(sys.executable), tmp_path / "work")
    inside = tree / str(outside).lstrip("/")
    assert (inside / "lib" / "a.py").read_text() == "1"
    assert (inside / "link.so").read_text() == "library"
    assert (tree / "etc").is_dir()
    made = (tree.with_name("tree.complete")).stat().st_mtime_ns
    packing.make_tree(base, Path(sys.executable), tmp_path / "work")
    assert (tree.with_name("tree.complete")).stat().st_mtime_ns == made
    (outside / "lib" / "installed.py").write_text("2")
    packing.make_tree(base, Path(sys.executable), tmp_path / "work")
    assert (inside / "lib" / "installed.py").read_text() == "2"


def test_a_virtual_environment_is_copied_with_its_links(tmp_path, monkeypatch):
    base, outside = tmp_path / "base", tmp_path / "env"
    base.mkdir()
    (outside / "bin").mkdir(parents=True)
    (outside / "packages").mkdir()
    (outside / "packages" / "current").symlink_to("1.0")
    (outside / "bin" / "python3").write_text("program")
    (outside / "bin" / "python").symlink_to("python3")
    paths = [outside / "bin" / "python", outside / "bin" / "python3", outside / "packages", outside]
    monkeypatch.setattr(packing, "_closure", lambda python: paths)
    inside = packing.make_tree(base, Path(sys.executable), tmp_path / "work") / str(outside).lstrip("/")
    assert (inside / "bin" / "python").readlink() == Path("python3")
    assert (inside / "bin" / "python").read_text() == "program"


def test_a_base_system_whose_links_lead_out_is_an_error(tmp_path, monkeypatch):
    base = tmp_path / "base"
    base.mkdir()
    (base / "lib").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setattr(packing, "_closure", lambda python: [Path("/lib/modak-study-file")])
    with pytest.raises(InputError, match="leads out of the base system"):
        packing.make_tree(base, Path(sys.executable), tmp_path / "work")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_the_python_environment_is_found_with_its_libraries():
    found = packing._closure(Path(sys.executable))
    assert Path(sys.executable) in found
    assert any(path.name == "os.py" or (path / "os.py").is_file() for path in found)
    assert any(path.name.startswith("libc.so") for path in found)


def test_the_networks_have_the_studys_layers(monkeypatch):
    class Named:
        """Stands in for Keras, which takes many seconds to import: every layer is its name."""

        Callback = object

        def __getattr__(self, name):
            return lambda *values, **options: name

    keras = types.ModuleType("keras")
    keras.layers, keras.callbacks = Named(), Named()
    monkeypatch.setitem(sys.modules, "keras", keras)
    program = runpy.run_path(str(Path(study.__file__).parent / "data" / "study_network.py"))
    for build, expected in (("small", (10, 3, 2, 2)), ("large", (28, 8, 4, 6))):
        kinds = Counter(program[build]())
        assert (kinds.total(), kinds["Conv2D"], kinds["Dense"], kinds["Dropout"]) == expected


def changed_program(monkeypatch, program):
    program.write_text(PROGRAM + "# other\n")


def other_packages(monkeypatch, program):
    monkeypatch.setattr(study, "versions", lambda python: ["3.13.1", "keras 9.9"])


def other_machine(monkeypatch, program):
    monkeypatch.setattr(study, "processors", lambda: 4096)


@pytest.mark.parametrize("change", [changed_program, other_packages, other_machine])
def test_a_study_does_not_go_on_with_other_software_or_hardware(tmp_path, program, monkeypatch, change):
    carry_out(tiny(program, phases=["training"]), tmp_path, tmp_path / "work", lambda text: None)
    change(monkeypatch, program)
    with pytest.raises(InputError, match="it holds another study"):
        carry_out(tiny(program, phases=["training"]), tmp_path, tmp_path / "work", lambda text: None)


def test_the_native_runs_are_what_all_others_are_compared_with(tmp_path, program, monkeypatch):
    monkeypatch.setattr(study, "lacking", lambda kind: None)
    monkeypatch.setattr(study, "make_tree", lambda base, python, work: work / "tree")
    broken = {"native": [], "sandbox": ["false"]}
    monkeypatch.setattr(study, "pack", lambda kind, tree, work, say: packing.Packed(kind, broken[kind], None))
    monkeypatch.setattr(study, "outside", lambda kind, python: None)
    asked = tiny(program, kinds=["sandbox", "native", "native"], phases=["training"], base=tmp_path)
    (finished,) = carry_out(asked, tmp_path / "results", tmp_path / "work", lambda text: None)
    assert [(one.name, len(one.counted)) for one in finished.outcomes] == [("native", 2), ("sandbox", 0)]
