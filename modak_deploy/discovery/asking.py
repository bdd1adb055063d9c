"""The one round trip of the discovery, at once or in a thread while the controller does something else."""

from contextvars import copy_context
from pathlib import Path
from threading import Thread

from modak_deploy.discovery.probe import probe_script
from modak_deploy.errors import TargetError
from modak_deploy.model.deployment import Deployment
from modak_deploy.terminal import ends
from modak_deploy.transport.base import Transport


def ask(transport: Transport, script: str, name: str) -> str:
    """Return what the discovery's ``script`` prints on the target that is called ``name``.

    TargetError when the target cannot be reached or its shell does not come to the script's end.
    """
    done = transport.run(script, timeout=120)
    if done.returncode != 0:
        message = ends(" ".join(done.stderr.split()), 500) or "nothing"
        raise TargetError(f"the target {name} could not be asked about itself", hint=f"its shell said: {message}")
    return done.stdout


def script_for(deployment: Deployment, default_python: str | None = None) -> str:
    """Return the discovery's script for the target of a deployment.

    ``default_python`` is the application's Python on this machine, where it is the target and names none.
    """
    target = deployment.target
    default = None if default_python is None or target.host is not None else _python3(default_python)
    request = deployment.request
    exact = [request.configuration.runtime] if request.configuration else []
    runtimes = [*(request.runtimes or []), *exact]
    return probe_script(target, deployment.application, default_python=default, runtimes=runtimes)


def _python3(python: str) -> str:
    """Return an environment's ``python3``: its ``python`` is the same, and may not make another Plan."""
    sibling = Path(python).with_name("python3")
    return str(sibling) if sibling.exists() and sibling.resolve() == Path(python).resolve() else python


class Inquiry:
    """A target's answer, which a thread waits for: it alone uses the transport until ``answer`` returns."""

    def __init__(self, transport: Transport, script: str, name: str) -> None:
        """Start to ask; what goes wrong is raised by ``answer``."""
        self._text = ""
        self._error: BaseException | None = None
        # A daemon: a command that ends early, by Ctrl-C or for a fault in the catalogue, does not wait for the target.
        self._thread = Thread(target=copy_context().run, args=(self._run, transport, script, name), daemon=True)
        self._thread.start()

    def _run(self, transport: Transport, script: str, name: str) -> None:
        try:
            self._text = ask(transport, script, name)
        except BaseException as error:  # it is the main thread that reports it
            self._error = error

    def answer(self) -> str:
        """Return what the script printed, as soon as it is there; see ``ask``."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._text
