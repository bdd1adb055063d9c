"""Take a collection out of the package 'ansible' into a virtual environment: take_collection.py VENV NAMESPACE/NAME.

The package is on PyPI, so Galaxy need not be reachable. pip of VENV fetches it.
"""

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ANSIBLE = "12.3.0"


def main() -> None:
    venv, collection = Path(sys.argv[1]), sys.argv[2]
    with tempfile.TemporaryDirectory(dir=venv) as folder:
        fetch = [str(venv / "bin" / "pip"), "download", "-q", "--no-deps", "-d", folder, f"ansible=={ANSIBLE}"]
        subprocess.run(fetch, check=True)
        with zipfile.ZipFile(Path(folder) / f"ansible-{ANSIBLE}-py3-none-any.whl") as wheel:
            names = [name for name in wheel.namelist() if name.startswith(f"ansible_collections/{collection}/")]
            wheel.extractall(venv / "collections", names)


if __name__ == "__main__":
    main()
