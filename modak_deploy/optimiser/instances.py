"""The choice of an instance type: one Plan for each that can do it, of which the best by time or cost is taken."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from modak_deploy.catalogue.catalogue import Catalogue
from modak_deploy.errors import InfeasibleError, InputError
from modak_deploy.model.cloud import DEFAULT_LEASE, LEASE_MARGIN, Cloud, Estimate, InstanceCandidate, InstancePlan
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.plan import TIMED, Plan, Prediction, Rejected, Source
from modak_deploy.model.target import Facts
from modak_deploy.optimiser.planner import make_plan
from modak_deploy.performance.records import Measurements
from modak_deploy.util.text import did_you_mean

if TYPE_CHECKING:
    from modak_deploy.catalogue.instances import InstanceEntry, InstancePrice

START = Estimate(value=90, low=30, high=300)
"""Seconds that are paid for an instance before the job runs and after it: start, cloud-init, fetching, end."""
_SHORTEST_LEASE = 900
"""Seconds: an instance that ends sooner does not even start a job reliably."""


@dataclass(frozen=True)
class Limits:
    """What is known of instance types besides the catalogue."""

    unavailable: Mapping[str, str] = field(default_factory=dict)
    """Types for which the provider has no capacity or quota at present, with what it said."""
    only: str | None = None
    """The type of the instance that exists already."""


@dataclass(frozen=True)
class _Offer:
    entry: "InstanceEntry"
    price: "InstancePrice"
    plan: Plan
    candidate: InstanceCandidate


def plan_on_instance(
    deployment: Deployment,
    sources: Sequence[Source],
    *,
    now: datetime,
    catalogue: Catalogue,
    measurements: Measurements,
    model: Path | None = None,
    unavailable: Mapping[str, str] | None = None,
    limits: Limits | None = None,
) -> Plan:
    """Return the Plan on the best instance type of a target of type cloud, without contacting anything.

    ``unavailable`` are images, as for ``make_plan``. The objective ``time`` takes the least predicted time, ``cost``
    the least predicted cost; where no time is known, the cheapest instance by the hour that can do it. The others
    follow in the Plan, best first, for an instance type that turns out to have no capacity. InfeasibleError where no
    instance type can do it.
    """
    limits = limits or Limits()
    cloud = deployment.target.cloud
    if cloud is None:
        raise InputError(f"the target {deployment.target.name} is of type {deployment.target.type}, not of type cloud")

    def planned(entry: "InstanceEntry", price: "InstancePrice") -> _Offer:
        plan = make_plan(
            deployment,
            facts_of(entry, price, cloud),
            sources,
            now=now,
            catalogue=catalogue,
            measurements=measurements,
            model=model,
            unavailable=unavailable,
        )
        _lease(deployment, price.hourly)
        return _Offer(entry, price, plan, _candidate(entry, price, plan))

    offers, rejected = _offers(deployment, cloud, catalogue, limits, planned)
    if not offers:
        reasons = "; ".join(f"{candidate.name}: {candidate.reason}" for candidate in rejected)
        raise InfeasibleError(
            f"no instance type of {cloud.provider} in {cloud.region} can do what was asked: {reasons}"
        )
    offers.sort(key=lambda offer: _order(offer, deployment))
    return _chosen(deployment, cloud, offers, rejected)


def _offers(
    deployment: Deployment,
    cloud: Cloud,
    catalogue: Catalogue,
    limits: Limits,
    planned: "Callable[[InstanceEntry, InstancePrice], _Offer]",
) -> tuple[list[_Offer], list[Rejected]]:
    """Return what each instance type that can do it offers, and why the others cannot."""
    offers: list[_Offer] = []
    rejected: list[Rejected] = []
    for entry, price in _offered(deployment, cloud, catalogue, rejected):
        reason = _excluded(entry.name, limits)
        if reason is None:
            try:
                offers.append(planned(entry, price))
                continue
            except InfeasibleError as error:
                reason = str(error)
        rejected.append(Rejected(name=f"instance type {entry.name}", reason=reason))
    return offers, rejected


def facts_of(entry: "InstanceEntry", price: "InstancePrice", cloud: Cloud) -> Facts:
    """Return what is known of an instance before it exists: its type's hardware and its machine image's software."""
    software = cloud.software
    return Facts(
        node=entry.node(price.hourly),
        glibc=software.glibc,
        runtimes=software.runtimes,
        python=software.python,
        packages=software.packages,
    )


def _offered(
    deployment: Deployment, cloud: Cloud, catalogue: Catalogue, rejected: list[Rejected]
) -> "list[tuple[InstanceEntry, InstancePrice]]":
    names = [name for name, entry in catalogue.instances.items() if entry.provider == cloud.provider]
    for name in cloud.instance_types:
        if name not in names:
            hint = did_you_mean(name, names) or "add it in a catalogue file instances*.yaml"
            text = f"the catalogue has no instance type '{name}'"
            raise InputError(text, key="target.cloud.instance_types", hint=hint)
    priced: list[tuple[InstanceEntry, InstancePrice]] = []
    for name in cloud.instance_types or names:
        price = catalogue.instances[name].price_in(cloud.region or "")
        if price is None:
            reason = f"the catalogue has no price of it in {cloud.region}"
            rejected.append(Rejected(name=f"instance type {name}", reason=reason))
        else:
            priced.append((catalogue.instances[name], price))
    currencies = {price.currency for _, price in priced}
    if len(currencies) > 1:
        raise InputError(
            f"the catalogue's prices are in {' and '.join(sorted(currencies))}, which cannot be compared",
            key="target.cloud",
            hint="name 'instance_types' with prices in one currency",
        )
    return priced


def _excluded(name: str, limits: Limits) -> str | None:
    if limits.only is not None and name != limits.only:
        return f"the deployment has an instance of type {limits.only} already"
    return limits.unavailable.get(name) if limits.only is None else None


def _candidate(entry: "InstanceEntry", price: "InstancePrice", plan: Plan) -> InstanceCandidate:
    seconds = seconds_of(plan.prediction)
    cost = None
    if seconds is not None:
        rate = price.hourly / 3600
        cost = Estimate(
            value=_round((seconds.value + START.value) * rate),
            low=_round((seconds.low + START.low) * rate),
            high=_round((seconds.high + START.high) * rate),
            unit=price.currency,
        )
    basis = plan.prediction.basis
    return InstanceCandidate(
        name=entry.name,
        hourly=price.hourly,
        vcpus=entry.vcpus,
        memory=entry.memory,
        disk=entry.disk,
        seconds=seconds,
        basis=basis,
        cost=cost,
    )


def seconds_of(prediction: Prediction) -> Estimate | None:
    """Return the predicted seconds with their interval; None where no time is known."""
    if prediction.seconds is None:
        return None
    low, high = (prediction.seconds if end is None else end for end in (prediction.low, prediction.high))
    return Estimate(value=prediction.seconds, low=low, high=high, unit="s")


def _round(amount: float) -> float:
    return float(f"{amount:.4g}")


def _order(offer: _Offer, deployment: Deployment) -> tuple[object, ...]:
    """Times that are meant as such first: a deadline or a budget was checked against those alone."""
    prediction, candidate = offer.plan.prediction, offer.candidate
    limited = deployment.request.deadline is not None or deployment.request.budget is not None
    unsure = limited and prediction.basis not in TIMED
    amount = candidate.cost if deployment.request.objective == "cost" else candidate.seconds
    best = (unsure, amount is None, 0.0 if amount is None else amount.value)
    return (*best, offer.price.hourly, offer.entry.name)


def _chosen(deployment: Deployment, cloud: Cloud, offers: Sequence[_Offer], rejected: Sequence[Rejected]) -> Plan:
    best = offers[0]
    lease = _lease(deployment, best.price.hourly)
    instance = InstancePlan(
        provider=cloud.provider,
        region=cloud.region or "",
        chosen=best.candidate,
        candidates=[offer.candidate for offer in offers[1:]],
        currency=best.price.currency,
        price_date=best.price.date,
        price_source=best.price.source,
        lease=lease,
        maximum_cost=_round(lease / 3600 * best.price.hourly),
    )
    return best.plan.model_copy(
        update={
            "instance": instance,
            "reason": f"{best.plan.reason}; {_why(deployment, offers)}",
            "rejected": [*best.plan.rejected, *rejected],
        }
    )


def _why(deployment: Deployment, offers: Sequence[_Offer]) -> str:
    best = offers[0]
    many = f" of {len(offers)} instance types that can do it" if len(offers) > 1 else ""
    if best.candidate.seconds is None:
        if len(offers) == 1:
            return f"{best.entry.name} is the only instance type that can do it"
        return f"no time is known on any instance type, and {best.entry.name} is the cheapest{many}"
    if len(offers) == 1:
        return f"{best.entry.name} is the only instance type that can do it"
    reason = "has the least predicted cost" if deployment.request.objective == "cost" else "is predicted the fastest"
    deadline = deployment.request.deadline
    within = f" within the deadline of {deadline} s" if deadline is not None else ""
    return f"{best.entry.name} {reason}{within}{many}"


def _lease(deployment: Deployment, hourly: float) -> int:
    """Return the seconds that the instance may live: no longer than the budget pays for."""
    cloud, job = deployment.target.cloud, deployment.job
    lease = DEFAULT_LEASE if job.wall_time is None else job.wall_time + LEASE_MARGIN
    if cloud is not None and cloud.lease is not None:
        lease = cloud.lease
    budget = deployment.request.budget
    if budget is not None and hourly > 0:
        lease = min(lease, int(budget / hourly * 3600))
    if lease < _SHORTEST_LEASE and budget is not None and hourly > 0:
        raise InfeasibleError(f"the budget of {budget:g} pays for {lease} s at {hourly:g} an hour")
    return lease
