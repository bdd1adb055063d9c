"""The properties of SODALITE's node types that are gone by, and how operations are told of them."""

from typing import Any

JOB = "sodalite.nodes.workflow.Job"
MANAGER_TYPE = "sodalite.nodes.hpc.WM"
APPLICATION_TYPE = "sodalite.nodes.batch.Container.Application"
TRANSFER, CLIENT = "sodalite.data.mover.gridftp", "sodalite.data.mover.gridftp-client"
MANAGER = ("scheduler", "username", "ssh-key")
"""Properties of a workload manager that say how to use it, besides those of every target."""
MANAGER_ATTRIBUTES = {"username": "attribute-username", "ssh-key": "attribute-ssh-key"}
"""Those that are attributes of other types of hosts, and the names by which operations are told of these."""
RUNTIME = ("runtime", "images_location", "private_registry")
APPLICATION = (
    "app_tag", "app_type", "container_runtime", "executable", "arguments", "mpi_ranks", "threads", "minimal_efficiency",
    "storage_class_pref", "pre-execution", "post-execution", "build", "enable_autotuning",
    "optimisation",
)  # fmt: skip
EXECUTION = (
    "content", "workspace", "job_name", "account", "partition", "queue", "wall_time_limit", "node_count", "core_count",
    "process_count_per_node", "core_count_per_process", "memory_limit", "minimum_memory_per_processor", "request_gpus",
    "request_specific_nodes", "job_array", "job_dependency", "standard_output_file", "standard_error_file",
    "combine_stdout_stderr", "architecture_constraint", "copy_environment", "copy_environment_variable",
    "request_event_notification", "email_address", "defer_job", "node_exclusive",
)  # fmt: skip
_CERTIFICATES = ("cert_path", "cert", "key", "certdir", "initial_data_path", "hostnames", "env")
UNUSED = {
    MANAGER_TYPE: ("hpc_label", "scrape_interval"),
    "sodalite.nodes.batch.Container.Runtime": ("certs_location", "puller_image", "puller_image_remote"),
    "sodalite.nodes.workflow.Result": ("monitor_period", "monitor_retries_headroom"),
    "sodalite.image_puller.singularity": ("certs_location", "puller_image", "puller_image_remote"),
    "sodalite.nodes.modak": ("endpoint",),
    "sodalite.data.mover.gridftp-client": _CERTIFICATES,
    "sodalite.data.mover.GridFTP.Client": (
        *_CERTIFICATES,
        "usercert",
        "userkey",
        "globus_certificates_tarball_url",
    ),
    **{
        f"sodalite.nodes.hpc.job.{kind}.{part}": ("enable_audit",)
        for kind in ("torque", "slurm")
        for part in ("configuration.base", "configuration", "configuration.node", "preconfigured")
    },
    **{
        f"sodalite.nodes.hpc.job{kind}{part}": ("enable_audit", "monitor_period", "monitor_retries_headroom")
        for kind in ("", ".torque", ".slurm")
        for part in ("", ".result")
    },
}
"""Properties that are accepted and not gone by, by the name of the node type."""
UNUSED_INPUTS = ("monitoring_id", "hpc_exporter_address", "deployment_label", "jwt")
"""Inputs of SODALITE's monitoring."""


def inputs(*names: str) -> dict[str, Any]:
    """Return what an operation of a relationship is told of its target."""
    return {name: {"get_property": ["TARGET", name]} for name in names}
