"""What is expensive to make ready costs the compiler's import as well, where nothing has imported it."""

import sys

import pytest

from modak_deploy.launch.frameworks.pytorch.compiler import COMPILER, IMPORT
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
