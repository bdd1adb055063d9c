"""Programs that compile steps of optimizers, or changes of a module's mode: the launcher is not in the graphs."""

from pathlib import Path

import pytest

from launch_parts import launch

pytest.importorskip("torch")

OWN_OPTIMIZER = """
import warnings
warnings.simplefilter("error")
import torch

class Own(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for weight in group["params"]:
                weight.sub_(weight.grad, alpha=0.1)

model = torch.nn.Linear(8, 8)
optimizer = Own(model.parameters())
step = torch.compile(lambda: optimizer.step(), backend="eager", fullgraph=True)
for _ in range(4):
    optimizer.zero_grad()
    model(torch.ones(4, 8)).sum().backward()
    step()
print(torch._dynamo.utils.counters["stats"]["unique_graphs"])
"""
MODE = """
import torch

model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5))

@torch.compile(backend="eager", fullgraph=True)
def evaluated(x):
    model.eval()
    result = model(x)
    model.train()
    return result

with torch.no_grad():
    print(torch.equal(evaluated(torch.ones(2, 8)), model[0](torch.ones(2, 8))), model[1].training)
"""
STEPS = """
import torch

model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
step = torch.compile(lambda: optimizer.step(), backend="eager")
for _ in range(4):
    optimizer.zero_grad()
    model(torch.ones(4, 8)).sum().backward()
    step()
"""


@pytest.mark.parametrize("mode", ["none", "live"])
@pytest.mark.parametrize(("program", "output"), [(OWN_OPTIMIZER, "1\n"), (MODE, "True True\n")], ids=["step", "mode"])
def test_a_graph_that_must_be_whole_is_so(program: str, output: str, mode: str, tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(program, encoding="utf-8")
    done = launch(path, tmp_path, {"trials": {"mode": mode}})
    assert (done.returncode, done.stdout) == (0, output), done.stderr
    assert "gc.get_objects" not in done.stderr and "modak" not in done.stderr


def test_steps_of_pytorchs_own_optimizers_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(STEPS, encoding="utf-8")
    done = launch(path, tmp_path, {})
    assert "gc.get_objects" not in done.stderr  # the compiler would warn of what the launcher calls (2.13)
    states = [entry for entry in done.entries if str(entry.get("name", "")).startswith("training: ")]
    assert done.returncode == 0 and [state["units"] for state in states] == [4]
