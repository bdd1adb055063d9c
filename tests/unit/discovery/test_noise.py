"""Whatever a target prints, the answer is facts or one sentence."""

import re

from hypothesis import given
from hypothesis import strategies as st

from modak_deploy.discovery import parse_probe, probe_script
from modak_deploy.errors import TargetError
from modak_deploy.model.target import Facts, Target

PARTS = sorted(set(re.findall(r"^ *(?:part|ask|ask_aside|show|query) ([a-z-]+)", probe_script(None), re.MULTILINE)))
FRAGMENTS = [
    *("a*|up|infinite|2|idle|8|4000|gpu:0|x\n", "slurm 23.02", "pbs_version = 1", "Queue: x\n    enabled = True\n"),
    *("card0", "{", "[", ": ", "MemTotal: 0 kB", "cpu.max 0 0", "memory.max 0", "glibc 2.", "x-1.dist-info", "gpu:a:0"),
    *(",", "0", "-1", "99999999999999999999", "\x00", "\udcff", "\u00b2"),
]
TEXT = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=8), max_size=6).map("".join)


def test_the_parts_are_known() -> None:
    assert {"host", "cpuinfo", "meminfo", "sinfo", "packages", "end"} <= set(PARTS)


@given(st.dictionaries(st.sampled_from(PARTS), TEXT), st.sampled_from(["machine", "slurm", "torque", "openpbs", None]))
def test_noise(parts: dict[str, str], kind: str | None) -> None:
    text = "\n".join(f"@@modak:{name}\n{value}\n" for name, value in {**parts, "end": ""}.items())
    try:
        facts = parse_probe(text, Target(name="t", type=kind) if kind else None)
    except TargetError as error:
        assert "\n" not in str(error)
    else:
        assert isinstance(facts, Facts)
