"""Write man/modak.1, which goes into the wheel, from the command line; with --check, fail where it differs."""

import sys
from pathlib import Path

from modak_deploy.cli import command_line
from modak_deploy.deploy.manpage import manual_page

PAGE = Path(__file__).resolve().parents[1] / "man" / "modak.1"


def main() -> int:
    text = manual_page(command_line())
    if sys.argv[1:] == ["--check"]:
        if not PAGE.exists() or PAGE.read_text() != text:
            print("man/modak.1 differs from the command line: run python scripts/manpage.py", file=sys.stderr)
            return 1
        return 0
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
