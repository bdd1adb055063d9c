"""The schedulers by name."""

from importlib import import_module

from modak.model.base import SchedulerName
from modak.schedulers.base import Scheduler

_CLASSES: dict[SchedulerName, str] = {
    "process": "modak.schedulers.process:Process",
    "slurm": "modak.schedulers.slurm:Slurm",
    "torque": "modak.schedulers.torque:Torque",
    "openpbs": "modak.schedulers.openpbs:OpenPBS",
    "gridengine": "modak.schedulers.gridengine:GridEngine",
}


def get(name: SchedulerName) -> Scheduler:
    """Return the scheduler; KeyError for a name that is none."""
    module, _, attribute = _CLASSES[name].partition(":")
    scheduler: Scheduler = getattr(import_module(module), attribute)()
    return scheduler
