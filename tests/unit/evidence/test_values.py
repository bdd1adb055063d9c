"""Numbers as a report shows them."""

import pytest

from modak_deploy.evidence import values
from modak_deploy.evidence.page import render
from modak_deploy.evidence.view import Report


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (values.size(1010 * 1024**2), "1010 MiB"),
        (values.size(1.5 * 1024**3), "1.5 GiB"),
        (values.seconds(0.99961), "1000 ms"),
        (values.seconds(2.5), "2.5 s"),
        (values.number(999.7), "1\N{NARROW NO-BREAK SPACE}000"),
        (values.number(0.00001), "0.00001"),
        (values.percent(12.5), "1250 %"),
        (values.times(1234.0), "1230 \N{MULTIPLICATION SIGN}"),
        (values.times(1.5), "1.50 \N{MULTIPLICATION SIGN}"),
    ],
)
def test_a_number_has_no_exponent(shown: str, text: str) -> None:
    assert shown == text


def test_on_paper_nothing_is_cut_off_or_folded() -> None:
    """Tables that can be scrolled on a screen, and lists that can be unfolded there."""
    style = render(Report("a title", "a summary", []))
    printed = style.partition("@media print {")[2].partition("</style>")[0]
    assert ".scroll { overflow: visible; }" in printed and ".right { white-space: normal; }" in printed
    assert "details::details-content { content-visibility: visible; block-size: auto; }" in printed
