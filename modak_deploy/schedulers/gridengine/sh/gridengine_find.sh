# shellcheck shell=sh
# gridengine_find TAG: this user's queued and running jobs with that accounting string.

list=$(qstat -xml -u "$(id -un)") || exit
ids=$(printf '%s\n' "$list" | sed -n 's/.*<JB_job_number>\([0-9]*\)<.*/\1/p' | sort -un | tr '\n' ',')
[ -n "$ids" ] || exit 0
# One that ends meanwhile is no error: the others are shown only when it is left out.
for id in $(printf '%s' "$ids" | tr ',' ' '); do
  qstat -j "$id" 2>/dev/null
done | awk -v tag="$1" '
  $1 == "job_number:" { number = $2 }
  $1 == "account:" && $2 == tag { print "modak-job " number }'
exit 0
