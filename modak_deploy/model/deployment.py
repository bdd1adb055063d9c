"""The document that a user writes: application, target, request and job options in one."""

from pydantic import model_validator

from modak_deploy.model.application import Application
from modak_deploy.model.base import Model
from modak_deploy.model.request import JobOptions, Request
from modak_deploy.model.target import Target


class Destination(Model):
    """A target, and options of what is submitted there to bring or build an image."""

    target: Target = Target(name="localhost")
    """Where the image is brought; this machine when absent."""
    job: JobOptions = JobOptions()
    """Options of a build's job."""


class Deployment(Model):
    """One application for one target, or for the best of several."""

    application: Application
    """The application to run."""
    target: Target = Target(name="localhost")
    """Where it runs; this machine when absent."""
    other_targets: list[Target] = []
    """Alternative targets; the Plan chooses one of them only if the application is certainly faster there."""
    request: Request = Request()
    """Objectives and limits for the decision."""
    job: JobOptions = JobOptions()
    """Options of the job itself."""

    @model_validator(mode="after")
    def _targets_differ(self) -> "Deployment":
        names = [target.name for target in self.targets]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"two targets have the name '{twice}': give each its own")
        return self

    @property
    def targets(self) -> list[Target]:
        """All targets that the Plan may choose, the one that needs no reason first."""
        return [self.target, *self.other_targets]

    def on(self, target: Target) -> "Deployment":
        """Return the same deployment on this target alone."""
        return self.model_copy(update={"target": target, "other_targets": []})

    @property
    def run_name(self) -> str:
        """The run's name: the job's, else the application's."""
        return self.job.name or self.application.name
