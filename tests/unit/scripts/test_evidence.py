"""``scripts/evidence.py``: its options, and which pages it finds outdated."""

import runpy
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "evidence.py"
OLD, NEW = "| rate |\n|---|\n| 1.0 |\n", "| rate |\n|---|\n| 2.0 |\n"


@pytest.fixture
def evidence(tmp_path, monkeypatch):
    """Return the script's names, with two tables on a page of their own in place of all others."""
    names = runpy.run_path(str(SCRIPT))
    page = tmp_path / "page.md"
    page.write_text("".join(f"<!-- {name}: begin -->\n{OLD}<!-- {name}: end -->\n" for name in ("gains", "evaluation")))
    for table, value in (("TABLES", lambda: NEW), ("PAGES", page)):
        monkeypatch.setitem(names["main"].__globals__, table, dict.fromkeys(("gains", "evaluation"), value))
    return names["main"], page


def test_each_table_has_a_page():
    names = runpy.run_path(str(SCRIPT))
    assert list(names["PAGES"]) == list(names["TABLES"])


def test_a_check_writes_nothing(evidence, capsys):
    main, page = evidence
    before = page.read_text()
    assert main(["--check"]) == 1
    assert "page.md, page.md: not as measured" in capsys.readouterr().err
    assert page.read_text() == before


def test_without_options_all_tables_are_written(evidence):
    main, page = evidence
    assert main([]) == 0
    assert page.read_text().count(NEW) == 2
    assert main(["--check"]) == 0


def test_quick_leaves_the_evaluation_out(evidence):
    main, page = evidence
    assert main(["--quick"]) == 0
    assert (page.read_text().count(NEW), page.read_text().count(OLD)) == (1, 1)
    assert main(["--check", "--quick"]) == 0


@pytest.mark.parametrize("option", ["--chek", "--quic", "gains"])
def test_unknown_options_are_refused(evidence, option, capsys):
    main, page = evidence
    with pytest.raises(SystemExit) as ended:
        main([option])
    assert ended.value.code == 2
    assert option in capsys.readouterr().err
    assert OLD in page.read_text()
