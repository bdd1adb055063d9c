# shellcheck shell=sh
# openpbs_find TAG NAME: this user's jobs with that tag; ended ones too where the server keeps a history. Only jobs of
# that NAME are looked at: for each id qstat connects anew, each time with the help of the setuid program pbs_iff on a
# port below 1024. With 680 ids OpenPBS 23.06 took 124 s and ran out of those ports ("pbs_iff: all reserved ports in
# use"), for every user of the login node. qselect -N compares whole names, and finds arrays.

set -f # the brackets of an array's id are no pattern
tag=$1 name=$2
user=$(id -un)
# Without a history -x tells nothing, and that is no error: neither here nor below.
ids=$(qselect -x -u "$user" -N "$name" 2>/dev/null)
[ -n "$ids" ] || ids=$(qselect -u "$user" -N "$name") || exit
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
