"""Text that a target prints about itself, made into facts. Nothing here does I/O; one script asks all questions."""

from modak_deploy.discovery.compare import differences
from modak_deploy.discovery.describe import describe, section, target_of
from modak_deploy.discovery.facts import parse_probe
from modak_deploy.discovery.probe import probe_script

__all__ = ["describe", "differences", "parse_probe", "probe_script", "section", "target_of"]
