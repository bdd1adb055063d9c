# shellcheck shell=sh
# process_status ID...: one line for each that still runs.

for id in "$@"; do
  ! is_there "$id" || echo "modak-process $id $(ps -o etime= -p "${id%%-*}" 2>/dev/null)"
done
exit 0
