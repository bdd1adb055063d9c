"""What to do about the instances of a deployment that a provider lists."""

from collections.abc import Collection, Sequence
from typing import Literal

from modak_deploy.model.base import Line, Model
from modak_deploy.providers.resources import Listed, Listing, Reported

_LIVE = frozenset({"starting", "running", "stopped"})


class Decision(Model):
    """The next step towards one running instance."""

    step: Literal["create", "wait", "replan", "use", "refuse"]
    """``create`` the instance, ``wait`` and list again, ``replan`` for the type of the instance that is there, ``use``
    it, or ``refuse`` for the reason given."""
    instance: Listed | None = None
    surplus: list[Reported] = []
    """Instances to terminate: a second one that two controllers created at the same time, or one that failed."""
    reason: Line | None = None


def decide(listing: Listing, *, wanted: str, permitted: Collection[str], pending: bool) -> Decision:
    """Return the next step; the oldest instance is the one that counts, whoever lists it.

    ``wanted`` is the label of the Plan's instance type, ``permitted`` are those of its further candidates. ``pending``
    says that a creation was begun a short time ago, which a listing may not show yet.
    """
    ordered = sorted(listing.instances, key=lambda instance: (instance.launched, instance.id))
    live = [instance for instance in ordered if instance.state in _LIVE]
    failed = [instance.id for instance in ordered if instance.state == "failed"]
    if not live:
        ending = [instance for instance in ordered if instance.state == "ending"]
        if listing.unmarked:
            # Who creates by name would take them over, change them, and delete them with the deployment.
            return Decision(
                step="refuse",
                reason=f"{', '.join(listing.unmarked)}: the name is the deployment's, and its mark is missing; rename "
                "or delete what is there first",
            )
        return Decision(step="wait" if pending or ending else "create", surplus=failed)
    first, surplus = live[0], [*failed, *(instance.id for instance in live[1:])]
    if first.label != wanted:
        if first.label in permitted:
            return Decision(step="replan", instance=first, surplus=surplus)
        return Decision(
            step="refuse",
            instance=first,
            reason=f"the deployment has an instance {first.id} of type {first.label}, which cannot do what is asked "
            "now; undeploy it first",
        )
    if first.state == "stopped":
        return Decision(
            step="refuse",
            instance=first,
            reason=f"the instance {first.id} does not run; start it, or undeploy it first",
        )
    ready = first.state == "running" and first.address is not None
    return Decision(step="use" if ready else "wait", instance=first, surplus=surplus)


def to_release(listing: Listing) -> tuple[Sequence[str], Sequence[str], Sequence[str]]:
    """Return the instances to terminate and then the security groups and launch templates to delete."""
    instances = [instance.id for instance in listing.instances if instance.state not in ("ending", "gone")]
    return instances, [group.id for group in listing.groups], [template.id for template in listing.templates]
