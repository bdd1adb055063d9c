"""The choice of an instance type: one Plan for each that can do it, of which the best by time or cost is taken."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from modak_deploy.catalogue.catalogue import Catalogue
from modak_deploy.errors import InfeasibleError, InputError
from modak_deploy.model.cloud import (
    DEFAULT_LEASE,
    LEASE_MARGIN,
    Cloud,
    Estimate,
    InstanceCandidate,
    InstancePlan,
    label_of,
)
from modak_deploy.model.deployment import Deployment
from modak_deploy.model.plan import Plan, Prediction, Rejected, Source
from modak_deploy.model.target import Facts
from modak_deploy.optimiser import interruptions
from modak_deploy.optimiser.planner import make_plan
from modak_deploy.performance.records import Measurements
from modak_deploy.providers import registry
from modak_deploy.util.text import did_you_mean

if TYPE_CHECKING:
    from modak_deploy.catalogue.instances import InstanceEntry, InstancePrice, InterruptiblePrice

START = Estimate(value=90, low=30, high=300)
"""Seconds that are paid for an instance before the job runs and after it: start, cloud-init, fetching, end."""
_SHORTEST_LEASE = 900
"""Seconds: an instance that ends sooner does not even start a job reliably."""


@dataclass(frozen=True)
class Limits:
    """What is known of instance types besides the catalogue."""

    unavailable: Mapping[str, str] = field(default_factory=dict)
    """Labels of types for which the provider has no capacity or quota at present, with what it said."""
    only: str | None = None
    """Label of the type of the instance that exists already."""


@dataclass(frozen=True)
class _Priced:
    """An instance type, on demand or as a spot instance."""

    entry: "InstanceEntry"
    price: "InstancePrice"
    interruptible: bool = False

    @property
    def label(self) -> str:
        return label_of(self.entry.name, interruptible=self.interruptible)

    @property
    def sale(self) -> "InstancePrice | InterruptiblePrice":
        return self.price.spot if self.interruptible and self.price.spot is not None else self.price

    @property
    def rate(self) -> float | None:
        """Interruptions in an hour; None where that is not known."""
        if not self.interruptible:
            return 0.0
        return self.price.spot.interruptions if self.price.spot is not None else None


@dataclass(frozen=True)
class _Offer:
    priced: _Priced
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

    if cloud.spot is not None and not registry.get(cloud.provider).interruptible:
        raise InputError(f"{cloud.provider} has no spot instances", key="target.cloud.spot", hint="leave it out")

    def planned(priced: _Priced) -> _Offer:
        plan = make_plan(
            deployment,
            facts_of(priced.entry, priced.sale.hourly, cloud),
            sources,
            now=now,
            catalogue=catalogue,
            measurements=measurements,
            model=model,
            unavailable=unavailable,
        )
        lease, candidate = _lease(deployment, priced), _candidate(priced, plan)
        if priced.interruptible:
            _check_interruptible(deployment, candidate, lease)
        if plan.prediction.is_sure and (reason := _outlived(deployment, candidate, lease)):
            raise InfeasibleError(reason)
        return _Offer(priced, plan, candidate)

    offers, rejected = _offers(cloud, catalogue, limits, planned)
    if not offers:
        reasons = "; ".join(f"{candidate.name}: {candidate.reason}" for candidate in rejected)
        raise InfeasibleError(
            f"no instance type of {cloud.provider} in {cloud.region} can do what was asked: {reasons}"
        )
    offers.sort(key=lambda offer: _order(offer, deployment))
    return _chosen(deployment, cloud, offers, rejected)


def _check_interruptible(deployment: Deployment, candidate: InstanceCandidate, lease: int) -> None:
    """Raise InfeasibleError where a job should not run on an instance that may be taken back."""
    seconds = candidate.seconds.value if candidate.seconds is not None else None
    budget = deployment.request.budget
    if deployment.application.service is not None:
        raise InfeasibleError("a service is not started again when its instance is taken back")
    interruptions.check_deadline(seconds, START.value, deployment.request.deadline)
    if budget is None or seconds is None or candidate.cost is None:
        return
    if seconds + START.value > lease:
        raise InfeasibleError(
            f"the budget of {budget:g} pays for {lease} s of each instance with all restarts, and the job takes "
            f"{seconds + START.value:.0f} s"
        )
    if candidate.cost.value > budget:
        raise InfeasibleError(
            f"with the runs that are lost it is expected to cost {candidate.cost.value:g}, more than the budget of "
            f"{budget:g}"
        )


def _outlived(deployment: Deployment, candidate: InstanceCandidate, lease: int) -> str | None:
    """Return that the job would be lost with its instance, which ends itself before; None where it ends in time."""
    if candidate.seconds is None or candidate.seconds.value + START.value <= lease:
        return None
    cloud, budget = deployment.target.cloud, deployment.request.budget
    why = f"by the lease of {lease} s"
    if budget is not None and lease < _unpaid_lease(deployment):
        why = f"after {lease} s, for which the budget of {budget:g} pays"
    elif deployment.job.wall_time is None and (cloud is None or cloud.lease is None):
        why = f"after {lease} s, for neither job.wall_time nor target.cloud.lease is given"
    takes = f"{candidate.seconds.value + START.value:.0f} s"
    return f"the job is predicted to take {takes} with the start of its instance, which ends itself {why}"


def _offers(
    cloud: Cloud, catalogue: Catalogue, limits: Limits, planned: Callable[[_Priced], _Offer]
) -> tuple[list[_Offer], list[Rejected]]:
    """Return what each instance type that can do it offers, and why the others cannot."""
    offers: list[_Offer] = []
    rejected: list[Rejected] = []
    for priced in _offered(cloud, catalogue, rejected):
        reason = _excluded(priced.label, limits)
        if reason is None:
            try:
                offers.append(planned(priced))
                continue
            except InfeasibleError as error:
                reason = str(error)
        rejected.append(Rejected(name=f"instance type {priced.label}", reason=reason))
    return offers, rejected


def facts_of(entry: "InstanceEntry", hourly: float, cloud: Cloud) -> Facts:
    """Return what is known of an instance before it exists: its type's hardware and its machine image's software."""
    software = cloud.software
    return Facts(
        node=entry.node(hourly),
        glibc=software.glibc,
        runtimes=software.runtimes,
        python=software.python,
        packages=software.packages,
    )


def _offered(cloud: Cloud, catalogue: Catalogue, rejected: list[Rejected]) -> list[_Priced]:
    names = [name for name, entry in catalogue.instances.items() if entry.provider == cloud.provider]
    for name in cloud.instance_types:
        if name not in names:
            hint = did_you_mean(name, names) or "add it in a catalogue file instances*.yaml"
            text = f"the catalogue has no instance type '{name}'"
            raise InputError(text, key="target.cloud.instance_types", hint=hint)
    priced: list[_Priced] = []
    for name in cloud.instance_types or names:
        price = catalogue.instances[name].price_in(cloud.region or "")
        if price is None:
            reason = f"the catalogue has no price of it in {cloud.region}"
            rejected.append(Rejected(name=f"instance type {name}", reason=reason))
        else:
            kinds = [False] if cloud.spot is None else [True] if cloud.spot.only else [False, True]
            priced += [_Priced(catalogue.instances[name], price, kind) for kind in kinds]
    currencies = {sale.price.currency for sale in priced}
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


def _candidate(priced: _Priced, plan: Plan) -> InstanceCandidate:
    """Return the type with its cost; for a spot instance, that of the runs which are expected to be lost included."""
    entry, hourly, rate = priced.entry, priced.sale.hourly, priced.rate or 0.0
    seconds = seconds_of(plan.prediction)
    cost, interruption = None, None
    if seconds is not None:
        hours = {end: (getattr(seconds, end) + getattr(START, end)) / 3600 for end in ("value", "low", "high")}
        cost = Estimate(
            value=_round(interruptions.expected(rate, hours["value"]) * hourly),
            low=_round(hours["low"] * hourly),
            high=_round(interruptions.expected(rate, hours["high"], strict=False) * hourly),
            unit=priced.price.currency,
        )
        if priced.interruptible and priced.rate is not None:
            interruption = _round(interruptions.probability(rate, hours["value"]))
    return InstanceCandidate(
        name=entry.name,
        interruptible=priced.interruptible,
        hourly=hourly,
        vcpus=entry.vcpus,
        memory=entry.memory,
        disk=entry.disk,
        seconds=seconds,
        basis=plan.prediction.basis,
        cost=cost,
        interruption=interruption,
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
    unsure = limited and not prediction.is_sure
    by_cost = deployment.request.objective == "cost"
    amount = None
    if by_cost and candidate.cost is not None:
        amount = candidate.cost.value
    elif not by_cost and candidate.seconds is not None:
        hours = (candidate.seconds.value + START.value) / 3600
        amount = interruptions.expected(offer.priced.rate or 0.0, hours)
    best = (unsure, amount is None, amount or 0.0)
    risk = candidate.interruptible and not by_cost and amount is not None
    return (*best, risk, candidate.hourly, candidate.interruptible, candidate.name)


def _chosen(deployment: Deployment, cloud: Cloud, offers: Sequence[_Offer], rejected: Sequence[Rejected]) -> Plan:
    best = offers[0]
    lease, hourly = _lease(deployment, best.priced), best.candidate.hourly
    why, outlived = _why(deployment, offers), _outlived(deployment, best.candidate, lease)
    why += _risk(cloud, best.candidate)
    instance = InstancePlan(
        provider=cloud.provider,
        region=cloud.region or "",
        chosen=best.candidate,
        candidates=[offer.candidate for offer in offers[1:]],
        currency=best.priced.price.currency,
        price_date=best.priced.sale.date,
        price_source=best.priced.sale.source,
        lease=lease,
        maximum_cost=_round(lease / 3600 * hourly * _most_runs(cloud, best.priced)),
    )
    return best.plan.model_copy(
        update={
            "instance": instance,
            "reason": "; ".join(filter(None, [best.plan.reason, why, outlived])),
            "rejected": [*best.plan.rejected, *rejected],
        }
    )


def _why(deployment: Deployment, offers: Sequence[_Offer]) -> str:
    best = offers[0]
    many = f" of {len(offers)} instance types that can do it" if len(offers) > 1 else ""
    name = best.candidate.label
    if best.candidate.seconds is None:
        if len(offers) == 1:
            return f"{name} is the only instance type that can do it"
        return f"no time is known on any instance type, and {name} is the cheapest{many}"
    if len(offers) == 1:
        return f"{name} is the only instance type that can do it"
    reason = "has the least predicted cost" if deployment.request.objective == "cost" else "is predicted the fastest"
    deadline = deployment.request.deadline
    is_kept = deadline is not None and best.plan.prediction.is_sure
    within = f" within the deadline of {deadline} s" if is_kept else ""
    return f"{name} {reason}{within}{many}"


def _risk(cloud: Cloud, candidate: InstanceCandidate) -> str:
    """Return what the Plan says of a spot instance; nothing of another one."""
    if not candidate.interruptible or cloud.spot is None:
        return ""
    share = "with a probability that is not known"
    if candidate.interruption is not None:
        share = f"with a probability of {100 * candidate.interruption:.2g} % before the job ends"
    then = "the job then fails"
    if cloud.spot.restarts:
        then = f"the job then starts again from its beginning, {cloud.spot.restarts} times at most"
    return f"; {cloud.provider} may take the instance back, {share}; {then}"


def _most_runs(cloud: Cloud, priced: _Priced) -> int:
    """Return how many instances one deployment may pay for."""
    return 1 + (cloud.spot.restarts if priced.interruptible and cloud.spot is not None else 0)


def _lease(deployment: Deployment, priced: _Priced) -> int:
    """Return the seconds that each instance may live: no longer than the budget pays for."""
    cloud, hourly = deployment.target.cloud, priced.sale.hourly
    lease = _unpaid_lease(deployment)
    runs = 1 if cloud is None else _most_runs(cloud, priced)
    budget = deployment.request.budget
    if budget is None or hourly == 0:
        return lease
    lease = min(lease, int(budget / (hourly * runs) * 3600))
    if lease < _SHORTEST_LEASE:
        each = f" for each of {runs} instances" if runs > 1 else ""
        raise InfeasibleError(f"the budget of {budget:g} pays for {lease} s at {hourly:g} an hour{each}")
    return lease


def _unpaid_lease(deployment: Deployment) -> int:
    """Return the seconds that an instance may live whatever it costs."""
    cloud, wall_time = deployment.target.cloud, deployment.job.wall_time
    if cloud is not None and cloud.lease is not None:
        return cloud.lease
    return DEFAULT_LEASE if wall_time is None else wall_time + LEASE_MARGIN
