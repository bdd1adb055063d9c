"""What is compiled by a lever costs the compiler's import, and tells nothing in the program's output."""

import logging
import sys

import pytest

from modak_deploy.launch.frameworks.pytorch.compiler import COMPILER, IMPORT, RECOMPILED, quiet
from modak_deploy.launch.frameworks.pytorch.kinds import Subject
from modak_deploy.launch.lever import levers


@pytest.mark.parametrize("name", ["pytorch-compile", "pytorch-onnxruntime"])
def test_its_import_is_part_of_what_a_lever_costs(name, torch, monkeypatch):
    subject = Subject(torch, torch.nn.Sequential(torch.nn.Linear(2, 2)))
    (lever,) = (lever for lever in levers("pytorch") if lever.name == name)
    monkeypatch.setitem(sys.modules, COMPILER, object())
    imported = lever.making(subject)
    monkeypatch.delitem(sys.modules, COMPILER)
    assert lever.making(subject) == pytest.approx(imported + IMPORT)


def test_the_compiler_tells_nothing_of_what_a_lever_has_compiled(caplog):
    compiler, own = logging.getLogger(RECOMPILED), logging.getLogger("own")

    def function(value):
        compiler.warning("hit config.recompile_limit")
        own.warning("the program's")
        if not value:
            raise KeyError("the program's")
        return value

    assert quiet(function)(value=2) == 2
    with pytest.raises(KeyError):
        quiet(function)(0)
    assert [record.name for record in caplog.records] == ["own", "own"]
    compiler.warning("of what the program has compiled")
    assert caplog.records[-1].name == RECOMPILED
