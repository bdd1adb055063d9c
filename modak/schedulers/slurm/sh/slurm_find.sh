# shellcheck shell=sh
# slurm_find TAG: the ids of this user's jobs with that tag as their comment, or with its digits at the end of their
# working directory, because some sites write comments of their own.

unset SQUEUE_ACCOUNT SQUEUE_ARRAY SQUEUE_FORMAT2 SQUEUE_LICENSES SQUEUE_NAMES SQUEUE_PARTITION SQUEUE_QOS SQUEUE_SORT \
  SQUEUE_USERS
list=$(squeue --noheader --all --states=all --user="$(id -un)" --format='%F|%k|%Z') || exit
{
  printf '%s\n' "$list"
  sacct --noheader --parsable2 --allocations --starttime=now-30days --format=JobID,Comment,WorkDir 2>/dev/null
} | awk -F'|' -v tag="$1" -v end="-${1#modak-}" '
  $2 == tag || substr($NF, length($NF) - length(end) + 1) == end {
    sub(/_.*/, "", $1)
    print $1
  }'
exit 0
