"""Build scripts: the templates of recipes, filled within bounds, since a document names the folders they lie in."""

from collections.abc import Mapping
from pathlib import Path

from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError, nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from modak_deploy.errors import InputError
from modak_deploy.shell import quote
from modak_deploy.terminal import excerpt

_MOST_TEMPLATE = 8 * 1024
_MOST_VALUES = 8 * 1024
_MOST_SCRIPT = 64 * 1024
"""Characters; the shipped recipes need less than a fifth of each."""
_LOOPS = ("programs", "values")
"""What a loop may go over."""
_FILTERS = ("d", "default", "length", "lower", "trim", "upper")
"""Jinja's filters whose result is no larger than what they get; ``quote`` is modak's."""
_TESTS = ("defined", "undefined", "none", "in")
"""``divisibleby``, ``even`` and ``odd`` are arithmetic: of a text, Python's ``%`` makes one of any width."""
_DEEPEST = 20
"""Levels of a template's tree: Jinja's optimiser (3.1) takes time with their third power."""
_NODES = (
    nodes.Template, nodes.Output, nodes.TemplateData, nodes.If, nodes.For, nodes.Name, nodes.Getattr, nodes.Getitem,
    nodes.Const, nodes.List, nodes.Tuple, nodes.CondExpr, nodes.Compare, nodes.Operand, nodes.And, nodes.Or, nodes.Not,
    nodes.Concat, nodes.Filter, nodes.Test, nodes.Keyword,
)  # fmt: skip
"""What a template may consist of. Calls, macros, assignments and arithmetic are not needed, and each of them lets a
short template run or grow without end, which no sandbox prevents."""


def fill(template: str, values: Mapping[str, object], source: Path) -> str:
    """Return the text of ``template``, which was read from ``source``; InputError says what is wrong with it.

    Nothing in it repeats but a loop over the recipe's programs or values, and loops do not nest: the three sizes bound
    time and memory.
    """
    if len(template) > _MOST_TEMPLATE:
        raise InputError(f"the template has more than {_MOST_TEMPLATE} characters", source=source)
    if len(repr(values)) > _MOST_VALUES:
        raise InputError(f"the recipe's values have more than {_MOST_VALUES} characters", source=source)
    environment = ImmutableSandboxedEnvironment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False
    )
    environment.globals.clear()
    environment.filters = {"quote": quote, **{name: environment.filters[name] for name in _FILTERS}}
    environment.tests = {name: environment.tests[name] for name in _TESTS}
    try:
        tree = environment.parse(template)
        _check(tree, source)
        pieces: list[str] = []
        size = 0
        for piece in environment.from_string(tree).generate(values):
            size += len(piece.encode())
            if size > _MOST_SCRIPT:
                raise InputError(f"the build script has more than {_MOST_SCRIPT} bytes", source=source)
            pieces.append(piece)
    # Besides its own errors Jinja lets through what Python says of the expressions and of their nesting.
    except (TemplateError, TypeError, ValueError, RecursionError, SyntaxError, MemoryError) as error:
        line = error.lineno if isinstance(error, TemplateSyntaxError) else None
        raise InputError(
            f"the template cannot be filled: {excerpt(str(error), 300)}", source=source, line=line
        ) from None
    return "".join(pieces)


def _check(tree: nodes.Node, source: Path) -> None:
    waiting = [(tree, 0, False, False)]
    while waiting:
        node, depth, in_loop, in_quote = waiting.pop()
        loop = isinstance(node, nodes.For)
        quoted = isinstance(node, nodes.Filter) and node.name == "quote"
        if not isinstance(node, _NODES):
            raise _error(f"'{type(node).__name__}' is not supported in the template of a build script", node, source)
        if depth > _DEEPEST:
            raise _error(
                f"more than {_DEEPEST} levels are not supported in the template of a build script", node, source
            )
        if loop and in_loop:
            raise _error("a loop within a loop is not supported in the template of a build script", node, source)
        if isinstance(node, nodes.For) and not (isinstance(node.iter, nodes.Name) and node.iter.name in _LOOPS):
            raise _error("a loop in the template of a build script goes over 'programs' or 'values'", node, source)
        if quoted and in_quote:
            raise _error("a value is quoted twice", node, source)
        waiting += [(child, depth + 1, in_loop or loop, in_quote or quoted) for child in node.iter_child_nodes()]


def _error(text: str, node: nodes.Node, source: Path) -> InputError:
    return InputError(text, source=source, line=node.lineno)
