#!/usr/bin/env bash
# Runs ansible-test sanity on the collection as it would be published: built, installed below a folder of the name that
# ansible-test wants, and made known to a git of its own. Nothing is downloaded but from the Python package index.
set -euo pipefail
TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
WORK=$TOP/.build/sanity
if ! git -C "$TOP" rev-parse --git-dir >/dev/null 2>&1; then
  echo "ansible-test needs git, and a checkout that git knows"
  exit 77
fi
rm -rf "$WORK"
mkdir -p "$WORK/source"

# Files that git knows or would take: no build product gets in.
cd "$TOP"
git ls-files -z --cached --others --exclude-standard |
  while IFS= read -r -d '' file; do [ -e "$file" ] && printf '%s\0' "$file"; done |
  tar -c --null -T - -f - | tar -x -C "$WORK/source"
ansible-galaxy collection build "$WORK/source" --output-path "$WORK"
ANSIBLE_COLLECTIONS_PATH=$WORK ansible-galaxy collection install --offline --force --collections-path "$WORK" "$WORK"/modak-deploy-*.tar.gz

# ansible-test would download a get-pip of its own, of the version that its release names; this stand-in installs the same
# pip from the index.
pip=$(python -c '
import sys, types
from ansible_test._internal.python_requirements import get_venv_packages
print(get_venv_packages(types.SimpleNamespace(version="%d.%d" % sys.version_info[:2]))["pip"])')
cache=$HOME/.ansible/test/cache
mkdir -p "$cache"
[ -e "$cache/pip-$pip-py3-none-any.whl" ] || python -m pip download --quiet --no-deps --dest "$cache" "pip==$pip"
stand_in=$cache/get_pip_${pip//./_}.py
[ -e "$stand_in" ] || cat >"$stand_in" <<PYTHON
import glob
import os
import runpy
import sys

sys.path.insert(0, glob.glob(os.path.join(os.path.dirname(os.path.abspath(__file__)), "pip-$pip-*.whl"))[0])
sys.argv = ["pip", "install"] + [a for a in sys.argv[1:] if a not in ("--no-setuptools", "--no-wheel")]
runpy.run_module("pip.__main__", run_name="__main__", alter_sys=True)
PYTHON

cd "$WORK/ansible_collections/modak/deploy"
git init --quiet
echo tests/output/ >.git/info/exclude
git add --all
# The imports of the plugins are checked with the collection alone, as on a controller that lacks the library.
unset PYTHONPATH ANSIBLE_COLLECTIONS_PATH
exec ansible-test sanity --local --python "$(python -c 'import sys; print("%d.%d" % sys.version_info[:2])')" "$@"
