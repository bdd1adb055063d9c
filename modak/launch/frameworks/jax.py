"""JAX: its levers are settings of the process; its functions have no outermost call that could be counted."""

import os
from typing import Any

from ..session import Session


def install(session: Session, jax: Any, version: str) -> None:
    """Keep compiled code where the configuration names a folder for it."""
    if session.config.cache and not os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        jax.config.update("jax_compilation_cache_dir", os.path.join(session.config.cache, "jax"))
