"""Which documents are of the job model."""

from typing import Any


def is_job_document(data: Any) -> bool:
    """Tell whether ``data`` is of the JSON job model: its one key is ``job``, and the application stands in there."""
    return isinstance(data, dict) and list(data) == ["job"] and _holds_sections(data["job"])


def _holds_sections(job: Any) -> bool:
    return isinstance(job, dict) and bool({"application", "job_options", "optimisation", "target"} & set(job))
