# shellcheck shell=sh
# gridengine_status ID...: one qstat for all of the user's jobs; for those of ID that it does not show, what the
# accounting says: the list of ended jobs (qstat -s z) does not tell how they ended, nor whether they ever started. Every part follows a line "modak-part NAME".

user=$(id -un)
list=$(qstat -xml -u "$user") || exit
printf 'modak-part qstat\n%s\n' "$list"
case $list in *'<state>h'*)
  # hj: a hold by a dependency (qstat(1)); in the list itself it looks like the user's own hold.
  printf 'modak-part dependent\n%s\n' "$(qstat -s hj -u "$user")" ;;
esac
broken='' gone=''
for id in "$@"; do
  case $list in
  *"<JB_job_number>$id</JB_job_number>"*) broken=$broken${broken:+,}$id ;;
  *) gone="$gone $id" ;;
  esac
done
case $list in *'<state>E'*) printf 'modak-part errors\n%s\n' "$(qstat -j "$broken" | grep -E '^(job_number|error reason)')" ;; esac
[ -n "$gone" ] || exit 0
printf 'modak-part qacct\n'
# The accounting is one file that qacct reads from its beginning: years of a site's jobs, or not there at all.
bounded=
! command -v timeout >/dev/null 2>&1 || bounded="timeout 60"
for id in $gone; do
  # shellcheck disable=SC2086 # two words or none
  $bounded qacct -j "$id" -o "$user" 2>/dev/null |
    grep -E '^(=+$|(hostname|jobnumber|taskid|pe_taskid|failed|exit_status|ru_wallclock) )'
done
exit 0
