"""How a playbook ended, and what became of its job."""

import re
from typing import Any

from rig import Rig
from sites import Ended


def one_sentence(ended: Ended, *words: str) -> None:
    """Check that a run failed with a message that has all the words, and without a traceback."""
    assert ended.code != 0, ended.text
    assert "Traceback" not in ended.text, ended.text
    messages = [line for line in ended.text.splitlines() if "ERROR" in line or "fatal:" in line]
    assert any(all(word in line for word in words) for line in messages), ended.text


def assert_unchanged(ended: Ended) -> None:
    assert ended.code == 0, ended.text
    assert not re.search(r"changed=[1-9]", ended.text), ended.text


def jobs_of(rig: Rig, document: dict[str, Any], *states: str) -> list[str]:
    """Return the ids of this document's jobs, oldest first, in any state or in one of these."""
    name = document["application"]["name"]
    jobs = rig.all_jobs().items()
    found = [job for job, (its_name, state) in jobs if its_name == name and (not states or state in states)]
    return sorted(found, key=int)
