"""Completion of names."""

from collections.abc import Iterator

from modak_deploy.util.completion import completing


def test_names_that_begin_so_are_offered_in_order() -> None:
    assert completing(lambda: ["lumi-g", "leonardo", "lumi-c"])("lu") == ["lumi-c", "lumi-g"]


def test_names_that_cannot_be_read_are_left_out() -> None:
    def names() -> Iterator[str]:
        yield "lumi"
        raise OSError("no such file")

    assert completing(names)("") == ["lumi"]
