"""Make measurements of what was measured on a GPU: gpu_records.py > records.jsonl.

The results of lever_table.py become units of a process in which sets of levers took turns, those of programs.py whole
jobs: of the default, and of second deployments with the levers that they ran with. What the work consists of is seen by
the launcher in one call of the same network on the processor, by whose size nothing but the time differs.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import lever_table
import torch
from papers_table import MEASURED
from program_rows import GPU_ROWS, Row
from program_table import ended_with

from modak_deploy.launch.frameworks.pytorch.work import OBSERVED, Work
from modak_deploy.model.measurement import Configuration, Hardware, Measurement, Provenance, Run
from modak_deploy.performance.records import to_line

RESULTS = {"levers": MEASURED / "levers-h100.jsonl", "programs": MEASURED / "programs-h100.jsonl"}
HARDWARE = Hardware(cpu_model="Intel Xeon", cores=16, accelerator="NVIDIA H100 80GB HBM3", accelerators=1)
SOFTWARE = {"torch": "2.11.0+cu130"}
DATE = "2026-11-26"
TURNS = "benchmarks/lever_table.py: calls alone, all ways in turns in one process; medians of five rounds."
JOBS = "benchmarks/programs.py: whole jobs of an unchanged program; the steady unit is its own median."
MIX = ("convolution", "dense", "attention", "recurrent")
LATER = 8
"""Units after the first one that a record of a job has."""
DIGITS = 4


def work(module: Any, args: Any, kwargs: Mapping[str, Any], training: bool) -> dict[str, Any]:
    """Return what a call of a network consists of, as the launcher sees it."""
    seen: dict[str, Any] = {}
    watched = Work(torch, training)
    watched.into(seen)
    with torch.no_grad():
        for _ in range(OBSERVED):
            watched.observing(module)(*args, **kwargs)
    return {**seen, "parameters": sum(weight.numel() for weight in module.parameters())}


def work_of_case(name: str) -> dict[str, Any]:
    """Return the work of a case of lever_table.py."""
    case = lever_table.CASES[name]
    given = dict(case.arguments(torch))
    images = given.pop("images", None)
    module = case.make(lever_table.program(case.folder, "infer.py")).eval()
    return work(module, () if images is None else (images,), given, training=False)


def work_of_row(row: Row) -> dict[str, Any]:
    """Return the work of a program."""
    script = lever_table.program(row.folder, "train.py" if row.kind == "training" else "infer.py")
    batch = row.batch or 0
    if row.folder == "pytorch-gpt":
        return work(script.GPT(64, 128, 384, 6, 6), (torch.randint(0, 64, (batch, 128)),), {}, training=True)
    if row.folder == "pytorch-bert":
        words = torch.randint(0, 30522, (batch, 64))
        given = {"input_ids": words, "attention_mask": torch.ones_like(words)}
        return work(script.Bert(30522, 768, 12).eval(), (), given, training=False)
    module = script.resnet((3, 4, 6, 3), 100 if row.kind == "training" else 1000)
    images = torch.randn(batch, 3, 224, 224)
    return work(module.train(row.kind == "training"), (images,), {}, row.kind == "training")


def record(
    name: str, training: bool, seen: Mapping[str, Any], levers: list[str], runs: list[Run], **more: Any
) -> Measurement:
    """Return a measurement; ``more`` are its units, its method, its source, and what the runs are."""
    workload: dict[str, Any] = {
        "model": f"program-{name.removeprefix('gpu-')}",
        "unit": "step" if training else "call",
        "units": more.pop("units"),
        "batch": seen["batch"],
        "samples": seen["batch"],
        **{key: seen[key] for key in ("parameters", "layers")},
        **{key: rounded(seen[key]) for key in ("flops_per_sample", "bytes_per_sample")},
    }
    provenance = Provenance(source=more.pop("source"), method=more.pop("method"), date=DATE)
    return Measurement.model_validate(
        {
            "type": "ai_training" if training else "ai_inference",
            "framework": "pytorch",
            "workload": workload,
            "software": SOFTWARE,
            "hardware": HARDWARE,
            "configuration": Configuration(levers=levers),
            "mix": {kind: rounded(seen[f"mix_{kind}"]) for kind in MIX if seen.get(f"mix_{kind}")} or None,
            "runs": runs,
            "provenance": provenance,
            **more,
        }
    )


def rounded(seconds: float) -> float:
    """Return a figure with few digits."""
    return float(f"{seconds:.{DIGITS}g}")


def in_turns() -> Iterator[Measurement]:
    """Yield what the levers gained: the default's seconds by the gain in the same rounds."""
    for line in RESULTS["levers"].read_text(encoding="utf-8").splitlines():
        result = json.loads(line)
        seen, default = work_of_case(result["case"]), result["rows"][0]["seconds"]
        for row in result["rows"]:
            steady = rounded(default / row["gain"])
            run = Run(first=rounded(max(row["made"], steady)), later=[steady], block=1)
            yield record(result["case"], False, seen, row["levers"], [run], units=2, kind="trial", method=TURNS,
                         source=f"levers in turns, {result['case']}")  # fmt: skip


def jobs() -> Iterator[Measurement]:
    """Yield the jobs with the default, and of second deployments."""
    results = [json.loads(line) for line in RESULTS["programs"].read_text(encoding="utf-8").splitlines()]
    for row in GPU_ROWS:
        own = [entry for entry in results if entry["row"] == row.name and entry["state"] == "completed"]
        seen = work_of_row(row) if own else {}
        for arm in ("default", "second-relaxed"):
            entries = [entry for entry in own if entry["arm"] == arm]
            if entries:
                runs = [run_of(entry) for entry in entries]
                yield record(row.name, row.kind == "training", seen, levers_of(entries[0]), runs, units=1 + LATER,
                             method=JOBS, source=f"jobs of {row.name}")  # fmt: skip


def levers_of(entry: Mapping[str, Any]) -> list[str]:
    """Return the levers that a job ran with to its end, those included that are on from its start."""
    ended = entry["settled"][-1]["levers"] if entry["settled"] else []
    tried = {"pytorch-cudnn-benchmark"} & set(entry["levers"])
    return [*ended, *sorted(tried - set(ended))] if entry["settled"] else ended_with(dict(entry))


def run_of(entry: Mapping[str, Any]) -> Run:
    """Return a job as one of few units: its start, what was made ready, and steady units."""
    steady, made = rounded(entry["steady"]), entry["compile"] or 0.0
    first = rounded(steady + made)
    return Run(
        total=rounded(entry["start"] + first + LATER * steady + 10.0**-DIGITS), first=first, later=[steady] * LATER
    )


def main() -> None:
    """Print all of them."""
    for one in (*in_turns(), *jobs()):
        print(to_line(one).strip(), flush=True)


if __name__ == "__main__":
    main()
