"""The properties of SODALITE's node types that are gone by, and how operations are told of them."""

from typing import Any

JOB = "sodalite.nodes.workflow.Job"
MANAGER = ("scheduler", "username", "ssh-key")
"""Properties of a workload manager that say how to use it, besides those of every target."""
RUNTIME = ("runtime", "images_location")
APPLICATION = (
    "app_tag", "app_type", "container_runtime", "executable", "arguments", "mpi_ranks", "threads", "minimal_efficiency",
    "storage_class_pref",
)  # fmt: skip
EXECUTION = (
    "content", "workspace", "job_name", "partition", "queue", "wall_time_limit", "node_count", "core_count",
    "process_count_per_node", "request_gpus", "request_specific_nodes", "standard_output_file", "standard_error_file",
    "combine_stdout_stderr", "copy_environment", "copy_environment_variable", "request_event_notification",
    "email_address",
)  # fmt: skip


def told(*names: str) -> dict[str, Any]:
    """Return what an operation of a relationship is told of its target."""
    return {name: {"get_property": ["TARGET", name]} for name in names}
