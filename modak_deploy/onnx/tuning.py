"""How TVM tunes a graph: all of its operators take their turn, and a program is built in as little time as it needs."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from modak_deploy.onnx.packages import require

ROUND = 64
"""Programs of one operator that are measured together at most; TVM's default."""
SECONDS = 10
"""Time in which a program must have run."""
POPULATION = 8
"""Candidates that the search looks at for each program that it measures; TVM's default is 512 for 64."""


def tuned(module: Any, target: Any, *, trials: int, database: Path, at_once: int | None = None) -> Any:
    """Return a Relax module, fused, with the best programs in the folder ``database``.

    ``trials`` programs are measured before and added to the folder, ``at_once`` of an operator in each round. By
    itself TVM 0.27 measures 64 at once, so that fewer trials would all go to the first operator and leave the others
    without a schedule, which makes them up to a hundred times slower.
    """
    compiler = _require("tvm")
    relax, transform = _require("tvm.relax"), _require("tvm.relax.transform")
    with target:
        module = compiler.transform.Sequential(
            [transform.DecomposeOpsForInference(), transform.CanonicalizeBindings(), relax.get_pipeline("zero")]
        )(module)
    if trials:
        _tune(module, target, trials, database, at_once)
    with target:
        return transform.MetaScheduleApplyDatabase(str(database))(module)


def _tune(module: Any, target: Any, trials: int, database: Path, at_once: int | None) -> None:
    """Measure ``trials`` programs: first some of each operator, the largest first, and then those that promise most.

    Each operator's are written down when they are measured, so that a process that is ended leaves what it has.
    """
    search = _require("tvm.s_tir.meta_schedule")
    integration = _require("tvm.s_tir.meta_schedule.relax_integration")
    operations = _require("tvm.s_tir.analysis").estimate_tir_flops
    with target:
        tasks = integration.extract_tasks(module, target, {})
        tasks = sorted(tasks, key=lambda task: -task.weight * operations(task.dispatched[0]))
        count = at_once or max(1, min(ROUND, trials // max(1, len(tasks))))
        size = POPULATION * max(count, POPULATION)
        strategy = search.search_strategy.EvolutionarySearch(
            population_size=size, init_min_unmeasured=min(50, size // 2)
        )
        # A schedule that is a hundred times too slow is run twice, and not four times.
        repeats = search.runner.EvaluatorConfig(number=1, repeat=1, min_repeat_ms=100)
        shared = {
            "work_dir": str(database),
            "num_trials_per_iter": count,
            "builder": search.builder.LocalBuilder(f_build=_builder()),
            "runner": search.runner.LocalRunner(timeout_sec=SECONDS, evaluator_config=repeats),
            "database": search.database.JSONDatabase(work_dir=str(database)),
        }

        def tune(chosen: Sequence[Any], limit: int) -> None:
            contexts, weights = integration.extracted_tasks_to_tune_contexts(
                list(chosen), str(database), strategy=strategy, seed=0
            )
            search.tune.tune_tasks(tasks=contexts, task_weights=weights, max_trials_global=limit, **shared)

        for task in tasks:
            if trials > 0:
                tune([task], min(count, trials))
                trials -= count
        if trials > 0:
            tune(tasks, trials)


def _builder() -> Callable[[Any, Any, Any], Any]:
    """Return what builds a program in a process of TVM's.

    TVM 0.27's own (meta_schedule/builder/local_builder.py, default_build) first registers the intrinsics of all
    processors and GPUs, 18 s in every new process; a program that uses one contains it. A function within a function
    travels to the process as it is, without an import of modak.
    """

    def build(module: Any, target: Any, _parameters: Any) -> Any:
        from tvm.driver import build as build_module
        from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock

        return build_module(RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(module), target=target)

    return build


def _require(module: str) -> Any:
    return require(module, "apache-tvm", purpose="the engine tvm", extra="tvm")
