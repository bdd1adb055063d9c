#!/bin/sh
# Prints a Python that can make virtual environments: 3.11 to 3.13 if there is one, since TensorFlow comes late to a
# new Python. The system's own comes first: one below a private home would be of no use to another user's jobs.
set -eu
usable() { "$1" -c "import sys, venv, ensurepip; sys.exit(not ((3, 11) <= sys.version_info[:2] <= (3, $2)))" 2>/dev/null; }
if [ -n "${PYTHON:-}" ]; then
  if usable "$PYTHON" 99; then echo "$PYTHON" && exit 0; fi
  echo "modak needs Python 3.11 or newer with venv, and PYTHON=$PYTHON is none." >&2
  exit 1
fi
for newest in 13 99; do
  for python in /usr/bin/python3 python3 python3.13 python3.12 python3.11 python3.14 python3.15; do
    if path=$(command -v "$python") && usable "$path" "$newest"; then echo "$path" && exit 0; fi
  done
done
echo "modak needs Python 3.11 or newer with venv, and none is on PATH (on Debian and Ubuntu: apt install python3-venv)." >&2
exit 1
