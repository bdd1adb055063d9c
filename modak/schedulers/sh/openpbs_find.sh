# shellcheck shell=sh
# openpbs_find TAG: this user's jobs with that tag; ended ones too where the server keeps a history.

set -f # the brackets of an array's id are no pattern
tag=$1
user=$(id -un)
# Without a history -x tells nothing, and that is no error: neither here nor below.
ids=$(qselect -x -u "$user" 2>/dev/null)
[ -n "$ids" ] || ids=$(qselect -u "$user") || exit
[ -n "$ids" ] || exit 0
# shellcheck disable=SC2086 # one word for each id
jobs=$(qstat -x -f $ids)
code=$?
if [ "$code" = 0 ] && [ -z "$jobs" ]; then
  # shellcheck disable=SC2086
  jobs=$(qstat -f $ids)
  code=$?
fi
printf '%s\n' "$jobs" | tagged "$tag"
# 35 and 153: one of them has ended or gone meanwhile.
case $code in 0 | 35 | 153) exit 0 ;; esac
exit "$code"
