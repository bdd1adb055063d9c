"""What a target reports is checked where it is parsed."""

import pytest

from modak_deploy import reported
from modak_deploy.errors import TargetError

CONTROL = ["\n", "\r", "\0", "\x1b", "\x7f", "\x85", "\u2028", "\u202e", "\t", "\udcff"]


@pytest.mark.parametrize("mark", CONTROL)
def test_control_characters_anywhere(mark: str) -> None:
    for check, text in [
        (lambda text: reported.absolute_path(text, "a folder"), f"/a{mark}b"),
        (reported.job_id, f"1{mark}"),
        (reported.host_name, f"n{mark}1"),
        (lambda text: reported.token(text, "tag"), f"a{mark}"),
        (lambda text: reported.integer(text, "number"), f"1{mark}2"),
        (reported.time, f"1{mark}2"),
    ]:
        with pytest.raises(TargetError) as caught:
            check(text)
        assert mark not in str(caught.value)


@pytest.mark.parametrize("text", ["", "relative", "/a/../b", "/..", "/a/./b", "/" + "x" * 5000, "~/x"])
def test_no_absolute_path(text: str) -> None:
    with pytest.raises(TargetError, match="reports a folder that is not supported"):
        reported.absolute_path(text, "a folder")


@pytest.mark.parametrize("text", ["", "-1", "²", "٣", "1e3", "1_000", "9" * 5000, "0x1", "1.5", "256"])
def test_no_exit_code(text: str) -> None:
    with pytest.raises(TargetError, match="reports a exit code that is not valid"):
        reported.integer(text, "exit code", most=255)


@pytest.mark.parametrize("text", ["", "-1", "inf", "nan", "1e300", "99999999999999", "9" * 5000, "²"])
def test_no_time(text: str) -> None:
    with pytest.raises(TargetError):
        reported.time(text)


@pytest.mark.parametrize("text", ["17", "17_3", "17[].server.example.org", "12.pbs", "4056-161042", "1.a@b:15001"])
def test_job_ids_of_all_schedulers(text: str) -> None:
    assert reported.job_id(text) == text


@pytest.mark.parametrize("text", ["-1", "", "a b", "a;b", "$(id)", "x" * 300, "../x"])
def test_no_job_id(text: str) -> None:
    with pytest.raises(TargetError, match="reports a job id that is not valid"):
        reported.job_id(text)


def test_plain_text_for_parsers() -> None:
    text = "a\r\nb\u2028c\x1bd ² ٣ 12345678901234567890123 1234567890123456789 ü"
    assert reported.plain(text) == "a\nb\ufffdc\ufffdd \ufffd \ufffd \ufffd 1234567890123456789 ü"
