"""What tosca-parser finds in a blueprint, with the line that its message is about."""

import contextlib
import io
import re
from collections.abc import Iterator, Mapping
from typing import Any

from modak_deploy.diagnostics import Diagnostic
from modak_deploy.tosca.locations import SourceLocation
from modak_deploy.tosca.profiles import TOSCA_PARSER
from modak_deploy.tosca.service import Service

_QUOTED = re.compile(r"\"([^\"]+)\"|'([^']+)'")


def second_opinion(service: Service, inputs: Mapping[str, Any] | None) -> list[Diagnostic]:
    """Return the finding of tosca-parser, at the deepest part of the blueprint whose key its message quotes.

    It would fetch what an import or repository names by its address; load() reports those, so it is not asked then.
    """
    from toscaparser.tosca_template import ToscaTemplate  # type: ignore[import-untyped]

    path = service.root.document.path
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            ToscaTemplate(str(path.absolute()), parsed_params=dict(inputs or {}))
    except Exception as error:  # it raises whatever its code happens to stumble over
        reason = re.sub(r"^The input .* error\(s\):|\bFile \S+, line .*", "", " ".join(str(error).split())).strip()
        quoted = {double or single for double, single in _QUOTED.findall(reason)}
        element = max(_quoted(service.root, quoted, 0), key=lambda pair: pair[0], default=(0, service.root))[1]
        return [element.diagnostic(f"tosca-parser refuses it: {reason}", tools=TOSCA_PARSER, code="not-portable")]
    return []


def _quoted(element: SourceLocation, quoted: set[str], depth: int) -> Iterator[tuple[int, SourceLocation]]:
    """Yield each part below which a quoted name is the key, with how many names lead there."""
    for inner in element.items():
        depth_here = depth + (inner.name in quoted)
        if depth_here > depth:
            yield depth_here, inner
        yield from _quoted(inner, quoted, depth_here)
