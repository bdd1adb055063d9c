#!/usr/bin/env bash
# Resolves the Python packages of the images: modak_deploy/catalogue/data/recipes/locks/NAME.in -> NAME.txt, with the hash of
# every file that the package index offers, so that a build takes nothing that was not seen here. NAME.more holds what
# the index does not have, and is appended as it is. Needs uv; without arguments all are made anew.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../modak_deploy/catalogue/data/recipes/locks"
[ $# -gt 0 ] || set -- *.in
for input in "$@"; do
  input=${input##*/}
  name=${input%.in}
  read -r _ _ python _ platform <"$name.in"
  {
    echo "# Made by scripts/lock_images.sh from $name.in for Python $python on $platform."
    uv pip compile "$name.in" --quiet --no-config --no-header --no-annotate --allow-unsafe --generate-hashes \
      --python-version "$python" --python-platform "$platform"
    [ ! -e "$name.more" ] || cat "$name.more"
  } >"$name.new"
  mv "$name.new" "$name.txt"
  echo "$name: $(grep -c == "$name.txt") packages"
done
