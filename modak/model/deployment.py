"""The document that a user writes: application, target, request and job options in one."""

from modak.model.application import Application
from modak.model.base import Model
from modak.model.request import JobOptions, Request
from modak.model.target import Target


class Deployment(Model):
    """One application for one target."""

    application: Application
    """What is run."""
    target: Target = Target(name="localhost")
    """Where it is run; this machine when absent."""
    request: Request = Request()
    """What is wanted of the optimiser."""
    job: JobOptions = JobOptions()
    """Options of the job itself."""

    @property
    def run_name(self) -> str:
        """The run's name: the job's, else the application's."""
        return self.job.name or self.application.name
