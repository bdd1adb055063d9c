"""Instance types and prices from AWS's price list of EC2, as a catalogue file.

The format is that of the offer files of the AWS Price List Bulk API ("Reading service price list files"):
``products`` by SKU with their attributes, ``terms.OnDemand`` by SKU with price dimensions.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from modak_deploy.catalogue.instances import InstanceEntry, InstanceFile
from modak_deploy.errors import InputError
from modak_deploy.util.text import did_you_mean

PROCESSORS: Mapping[str, str] = {
    "E5-2686 v4": "broadwell",
    "8175": "skylake_avx512",
    "8124M": "skylake_avx512",
    "8259": "cascadelake",
    "8275": "cascadelake",
    "8252": "cascadelake",
    "8375C": "icelake",
    "8488C": "sapphirerapids",
    "EPYC 7571": "zen",
    "EPYC 7R32": "zen2",
    "EPYC 7R13": "zen3",
    "EPYC 9R14": "zen4",
    "Graviton2": "neoverse_n1",
    "Graviton3": "neoverse_v1",
    "Graviton4": "neoverse_v2",
}
"""archspec's name by a part of ``physicalProcessor``."""
_GPUS: Mapping[str, str] = {
    "g4dn": "t4",
    "g6": "l4",
    "g6e": "l40s",
    "p3": "v100",
    "p4d": "a100-40gb",
    "p4de": "a100-80gb",
    "p5": "h100-sxm",
    "p5e": "h200",
    "p5en": "h200",
}
"""The catalogue's accelerator by the instance family: the price list says how many there are, and not which."""
_ON_DEMAND = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
    "marketoption": "OnDemand",
    "licenseModel": "No License required",
}
_MEMORY = re.compile(r"([0-9][0-9,]{0,9}(?:\.[0-9]{1,3})?) GiB")
_NETWORK = re.compile(r"(?:Up to )?([0-9]{1,5}(?:\.[0-9]{1,2})?) Gigabit")


def read_price_list(path: Path, region: str) -> tuple[str, list[str]]:
    """Return the catalogue file of a price list, and one line for each type that was left out, with the reason.

    InputError where the file is no price list of EC2, or has no price in the region.
    """
    document = _read(path)
    entries: dict[str, Any] = {}
    left: dict[str, str] = {}
    regions: set[str] = set()
    date = str(document.get("publicationDate", ""))[:10]
    for sku, attributes in _products(document):
        regions.add(str(attributes.get("regionCode")))
        name = attributes.get("instanceType")
        if attributes.get("regionCode") != region or not isinstance(name, str) or not _is_on_demand(attributes):
            continue
        hourly = _hourly(document, sku)
        if hourly is None:
            left[name] = "it has no price in USD for an hour on demand"
            continue
        try:
            entry = _entry(name, attributes)
            entry["prices"] = [{"region": region, "hourly": hourly, "date": date, "source": "AWS price list of EC2"}]
            InstanceEntry.model_validate(entry)
        except ValidationError as error:
            left[name] = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        except ValueError as error:
            left[name] = str(error)
        else:
            entries[name] = entry
    if not entries and region not in regions:
        hint = did_you_mean(region, sorted(regions)) or f"it has {', '.join(sorted(regions)[:5]) or 'none'}"
        raise InputError(f"the price list has no instance in the region '{region}'", source=path, hint=hint)
    content = {"version": 1, "instances": [entries[name] for name in sorted(entries)]}
    InstanceFile.model_validate(content)
    text = yaml.safe_dump(content, sort_keys=False, width=160)
    return text, [f"{name}: {reason}" for name, reason in sorted(left.items()) if name not in entries]


def _read(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", source=path) from None
    except (ValueError, RecursionError):
        hint = "get the region's price list of EC2 as index.json"
        raise InputError("not valid JSON", source=path, hint=hint, code="json-syntax") from None
    if not isinstance(document, dict) or document.get("offerCode") != "AmazonEC2":
        raise InputError("not a price list of EC2: 'offerCode' is not AmazonEC2", source=path)
    return document


def _products(document: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    products = document.get("products")
    for sku, product in products.items() if isinstance(products, dict) else ():
        if isinstance(product, dict) and str(product.get("productFamily", "")).startswith("Compute Instance"):
            attributes = product.get("attributes")
            if isinstance(attributes, dict):
                yield sku, attributes


def _is_on_demand(attributes: Mapping[str, Any]) -> bool:
    """An attribute that a list of another year lacks does not count against a product."""
    return all(attributes.get(key, value) == value for key, value in _ON_DEMAND.items())


def _hourly(document: Mapping[str, Any], sku: str) -> float | None:
    offers = document.get("terms", {}).get("OnDemand", {}).get(sku, {})
    for offer in offers.values() if isinstance(offers, dict) else ():
        for dimension in offer.get("priceDimensions", {}).values():
            amount = dimension.get("pricePerUnit", {}).get("USD")
            if dimension.get("unit") == "Hrs" and amount is not None:
                price = float(amount)
                return price if price > 0 else None
    return None


def _entry(name: str, attributes: Mapping[str, Any]) -> dict[str, Any]:
    processor = str(attributes.get("physicalProcessor", ""))
    target = next((name for part, name in PROCESSORS.items() if part in processor), None)
    if target is None:
        raise ValueError(f"its processor '{processor}' is not supported")
    memory = _MEMORY.fullmatch(str(attributes.get("memory", "")))
    if memory is None:
        raise ValueError(f"its memory '{attributes.get('memory')}' is not a number of GiB")
    entry: dict[str, Any] = {"name": name, "provider": "aws", "vcpus": int(attributes.get("vcpu", 0))}
    if target.startswith("neoverse"):
        entry["architecture"] = "arm64"
    entry |= {"microarchitecture": target, "processor": processor}
    entry["memory"] = f"{memory.group(1).replace(',', '')}G"
    if attributes.get("gpu") not in (None, "", "0", "NA"):
        model = _GPUS.get(name.partition(".")[0])
        if model is None:
            raise ValueError("its accelerator is not in the catalogue")
        entry["accelerators"] = [{"model": model, "count": int(attributes["gpu"])}]
    if network := _NETWORK.fullmatch(str(attributes.get("networkPerformance", ""))):
        entry["network"] = float(network.group(1))
    return entry
