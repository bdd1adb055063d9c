"""The lever effect ``priority``: the program is started by nice(1)."""

from typing import Annotated

from pydantic import Field

from modak_deploy.catalogue.effects import Effect, Run


class Priority(Effect[int]):
    """Niceness, 0 to 19."""

    name = "priority"
    form = Annotated[int, Field(ge=0, le=19)]

    def apply(self, run: Run) -> None:
        run.prefix += ["nice", "-n", str(self.value)]
