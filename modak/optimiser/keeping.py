"""Keeping a Plan that is already deployed: a new measurement alone is no reason to do finished work again."""

from modak.model.plan import Plan


def keep(new: Plan, old: Plan) -> Plan:
    """Return ``old`` where the same was asked of the same catalogue and its choice still stands; ``new`` otherwise.

    The choice stands when the new Plan lists the very same candidate, be it as an alternative.
    """
    same = (
        new.inputs == old.inputs and new.scheduler == old.scheduler and new.versions.catalogue == old.versions.catalogue
    )
    possible = [new.chosen, *(ranked.candidate for ranked in new.alternatives)]
    return old if same and old.chosen in possible else new
