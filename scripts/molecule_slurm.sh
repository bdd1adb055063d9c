#!/bin/sh
# Runs the molecule scenario slurm on the real Slurm of the tests, or says why it cannot (exit code 77).
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
up=0
"$top/tests/real/slurm.sh" status >/dev/null 2>&1 || up=$?
if [ "$up" != 0 ]; then "$top/tests/real/slurm.sh" up || exit; fi
done=0
molecule test --scenario-name slurm --destroy never || done=$?
[ "$up" = 0 ] || "$top/tests/real/slurm.sh" down
exit "$done"
