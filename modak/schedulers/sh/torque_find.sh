# shellcheck shell=sh
# torque_find TAG: this user's jobs with that tag; ended ones too while the server keeps them.

set -f # the brackets of an array's id are no pattern
unset PBS_QSTAT_EXECONLY PBS_QSTAT_NO_COMPLETE # with these qstat would keep jobs to itself
tag=$1
ids=$(qselect -u "$(id -un)") || exit
[ -n "$ids" ] || exit 0
# shellcheck disable=SC2086 # one word for each id
jobs=$(qstat -f $ids)
code=$?
# An array's id makes qstat list all jobs there are, of other users too.
printf '%s\n' "$jobs" | tagged "$tag" | grep -Fx -e "$ids"
# 153: one of them has gone meanwhile.
case $code in 0 | 153) exit 0 ;; esac
exit "$code"
