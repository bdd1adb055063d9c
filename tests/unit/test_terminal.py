"""Nothing that comes from a target or a user's file moves the cursor, hides text or forges a line."""

import io
import json
import sys
from pathlib import Path

import pytest

from modak_deploy.cli import main
from modak_deploy.terminal import ends, excerpt, lines, protected_output, visible

STRINGS = json.loads((Path(__file__).parents[1] / "data" / "fuzz" / "strings.json").read_text())


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain zwölf 字 🎉\n\tx", "plain zwölf 字 🎉\n\tx"),
        ("\x1b[2J\x07\r\x7f", "\\u001b[2J\\u0007\\u000d\\u007f"),
        ("\x9b31m\x85", "\\u009b31m\\u0085"),
        ("a\u202egnp.exe\u2066", "a\\u202egnp.exe\\u2066"),
        ("\u2028\u2029\u200b\ufeff", "\\u2028\\u2029\\u200b\\ufeff"),
        ("\udcff\ud800", "\\udcff\\ud800"),
        ("\U000e0041", "\\udb40\\udc41"),
    ],
)
def test_visible(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize("text", STRINGS)
def test_json_stays_what_it_was(text: str) -> None:
    document = json.dumps({text: [text]}, ensure_ascii=False)
    assert json.loads(visible(document)) == json.loads(document)


def test_a_log_has_no_forged_line() -> None:
    assert lines("10%\r20%\r\nPLAY RECAP\u2028ok: [host]\x0b\x85\n") == [
        "10%",
        "20%",
        "PLAY RECAP\\u2028ok: [host]\\u000b\\u0085",
    ]


def test_excerpt_is_one_short_line() -> None:
    assert excerpt("a\nb\tc") == "a\\nb c"
    assert excerpt("x" * 1000, 10) == "xxxxxxxxxx..."


def test_a_long_message_keeps_its_two_ends() -> None:
    assert ends("a\nb") == "a\\nb"
    assert ends("not pulled: " + "x" * 5000 + ": refused", 20) == "not pulled ... x: refused"
    assert ends("\x1b" * 5000, 12) == "\\u001b ... \\u001b"


def test_output_is_protected_whoever_writes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    with protected_output():
        print("\x1b[31mred", "\x9b")
        sys.stdout.writelines(["\x07", "\n"])
        print("\u202e", file=sys.stderr)
        assert not hasattr(sys.stdout, "buffer")
    assert (out.getvalue(), err.getvalue()) == ("\\u001b[31mred \\u009b\n\\u0007\n", "\\u202e\n")
    assert sys.stdout is out


def test_an_error_of_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = tmp_path / "deploy.yml"
    document.write_text('application: {name: "x", script: a.py, "\\e[2J\\u202e": 1}\n')
    with pytest.raises(SystemExit):
        main(["plan", str(document)])
    said = capsys.readouterr().err
    assert "\x1b" not in said and "\u202e" not in said and "u001b[2J" in said
