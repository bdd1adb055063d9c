"""Parts for tests of the launcher: a record in memory, and trials of a program whose times are given."""

import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from modak_deploy.launch import bundle
from modak_deploy.launch.config import Trials
from modak_deploy.launch.lever import Lever
from modak_deploy.launch.parts import Part
from modak_deploy.launch.survey import search_for
from modak_deploy.launch.variants import CHECK, PROBE

OWN_EXCEPTION = """
import torch
class Net(torch.nn.Linear):
    def forward(self, x):
        if x.shape[0] == 3:
            raise KeyError("the program's own")
        return super().forward(x)
model = Net(4, 4).eval()
with torch.no_grad():
    for rows in [2] * 10 + [3]:
        model(torch.ones(rows, 4))
"""
"""A program whose module raises an error of its own, at a call after which levers have been tried."""


class Memory:
    """A record whose entries can be looked at."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []
        self.states: dict[str, Any] = {}

    def add(self, event: str, **values: Any) -> None:
        self.entries.append({"event": event, **values})

    def fallback(self, what: str, why: object) -> None:
        self.add("fallback", what=what, reason=str(why))

    def state(self, name: str, values: Any) -> None:
        self.states[name] = values

    def write(self) -> None:
        """Nothing: there is no file."""

    @property
    def empty(self) -> bool:
        return not self.entries and not self.states

    def of(self, event: str) -> list[dict[str, Any]]:
        return [entry for entry in self.entries if entry["event"] == event]


def lever(name: str, **attributes: Any) -> Lever:
    one = Lever()
    one.name, one.live, one.risk = name, True, 1.5
    for key, value in attributes.items():
        setattr(one, key, value)
    return one


class Program:
    """Does units of given times, as an adapter would, and keeps count of what they took."""

    def __init__(
        self,
        levers: list[Lever],
        times: Any,
        checks: bool = True,
        part: Part | None = None,
        costs: dict[str, float] | None = None,
        **trials: Any,
    ) -> None:
        self.record = Memory()
        settings = Trials(**{"mode": "live", **trials})
        self.search = search_for("program", levers, settings, self.record, checks=checks, part=part, costs=costs)
        self._times = times
        self.seconds = 0.0
        self.worst = 0.0
        self.used: list[str] = []
        self.wrong: set[str] = set()
        self.unfit: set[str] = set()
        self.kinds: list[str] = []
        self.fixed = 0.0
        """Seconds of a call whatever its size."""
        self.making: dict[str, float] = {}
        """Seconds that what can be made ready in the background takes, by the names of variants."""
        self.broken: set[str] = set()
        """What cannot be made ready in the background."""
        self._made_at: float | None = None

    def time(self, name: str, unit: int) -> float:
        value = self._times(name, unit) if callable(self._times) else self._times.get(name, self._times["default"])
        return float(value)

    def run(self, units: int) -> "Program":
        for _ in range(units):
            unit = len(self.used)
            self._make()
            action = self.search.next()
            name = action.variant.name
            self.used.append(name)
            self.kinds.append(action.kind)
            took, default = self.time(name, unit), self.time("default", unit)
            if action.kind == PROBE:
                assert self.search.part is not None
                first = self.fixed + took * self.search.part.share
                self.seconds += default + 2 * first
                self.search.probed(default, [first, first], 0.0, "differs" if name in self.unfit else None)
            elif action.kind == CHECK:
                self.seconds += default + took
                problem = "differs" if name in self.wrong else None
                self.search.checked(default, took, 0.0, problem)
            else:
                self.seconds += took
                self.search.report(action.variant, took)
            self.worst = max(self.worst, self.seconds - sum(self.time("default", one) for one in range(unit + 1)))
            pace = self.search.pace  # is asked for at any time
            assert pace is None or math.isfinite(pace)
        return self

    def background(self, seconds: dict[str, float], loss: float) -> "Program":
        """Have levers made ready in the background: they take so long there, and the program loses so much of it."""
        self.making = seconds
        self.search.takes_background(dict.fromkeys(seconds, loss))
        return self

    def _make(self) -> None:
        """Begin what is to be made in the background, and tell when it is ready."""
        if not self.making:
            return
        if self.search.to_make is not None:
            self._made_at = self.seconds + self.making[self.search.to_make.levers[-1].name]
            self.search.begun(0.0)
        elif self.search.waits and self._made_at is not None and self.seconds >= self._made_at:
            name = self.search.making or ""
            if name in self.broken:
                self.search.not_made("it breaks", self.making[name])
            else:
                self.search.made(self.making[name])


BF16 = {
    "hardware.py": "def cpu_features():\n    return frozenset(('avx2', 'avx512f', 'avx512_bf16'))\n",
    "frameworks/pytorch/bf16.py": "SLOWER = float('inf')\n",
}
"""What ends modules of the launcher, by their files, where a test is not to depend on the processor's own bf16."""


def launch(program: Path | list[str], folder: Path, config: dict[str, Any], **options: Any) -> Any:
    """Run a program under the launcher; the result has the record's entries in ``entries``.

    With ``bf16`` PyTorch's levers in bf16 are offered on every processor: without arithmetic of its own, emulated.
    """
    path = folder / "path"
    bf16 = options.pop("bf16", False)
    if not path.exists():
        bundle.write_folder(str(path))
        for name, text in BF16.items() if bf16 else ():
            with (path / bundle.PACKAGE / name).open("a", encoding="utf-8") as file:
                file.write("\n\n" + text)
    settings = folder / "config.json"
    settings.write_text(json.dumps({"version": 1, "record": str(folder / "record"), **config}), encoding="utf-8")
    python = options.pop("python", sys.executable)
    command = [python, str(program)] if isinstance(program, Path) else program
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("MODAK", "PYTHON"))}
    search = [str(path), *options.pop("behind", [])]
    environment |= {"PYTHONPATH": os.pathsep.join(search), "MODAK_LAUNCH": str(settings), "OMP_NUM_THREADS": "1"}
    environment |= options.pop("environment", {})
    options.setdefault("cwd", folder)
    done: Any = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, **options)
    files = sorted((folder / "record").glob("*.jsonl"))
    done.records = [[json.loads(line) for line in one.read_text().splitlines()] for one in files]
    done.entries = [entry for record in done.records for entry in record]
    return done


def scoring_net(torch: Any, seed: int = 0, pause: float = 0.0, shift: float = 0.0) -> Any:
    """Return a small network whose result is nested, and whose calls by Python take ``pause`` seconds longer.

    ``shift`` is added to what it computes: another network, which has the same weights.
    """

    class Net(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 8, 3)
            self.head = torch.nn.Linear(8, 4)

        def forward(self, images: Any, scale: float = 1.0) -> Any:
            time.sleep(pause)
            hidden = torch.relu(self.conv(images)).mean((2, 3))
            return {"scores": self.head(hidden) * scale + shift, "hidden": [hidden, None]}

    torch.manual_seed(seed)
    return Net().eval()
