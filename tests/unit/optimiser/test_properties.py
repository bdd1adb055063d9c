"""Whatever is known, asked for or missing: a Plan that can be carried out, or one sentence that says why not."""

from datetime import UTC, datetime

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modak_deploy.catalogue import load_catalogue
from modak_deploy.errors import ModakError
from modak_deploy.model.plan import Plan
from modak_deploy.optimiser import make_plan
from modak_deploy.optimiser.table import render

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LEVERS = sorted(load_catalogue().levers)
RUNTIMES = ["native", "apptainer", "singularity", "podman", "docker", "charliecloud"]
GPUS = [{"model": "Tesla P40", "driver": "535.54.03"}, {"model": "MI300X", "vendor": "amd"}]
MAYBE = {
    "facts.glibc": st.sampled_from([None, "2.17", "2.36"]),
    "facts.python": st.sampled_from([None, "/opt/python/bin/python3"]),
    "facts.runtimes": st.dictionaries(st.sampled_from(RUNTIMES[1:]), st.just("1.4.5")),
    "facts.libraries": st.lists(st.sampled_from(["libtcmalloc_minimal.so.4", "libjemalloc.so.2"]), unique=True),
    "facts.packages": st.dictionaries(
        st.sampled_from(["keras", "tensorflow", "tensorflow-cpu", "jax", "jaxlib", "torch", "onnxruntime"]),
        st.sampled_from(["0.4.30", "1.14.0", "2.1.0", "2.21.0", "3.15.1"]),
    ),
    "facts.node.cores": st.sampled_from([None, 1, 2, 64]),
    "facts.node.microarchitecture": st.sampled_from(
        [None, "x86_64_v4", "broadwell", "zen5", "neoverse_v2", "unheard-of"]
    ),
    "facts.node.cpu_model": st.sampled_from([None, "AMD EPYC", "Z80"]),
    "facts.node.cpu_features": st.lists(st.sampled_from(["avx2", "avx512_bf16", "amx_bf16"]), unique=True),
    "facts.node.accelerators": st.lists(st.sampled_from(GPUS), max_size=1),
    "deployment.request.numerics": st.sampled_from(["exact", "relaxed"]),
    "deployment.request.objective": st.sampled_from(["time", "cost", "efficiency"]),
    "deployment.request.runtimes": st.none() | st.lists(st.sampled_from(RUNTIMES), unique=True),
    "deployment.request.require_levers": st.lists(st.sampled_from(LEVERS), unique=True, max_size=2),
    "deployment.request.forbid_levers": st.lists(st.sampled_from(LEVERS), unique=True, max_size=3),
    "deployment.request.budget": st.none() | st.floats(0.0001, 1),
    "deployment.job.wall_time": st.none() | st.integers(1, 1000),
    "deployment.job.gpus": st.integers(0, 2),
    "deployment.job.ranks": st.none() | st.integers(1, 8),
    "deployment.job.threads": st.none() | st.integers(1, 8),
    "deployment.application.environment": st.dictionaries(
        st.sampled_from(["KERAS_BACKEND", "LD_PRELOAD", "OMP_NUM_THREADS"]), st.sampled_from(["jax", "1", ""])
    ),
    "deployment.application.framework": st.sampled_from(
        [None, {"name": "keras", "version": ">=3"}, {"name": "tensorflow", "version": "2.1"}, {"name": "pytorch"}]
    ),
    "deployment.application.image": st.sampled_from([None, "pytorch-2.7-pip-cpu", "docker://example.org/a:1"]),
    "deployment.application.workload.units": st.integers(1, 1000),
    "deployment.application.workload.samples": st.none() | st.integers(1, 10**7),
    "deployment.application.workload.model": st.sampled_from([None, "mnist-cnn", "alexnet", "unheard-of"]),
    "deployment.application.workload.parallel_share": st.none() | st.floats(0.01, 1),
}
CHANGES = st.lists(st.sampled_from(sorted(MAYBE)), unique=True, max_size=10).flatmap(
    lambda keys: st.fixed_dictionaries({key: MAYBE[key] for key in keys})
)


def absent(data, place):
    """Tell whether the base has nothing at ``place``, so that nothing can be removed there."""
    for part in place.split("."):
        if part not in data:
            return True
        data = data[part]
    return False


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(change=CHANGES)
def test_a_plan_or_one_clear_error(change, changed, measured, bases):
    change = {k: v for k, v in change.items() if v is not None or not absent(bases["digits"], k)}
    deployment, facts = changed("digits", change)
    try:
        plan = make_plan(deployment, facts, [], now=NOW, measurements=measured)
    except ModakError as error:
        assert str(error)
        assert "None" not in str(error)
        return
    assert Plan.model_validate_json(plan.to_json()) == plan
    assert plan.to_json() == make_plan(deployment, facts, [], now=NOW, measurements=measured).to_json()
    assert all(len(line) <= 100 for line in render(plan, explain=True).splitlines())
    for candidate in (plan.chosen, *(ranked.candidate for ranked in plan.alternatives)):
        assert candidate.argv
        assert all(candidate.argv)
        assert (candidate.image is None) == (candidate.runtime == "native")
        assert candidate.resources.ranks <= candidate.resources.nodes * candidate.resources.ranks_per_node
        if deployment.request.numerics == "exact":
            levers = load_catalogue().levers
            assert all(levers[name].numerics == "exact" for name in candidate.levers)
        assert set(deployment.request.require_levers) <= set(candidate.levers)
        assert not set(deployment.request.forbid_levers) & set(candidate.levers)
    if plan.gain is not None and not deployment.request.require_levers and deployment.job.wall_time is None:
        assert plan.gain.low > 1 or deployment.request.budget is not None


EXACT = st.fixed_dictionaries(
    {},
    optional={
        "levers": st.lists(st.sampled_from(LEVERS), unique=True, max_size=3),
        "runtime": st.sampled_from(RUNTIMES),
        "image": st.sampled_from(["pytorch-2.7-pip-cpu", "keras-3.10-pip-cpu", "docker://example.org/a:1"]),
    },
).filter(lambda exact: (exact.get("runtime", "native") == "native") == ("image" not in exact))
CHOOSING = {"require_levers", "forbid_levers", "runtimes", "objective", "minimal_efficiency"}


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(change=CHANGES, exact=EXACT)
def test_exactly_the_configuration_that_is_requested_or_one_clear_error(change, exact, changed, measured, bases):
    change = {k: v for k, v in change.items() if k.removeprefix("deployment.request.") not in CHOOSING}
    change = {k: v for k, v in change.items() if v is not None or not absent(bases["digits"], k)}
    deployment, facts = changed("digits", {**change, "deployment.request.configuration": exact})
    try:
        plan = make_plan(deployment, facts, [], now=NOW, measurements=measured)
    except ModakError as error:
        assert str(error)
        return
    assert plan.alternatives == []
    assert set(plan.chosen.levers) == set(exact.get("levers", []))
    assert plan.chosen.runtime == exact.get("runtime", "native")
    assert (plan.chosen.image is None) == ("image" not in exact)
