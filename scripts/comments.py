"""Comment lines per 100 lines of each package: lines that are comments, and ends of lines that give a reason."""

import sys
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
DIRECTIVES = ("#!", "# shellcheck", "# noqa", "# type:", "# fmt:")
"""What only tools read."""


def is_comment(line: str) -> bool:
    """Return whether a line is, or ends with, a comment for readers."""
    text = line.strip()
    if text.startswith("#"):
        return not text.startswith(DIRECTIVES)
    _, mark, end = text.partition("  # ")
    return bool(mark) and not f"# {end}".startswith(DIRECTIVES)


def main() -> int:
    """Print the rate of each package."""
    counts: dict[str, list[int]] = {}
    for file in sorted((TOP / "modak_deploy").rglob("*")):
        if file.suffix in (".py", ".sh", ".awk"):
            parts = file.relative_to(TOP).parts
            lines = file.read_text(encoding="utf-8").splitlines()
            entry = counts.setdefault("/".join(parts[:2]) if len(parts) > 2 else "modak_deploy", [0, 0])
            entry[0] += sum(map(is_comment, lines))
            entry[1] += len(lines)
    for package, (comments, lines_in) in {
        **counts,
        "all": [sum(c) for c in zip(*counts.values(), strict=True)],
    }.items():
        print(f"{100 * comments / lines_in:5.1f} {package} ({comments} of {lines_in})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
