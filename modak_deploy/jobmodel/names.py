"""Problems under the keys of a deployment, as problems of a document of the job model."""

from dataclasses import replace

from modak_deploy.diagnostics import Diagnostic, Location, dotted, location_of
from modak_deploy.errors import ModakError

PATHS = {
    "job.name": "job_options.job_name",
    "job.account": "job_options.account",
    "job.qos": "job_options.qos",
    "job.join_output": "job_options.combine_stdout_stderr",
    "job.partition": "job_options.queue",
    "job.wall_time": "job_options.wall_time_limit",
    "job.nodes": "job_options.node_count",
    "job.ranks": "application.mpi_ranks",
    "job.cores_per_rank": "job_options.core_count_per_process",
    "job.threads": "application.threads",
    "job.memory_per_core": "job_options.minimum_memory_per_processor",
    "job.memory": "job_options.memory_limit",
    "job.gpus": "job_options.request_gpus",
    "job.constraint": "job_options.architecture_constraint",
    "job.node_list": "job_options.request_specific_nodes",
    "job.exclusive": "job_options.node_exclusive",
    "job.array": "job_options.job_array",
    "job.dependency": "job_options.job_dependency",
    "job.begin": "job_options.defer_job",
    "job.output": "job_options.standard_output_file",
    "job.error": "job_options.standard_error_file",
    "job.mail_user": "job_options.email_address",
    "job.mail_events": "job_options.request_event_notification",
    "job.export_environment": "job_options.copy_environment",
    "job.environment": "job_options.copy_environment_variable",
    "job.pre_execution": "application.pre-execution",
    "job.post_execution": "application.post-execution",
    "application.image": "application.container_runtime",
    "application.framework": "optimisation.app_type-ai_training",
    "request.runtimes": "application.container_runtime",
    "request.minimal_efficiency": "application.minimal_efficiency",
    "workload.parallel_share": "application.scaling_efficiency",
}
"""Keys of a deployment and those of the job model that become them."""
_LONGEST = sorted(((location_of(path), location_of(own)) for path, own in PATHS.items()), key=len, reverse=True)


def in_job_model(error: ModakError, *, names_partition: bool = False) -> ModakError:
    """Return the same error under the keys of the job model, below ``job``, where it has such keys.

    ``names_partition`` says that the document calls its queue ``partition``, which is another name for it.
    """
    return error.mapped(lambda diagnostic: _in_job_model(diagnostic, names_partition=names_partition))


def _in_job_model(diagnostic: Diagnostic, *, names_partition: bool) -> Diagnostic:
    def own(path: str) -> str:
        path = PATHS.get(path, path)
        return "job_options.partition" if names_partition and path == "job_options.queue" else path

    renamed = diagnostic.renamed(own)
    path = _path(diagnostic.path)
    if names_partition and path == ("job_options", "queue"):
        path = ("job_options", "partition")
    return replace(renamed, path=path)


def _path(path: Location) -> Location:
    for theirs, own in _LONGEST:
        if path[: len(theirs)] == theirs:
            return (*own, *path[len(theirs) :])
    return path


def is_job_model(path: Location) -> bool:
    """Tell whether a path is one of the job model, below ``job``."""
    return dotted(path[:1]) in ("job_options", "application", "target", "optimisation")
