# shellcheck shell=sh
# torque_find TAG NAME: this user's jobs with that tag; ended ones too while the server keeps them. NAME does not help:
# qselect -N does not find arrays, whose tasks are named NAME-0. Of an array its tasks are
# looked at, because without -t its id lists all jobs there are, of other users too.

set -f # the brackets of an array's id are no pattern
unset PBS_QSTAT_EXECONLY PBS_QSTAT_NO_COMPLETE # with these qstat would keep jobs to itself
tag=$1
ids=$(qselect -u "$(id -un)") || exit
plain='' arrays=''
for id in $ids; do
  case $id in *'[]'*) arrays="$arrays $id" ;; *) plain="$plain $id" ;; esac
done
jobs='' code=0
if [ -n "$plain" ]; then
  # shellcheck disable=SC2086 # one word for each id
  jobs=$(qstat -f $plain)
  code=$?
fi
if [ -n "$arrays" ]; then
  # shellcheck disable=SC2086
  more=$(qstat -f -t $arrays)
  last=$?
  case $code in 0 | 153) code=$last ;; esac
  jobs="$jobs
$more"
fi
printf '%s\n' "$jobs" | tagged "$tag"
# 153: one of them has gone meanwhile.
case $code in 0 | 153) exit 0 ;; esac
exit "$code"
