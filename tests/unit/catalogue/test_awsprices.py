"""AWS's price list as a catalogue file."""

import json
from pathlib import Path

import pytest

from modak_deploy.catalogue.awsprices import read_price_list
from modak_deploy.catalogue.catalogue import load_catalogue
from modak_deploy.catalogue.checking import check_instances
from modak_deploy.errors import InputError

LIST = Path(__file__).parents[2] / "data" / "catalogue" / "aws-prices.json"


def test_a_price_list_becomes_a_catalogue_file_that_is_right(tmp_path: Path) -> None:
    text, left = read_price_list(LIST, "eu-west-1")
    file = tmp_path / "instances-aws.yaml"
    file.write_text(text)
    catalogue = load_catalogue([file])
    check_instances(catalogue)
    price = catalogue.instances["c7i.xlarge"].price_in("eu-west-1")
    assert price is not None
    assert (price.hourly, price.currency, price.date) == (0.193, "USD", "2026-01-02")
    gpus = catalogue.instances["g4dn.12xlarge"]
    assert [(a.model, a.count) for a in gpus.accelerators] == [("t4", 4)]
    assert (gpus.microarchitecture, gpus.memory, gpus.network) == ("cascadelake", 192 * 1024**3, 50)
    assert left == [
        "c8g.xlarge: it has no price in USD for an hour on demand",
        "u7in-16tb.224xlarge: its processor 'Unheard-of 9000' is not supported",
    ]


def test_another_region_is_said() -> None:
    with pytest.raises(InputError, match="no instance in the region 'eu-west-2'; did you mean 'eu-west-1'"):
        read_price_list(LIST, "eu-west-2")


@pytest.mark.parametrize(
    ("content", "words"),
    [("{", "not valid JSON"), ("[]", "not a price list"), (json.dumps({"offerCode": "AmazonS3"}), "not a price list")],
)
def test_what_is_no_price_list_is_refused(tmp_path: Path, content: str, words: str) -> None:
    file = tmp_path / "index.json"
    file.write_text(content)
    with pytest.raises(InputError, match=words):
        read_price_list(file, "eu-west-1")
    with pytest.raises(InputError, match="cannot be read"):
        read_price_list(tmp_path / "absent.json", "eu-west-1")
