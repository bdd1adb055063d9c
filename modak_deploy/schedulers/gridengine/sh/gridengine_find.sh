# shellcheck shell=sh
# gridengine_find TAG: this user's queued and running jobs with that accounting string.

user=$(id -un)
list=$(qstat -xml -u "$user") || exit
told='' silent=''
for id in $(printf '%s\n' "$list" | sed -n 's/.*<JB_job_number>\([0-9]*\)<.*/\1/p' | sort -un); do
  if this=$(qstat -j "$id" 2>/dev/null); then
    told="$told
$this"
  else
    silent="$silent $id"
  fi
done
if [ -n "$silent" ]; then
  # One that has ended meanwhile is no error. One that is still there may be the job that is looked for.
  list=$(qstat -xml -u "$user") || exit
  for id in $silent; do
    case $list in
    *"<JB_job_number>$id</JB_job_number>"*)
      echo "qstat lists job $id and tells nothing of it" >&2
      exit 1
      ;;
    esac
  done
fi
printf '%s\n' "$told" | awk -v tag="$1" '
  $1 == "job_number:" { number = $2 }
  $1 == "account:" && $2 == tag { print "modak-job " number }'
exit 0
