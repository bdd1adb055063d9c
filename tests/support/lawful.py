"""Measurements that follow a law, so that what a model makes of them can be told right or wrong."""

import math
import random

from modak_deploy.catalogue import load_catalogue
from modak_deploy.model.application import Workload
from modak_deploy.model.measurement import Configuration, Hardware, Measurement, Provenance, Run
from modak_deploy.performance.features import Case, features
from modak_deploy.performance.records import Table

SETS = (
    ["keras-tensorflow"],
    ["keras-tensorflow", "malloc-hugepages"],
    ["keras-tensorflow", "tf-xla-auto"],
    ["keras-jax"],
)
FACTOR = {"malloc-hugepages": 0.8, "tf-xla-auto": 2.5, "keras-jax": 1.6}
HERE = Hardware(microarchitecture="zen4", cpu_model="AMD EPYC 9654 96-Core Processor", cores=8)


def law(flops, samples, levers, noise):
    """Start 3 s, and a unit that grows with its operations; what a lever brings is a factor."""
    unit = flops * samples / 2e11 * math.prod(FACTOR.get(lever, 1.0) for lever in levers) * noise
    return 3.0 * noise, 0.5 * noise, unit


def measured(count=8, spread=0.05, seed=3):
    """Return records of ``count`` workloads that follow the law."""
    draw = random.Random(seed)
    records = []
    for number in range(count):
        flops, samples = 10.0 ** draw.uniform(6, 9), draw.choice([512, 1024, 4096])
        workload = Workload(
            model=f"net-{number}", units=4, samples=samples, batch=64, parameters=10**6, layers=10,
            flops_per_sample=flops, bytes_per_sample=flops / 10,
        )  # fmt: skip
        for levers in SETS:
            runs = []
            for block in range(2):
                noise = math.exp(draw.gauss(0, spread))
                start, compiling, unit = law(flops, samples, levers, noise)
                total = start + compiling + 4 * unit
                runs.append(Run(total=total, first=compiling + unit, later=[unit] * 3, block=block))
            records.append(
                Measurement(
                    type="ai_training", framework="keras", workload=workload, hardware=HERE, runs=runs,
                    configuration=Configuration(levers=levers),
                    provenance=Provenance(source="a law", date="2026-01-01", method="computed"),
                )
            )  # fmt: skip
    return Table(records)


def case_of(flops, levers, samples=1024, hardware=HERE):
    """Return the features of a workload of the law that no record has."""
    workload = Workload(
        model="new", units=4, samples=samples, batch=64, parameters=10**6, layers=10,
        flops_per_sample=flops, bytes_per_sample=flops / 10,
    )  # fmt: skip
    return features(Case("ai_training", "keras", workload, hardware, Configuration(levers=levers)), load_catalogue())
