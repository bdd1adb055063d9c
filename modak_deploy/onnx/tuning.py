"""How TVM tunes a graph: all of its operators take their turn, and a program is built in as little time as it needs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from modak_deploy.onnx.packages import require

ROUND = 64
"""Programs of one operator that are measured together at most; TVM's default."""
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
    search = _require("tvm.s_tir.meta_schedule")
    integration = _require("tvm.s_tir.meta_schedule.relax_integration")
    operators = len(integration.extract_tasks(module, target, {}))
    count = at_once or max(1, min(ROUND, trials // max(1, operators)))
    population = POPULATION * max(count, POPULATION)
    with target:
        integration.tune_relax(
            module,
            {},
            target,
            str(database),
            max_trials_global=trials,
            num_trials_per_iter=count,
            builder=search.builder.LocalBuilder(f_build=_builder()),
            strategy=search.search_strategy.EvolutionarySearch(
                population_size=population, init_min_unmeasured=min(50, population // 2)
            ),
            seed=0,
        )


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
