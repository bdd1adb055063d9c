"""The command modak: what it prints, what it writes, and how it fails."""

import json
import os
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from modak_deploy import __version__, cli
from modak_deploy.commands import SCHEMAS, now
from modak_deploy.documents import load_deployment
from modak_deploy.errors import InputError
from modak_deploy.model.plan import Plan

TOP = Path(__file__).parents[2]
CASES = yaml.safe_load((TOP / "tests" / "data" / "cli" / "errors.yaml").read_text())
DOCUMENT = """
application:
  name: hello
  executable: /bin/echo
  arguments: ["hello"]
  type: hpc
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deploy.yml").write_text(DOCUMENT)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Return exit code, standard output and standard error of one call."""
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_error(
    case: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in case.get("environment", {}).items():
        monkeypatch.setenv(name, value)
    for name, text in case.get("files", {}).items():
        (tmp_path / name).write_text(text)
    code, out, err = run(capsys, *case["arguments"])
    expected = case["stderr"].replace("FOLDER", str(tmp_path)).replace("HOST", socket.gethostname())
    assert (code, out, err.strip()) == (case["code"], "", expected)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(case.get("files", {}))


def test_plan_as_a_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "plan", "deploy.yml")
    assert (code, err) == (0, "")
    assert out.startswith("Plan for hello on localhost (process)\n")


