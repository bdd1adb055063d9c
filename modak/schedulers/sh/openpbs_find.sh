# shellcheck shell=sh
# openpbs_find TAG: this user's jobs with that tag; ended ones too where the server keeps a history.

set -f # the brackets of an array's id are no pattern
tag=$1
user=$(id -un)
ids=$(qselect -x -u "$user" 2>/dev/null) || ids=$(qselect -u "$user") || exit
[ -n "$ids" ] || exit 0
# shellcheck disable=SC2086 # one word for each id
jobs=$(qstat -x -f $ids 2>&1)
code=$?
case $jobs in
*"not configured to maintain job history"*)
  # shellcheck disable=SC2086
  jobs=$(qstat -f $ids 2>&1)
  code=$?
  ;;
esac
printf '%s\n' "$jobs" | tagged "$tag"
# 35 and 153: one of them has ended or gone meanwhile.
case $code in 0 | 35 | 153) exit 0 ;; esac
printf '%s\n' "$jobs" >&2
exit "$code"
