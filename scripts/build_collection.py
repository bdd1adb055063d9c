"""Build the collection's archive for Ansible Galaxy: the files that git knows, with the address of the repository.

    build_collection.py --repository https://example.org/modak.git [--output FOLDER]

Galaxy wants that address, and galaxy.yml has none as long as the project is not published.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent


def copy_tracked(folder: Path) -> None:
    """Copy the files that git knows or would take, so that nothing else can get into the archive."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=TOP, check=True, capture_output=True).stdout.decode().split("\0")
    for name in filter(None, names):
        if (TOP / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(TOP / name, folder / name)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repository", required=True)
    parser.add_argument("--output", type=Path, default=TOP / "dist")
    arguments = parser.parse_args()
    if not re.fullmatch(r"https://[^\s\"]+", arguments.repository):
        parser.error(f"--repository must be an https:// address, not '{arguments.repository}'")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copy_tracked(folder)
        galaxy = folder / "galaxy.yml"
        line = f'repository: "{arguments.repository}"'
        text, count = re.subn(r"^repository:.*$", line, galaxy.read_text(), flags=re.MULTILINE)
        if count != 1:
            sys.exit("galaxy.yml has no single key 'repository'")
        galaxy.write_text(text)
        build = ["ansible-galaxy", "collection", "build", str(folder), "--force", "--output-path"]
        return subprocess.run([*build, str(arguments.output.absolute())], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
