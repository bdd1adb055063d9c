"""Faults that modak tells in its own keys, told in the document's."""

import re

from modak.errors import ModakError, reworded

PLACES = {
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
    "workload.parallel_share": "scaling_efficiency, the efficiency there",
}
"""Keys of a deployment and those of the job model that become them."""
_PLACE = re.compile(rf"(?<![\w.-])({'|'.join(map(re.escape, sorted(PLACES, key=len, reverse=True)))})(?![\w-])")
_KEYS = {place.rpartition(".")[2]: told.rpartition(".")[2] for place, told in PLACES.items()}
_KEY = re.compile(rf"'({'|'.join(sorted(_KEYS, key=len, reverse=True))})'")


def in_its_words(error: ModakError, names_partition: bool = False) -> ModakError:
    """Return the same error with the document's own names; ``names_partition`` tells which of two names it uses."""
    text = _PLACE.sub(lambda match: PLACES[match[1]], str(error))
    text = _KEY.sub(lambda match: f"'{_KEYS[match[1]]}'", text)
    if names_partition:
        text = text.replace("job_options.queue", "job_options.partition").replace("'queue'", "'partition'")
    return reworded(error, text)
