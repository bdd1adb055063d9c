# shellcheck shell=sh
# slurm_find TAG: of what slurm_list prints, on standard input, the ids of the jobs with that tag as their comment, or
# with its digits at the end of their working directory, because some sites write comments of their own.

awk -F'|' -v tag="$1" -v end="-${1#modak-}" '
  $2 == tag || substr($NF, length($NF) - length(end) + 1) == end {
    sub(/_.*/, "", $1)
    print $1
  }'
