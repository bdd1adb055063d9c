"""The schedulers by name."""

from modak_deploy.extensions import SCHEDULERS
from modak_deploy.model.base import SchedulerName
from modak_deploy.schedulers.base import Scheduler


def get(name: SchedulerName) -> Scheduler:
    """Return the scheduler; InputError where there is none of that name, or its distribution is faulty."""
    scheduler: Scheduler = SCHEDULERS.make(name, Scheduler)
    return scheduler
