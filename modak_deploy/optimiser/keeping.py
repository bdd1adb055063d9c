"""Keeping a Plan that is already deployed: a new measurement alone is no reason to do finished work again.

The kept Plan lies among the results, where others may have changed it. It is kept only where all that it would run is
what the new Plan would run as well, with another of its candidates: only the choice is taken from it, and, where it is
known to be modak's own, the digest of its image.
"""

from collections.abc import Sequence

from modak_deploy.model.base import SchedulerName
from modak_deploy.model.execution import Launch
from modak_deploy.model.plan import Candidate, Plan
from modak_deploy.model.target import TargetType, usual_scheduler
from modak_deploy.schedulers import registry


def keep(new: Plan, old: Plan, *, own: bool = True) -> Plan:
    """Return ``old`` where the same was asked of the same catalogue and its choice still stands; ``new`` otherwise.

    The choice stands when the new Plan lists the very same candidate, be it as an alternative. The digest that its
    image's reference once stood for stays, whatever it stands for now, where ``old`` is modak's ``own``. Of several
    targets the old one stays where the same candidate would still be taken there.
    """
    if not _same_question(new, old):
        return new
    if new.target == old.target:
        same = new.scheduler == old.scheduler and new.inputs == old.inputs and _same_instance(new, old)
        possible = [new.chosen, *(ranked.candidate for ranked in new.alternatives)]
    else:
        there = [e for e in new.other_targets if e.target == old.target and e.inputs == old.inputs]
        same = _may_be(old.scheduler, old.target.type)
        possible = [e.candidate for e in there if e.candidate is not None]
    if not same or not any(_is_choice(old.chosen, candidate, own=own) for candidate in possible):
        return new
    if not _may_try(old.chosen.launch, new, [new.chosen, *possible], own=own):
        return new
    # Whoever wrote the old one may have written another environment there than the one to be tried.
    if own:
        return old
    old = _for_no_longer(old, new)
    return old if old.restart == new.restart else old.model_copy(update={"restart": new.restart})


def _on(launch: Launch | None) -> tuple[object, ...]:
    """Return what the launcher does whatever is tried: what there is to try becomes less with each measurement."""
    return (launch.levers, launch.session, launch.units) if launch and (launch.levers or launch.session) else ()


def _may_try(launch: Launch | None, new: Plan, possible: Sequence[Candidate], *, own: bool) -> bool:
    """Tell whether the launcher may try what an old Plan has it try.

    What modak itself wrote was permitted then, by the same request. Of another's Plan all must be part of a feasible
    candidate, which keeps to the request, or be tried by the new Plan.
    """
    if launch is None:
        return True
    if launch.numerics != new.request.numerics or launch.units not in (None, new.application.workload.units):
        return False
    if own:
        return True
    permitted = {name for candidate in possible for name in candidate.levers}
    permitted.update(name for candidate in possible if candidate.launch for name in candidate.launch.candidates)
    return permitted >= {*launch.candidates, *launch.relaxed}


def _for_no_longer(old: Plan, new: Plan) -> Plan:
    """Return an old Plan whose trials may lose no more than those of the new one."""
    launch, limits = old.chosen.launch, new.chosen.launch or Launch()
    if launch is None:
        return old
    within = {
        "gain": min(launch.gain, limits.gain),
        "kept": [name for name in launch.candidates if name in {*launch.kept, *limits.kept}],
        "share": min(launch.share, limits.share),
        "expected": {
            name: min(gain, limits.expected[name]) for name, gain in launch.expected.items() if name in limits.expected
        },
    }
    if all(getattr(launch, key) == value for key, value in within.items()):
        return old
    chosen = old.chosen.model_copy(update={"launch": launch.model_copy(update=within)})
    return old.model_copy(update={"chosen": chosen})


def _same_question(new: Plan, old: Plan) -> bool:
    """Compare what was asked itself: the hashes that stand in the old Plan say only what whoever wrote it wants."""
    return (
        new.questions() == old.questions()
        and new.versions.catalogue == old.versions.catalogue
        and new.name == old.name
        and new.application == old.application
        and new.request == old.request
        and new.job == old.job
        and new.sources == old.sources
        and new.secrets == old.secrets
    )


def _same_instance(new: Plan, old: Plan) -> bool:
    """Return whether the old Plan's instance type may still be had: with no capacity for it another one is chosen."""
    if new.instance is None or old.instance is None:
        return new.instance is old.instance
    return old.instance.chosen in [new.instance.chosen, *new.instance.candidates]


def _may_be(scheduler: SchedulerName, target: TargetType) -> bool:
    """Return whether a target of this type can have this scheduler, or one that stands in for it."""
    return scheduler == usual_scheduler(target) or target in registry.get(scheduler).stands_in_for


def _is_choice(chosen: Candidate, candidate: Candidate, *, own: bool) -> bool:
    if _on(chosen.launch) != _on(candidate.launch):
        return False
    chosen = chosen.model_copy(update={"rank_start": candidate.rank_start, "launch": candidate.launch})
    if chosen.image is None or candidate.image is None or candidate.image.digest is not None or not own:
        return chosen == candidate
    if chosen.image.reference != candidate.image.reference:
        return False
    return chosen.model_copy(update={"image": candidate.image}) == candidate
