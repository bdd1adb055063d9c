import pytest

from modak_deploy.util.units import clock, gib, kibibytes, mebibytes, seconds_of, size_of


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("512M", 512 * 1024**2),
        ("23.5G", 47 * 1024**3 // 2),
        ("24684096kb", 24684096 * 1024),
        ("999999999999999", 999999999999999),
        ("10TB", 10 * 1024**4),
        ("0.0", 0),
        ("-", None),
        ("²G", None),
        ("1e9G", None),
        ("12 G", None),
    ],
)
def test_size_of_what_schedulers_print(text: str, size: int | None) -> None:
    assert size_of(text) == size


@pytest.mark.parametrize(
    ("text", "seconds"), [("1-02:03:04", 93784), ("90:00", 5400), (" 59 ", 59), ("UNLIMITED", None), ("1:", None)]
)
def test_seconds_of_what_schedulers_print(text: str, seconds: int | None) -> None:
    assert seconds_of(text) == seconds


def test_texts_that_schedulers_read() -> None:
    assert (clock(90061), mebibytes(1024**2 + 1), kibibytes(1025), gib(1536 * 1024**2)) == ("25:01:01", 2, 2, "1.5 GiB")