def test_explained_plan_names_every_rejected_candidate(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, text, _ = run(capsys, "plan", "deploy.yml", "--json")
    _, explained, _ = run(capsys, "plan", "deploy.yml", "--explain")
    words = " ".join(explained.split())
    plan = json.loads(text)
    names = [r["candidate"]["name"] for r in plan["alternatives"]] + [r["name"] for r in plan["rejected"]]
    assert [name for name in names if name not in words] == []


def test_plan_as_json_and_as_a_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1767225600")
    _, out, _ = run(capsys, "plan", "deploy.yml", "--json", "-o", "plan.json")
    assert (folder / "plan.json").read_text() == out
    plan = Plan.model_validate_json(out)
    assert plan.created == "2026-01-01T00:00:00Z"
    assert plan.to_json() == out
    assert plan.chosen.argv == ["/bin/echo", "hello"]
    assert [path.name for path in sorted(folder.iterdir())] == ["deploy.yml", "plan.json"]


@pytest.mark.parametrize("epoch", ["yesterday", "-1", pytest.param("1" * 5000, id="long"), "253402300800"])
def test_a_date_that_is_none_is_refused(epoch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", epoch)
    with pytest.raises(InputError, match=r"SOURCE_DATE_EPOCH is '.{1,40}'"):
        now()


def test_sections_of_a_later_document_replace_those_before(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "more.yml").write_text("target: {name: elsewhere}\njob: {name: other}\n")
    _, out, _ = run(capsys, "plan", "deploy.yml", "more.yml", "--json")
    plan = json.loads(out)
    assert (plan["name"], plan["target"]["name"], plan["application"]["name"]) == ("other", "elsewhere", "hello")


def test_a_plan_over_several_targets_tells_why_not_the_others(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = "{name: small, node: {cores: 1}}"
    (folder / "more.yml").write_text(f"other_targets: [{{name: twin}}, {small}]\njob: {{cores_per_rank: 2}}\n")
    code, out, err = run(capsys, "plan", "deploy.yml", "more.yml", "--json")
    assert (code, err) == (0, "")
    told = {other["target"]["name"]: other["reason"] for other in json.loads(out)["other_targets"]}
    assert told.keys() == {"twin", "small"}
    assert told["twin"].startswith("no time is known on ")
    assert told["small"].endswith("need 2 cores, and a node of the target small has 1")
    (folder / "small.yml").write_text(f"target: {small}\nother_targets: [{small.replace('small', 'tiny')}]\n")
    code, _, err = run(capsys, "plan", "deploy.yml", "more.yml", "small.yml")
    assert code == 3
    assert err.startswith("no target can do what was asked: on small: ")


def test_files_are_looked_for_where_told_and_beside_the_documents(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("told", "beside"):
        (folder / name).mkdir()
        (folder / name / "a.txt").write_text(name)
        (folder / name / "deploy.yml").write_text(DOCUMENT + "  inputs: [a.txt]\n")
    _, beside, _ = run(capsys, "plan", "beside/deploy.yml", "--json")
    _, told, _ = run(capsys, "plan", "beside/deploy.yml", "--search", "told", "--json")
    _, given, _ = run(capsys, "plan", "beside/deploy.yml", "-e", "search_paths=told", "--json")
    (folder / "more.yml").write_text("search_paths: [told]\n")
    _, documented, _ = run(capsys, "plan", "beside/deploy.yml", "more.yml", "--json")
    sizes = [json.loads(text)["sources"][0]["size"] for text in (beside, told, given, documented)]
    assert sizes == [6, 4, 4, 4]


@pytest.mark.parametrize("kind", sorted(SCHEMAS))
def test_schema(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "schema", kind)
    schema = json.loads(out)
    assert (code, err) == (0, "")
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False


def test_schema_of_plan_has_its_own_name(capsys: pytest.CaptureFixture[str]) -> None:
    schema = json.loads(run(capsys, "schema", "plan")[1])
    assert schema["properties"]["schema"]["const"] == "modak.plan/2"


def test_discovered_target_is_a_section_of_a_document(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "discover", "--name", "mine")
    assert (code, err) == (0, "")
    (folder / "whole.yml").write_text(DOCUMENT + out)
    target = load_deployment(folder / "whole.yml").target
    assert target.name == "mine"
    assert target.node is not None
    assert target.node.cores
    assert target.node.memory


def test_discovered_facts(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "discover", "--facts")
    assert json.loads(out)["hostname"] == socket.gethostname()


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "--version") == (0, f"modak {__version__}\n", "")


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--help")
    assert code == 0
    assert [name for name in ("plan", "discover", "schema") if f"  {name} " not in out] == []


@pytest.mark.parametrize("name", [name for name, place in cli.SECTIONS.items() if find_spec(place.partition(":")[0])])
def test_section(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, name, "--help")
    assert code == 0
    assert f"modak {name}" in out


HEAVY = [
    *("ansible", "http.client", "jinja2", "numpy", "onnxruntime", "paramiko", "rich", "sklearn", "sqlalchemy"),
    *("toscaparser", "urllib.request"),
]


def test_a_plan_for_this_machine_needs_no_heavy_import(folder: Path) -> None:
    code = f"""
import sys
from modak_deploy.cli import main
try:
    main(["plan", "deploy.yml", "--json"])
finally:
    print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)
"""
    environment = {**os.environ, "PYTHONPATH": str(TOP)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.stderr.strip() == "[]"
    assert json.loads(done.stdout)["name"] == "hello"


OPTIONS = yaml.safe_load((TOP / "tests" / "data" / "schedulers" / "options.yaml").read_text())
REFUSED = [c for c in OPTIONS if str(c.get("process", "")).startswith("job.") and "resources" not in c]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case["name"])
def test_option_that_a_plain_machine_does_not_support(
    case: dict[str, Any], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = "".join(f"  {key}: {json.dumps(value)}\n" for key, value in case["job"].items())
    (folder / "deploy.yml").write_text(f"{DOCUMENT}job:\n{job}")
    code, out, err = run(capsys, "plan", "deploy.yml")
    key = case["process"].split(":")[0]
    line = (folder / "deploy.yml").read_text().splitlines().index(f"  {key[4:]}: {json.dumps(case['job'][key[4:]])}")
    assert (code, out) == (2, "")
    assert err.startswith(f"deploy.yml:{line + 1}: {key}: not supported by a plain machine: ")


def test_target_that_does_not_support_an_option_is_left_for_another(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "deploy.yml").write_text(f"{DOCUMENT}target: {{name: one}}\nother_targets: [{{name: two}}]\n")
    (folder / "more.yml").write_text("job:\n  account: x\n")
    code, _, err = run(capsys, "plan", "deploy.yml", "more.yml")
    assert (code, err.count("job.account: not supported by a plain machine")) == (3, 2)


def test_an_invalid_image_reference_has_its_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "deploy.yml").write_text(f"{DOCUMENT}  image: x://y\n")
    code, _, err = run(capsys, "plan", "deploy.yml")
    assert (code, err.startswith("deploy.yml:7: application.image: image reference 'x://y': ")) == (2, True)


def test_a_target_that_is_as_described_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "deploy.yml").write_text(f"{DOCUMENT}target: {{name: here}}\n")
    assert run(capsys, "discover", "--check", "deploy.yml")[:2] == (0, "here: as described\n")
