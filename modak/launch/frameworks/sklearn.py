"""scikit-learn: its levers are set when it is imported; it has no units that could be counted."""

from typing import Any

from ..session import Session


def install(session: Session, sklearn: Any, version: str) -> None:
    """Nothing beyond the levers."""
