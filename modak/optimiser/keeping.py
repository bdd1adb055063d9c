"""Keeping a Plan that is already deployed: a new measurement alone is no reason to do finished work again."""

from modak.model.plan import Candidate, Plan


def keep(new: Plan, old: Plan) -> Plan:
    """Return ``old`` where the same was asked of the same catalogue and its choice still stands; ``new`` otherwise.

    The choice stands when the new Plan lists the very same candidate, be it as an alternative. The digest that its
    image's reference once stood for stays, whatever it stands for now. Of several targets the old one stays where the
    same candidate would still be taken there.
    """
    same = new.questions() == old.questions() and new.versions.catalogue == old.versions.catalogue
    if new.target == old.target:
        same = same and new.scheduler == old.scheduler
        possible = [new.chosen, *(ranked.candidate for ranked in new.alternatives)]
    else:
        possible = [e.candidate for e in new.other_targets if e.target == old.target and e.candidate is not None]
    return old if same and any(_is_choice(old.chosen, candidate) for candidate in possible) else new


def _is_choice(chosen: Candidate, candidate: Candidate) -> bool:
    chosen = chosen.model_copy(update={"rank_start": candidate.rank_start})
    if chosen.image is None or candidate.image is None or candidate.image.digest is not None:
        return chosen == candidate
    if chosen.image.reference != candidate.image.reference:
        return False
    return chosen.model_copy(update={"image": candidate.image}) == candidate
