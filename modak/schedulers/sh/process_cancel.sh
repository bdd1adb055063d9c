# shellcheck shell=sh
# process_cancel GRACE ID...: SIGTERM to all processes of the jobs, and SIGKILL to what is left after GRACE seconds. They
# are those in the session that the job leads, and those that have left it and carry its tag in their environment.
# Without /proc only the process groups are known.

grace=$1
shift
mine=''
tags=''
for id in "$@"; do
  is_there "$id" || continue
  leader=${id%%-*}
  mine="$mine $leader"
  tags="$tags $leader:$(tr '\0' '\n' 2>/dev/null <"/proc/$leader/environ" | sed -n 's/^MODAK_TAG=/MODAK_TAG=/p')"
done

members() { # PID: all processes of the job that it leads
  tag=${tags##* "$1":}
  tag=${tag%% *}
  marked=
  [ -z "$tag" ] || marked=$(grep -lsF -e "$tag" /proc/[0-9]*/environ)
  for file in /proc/[0-9]*; do
    pid=${file#/proc/}
    sid=$(session_of "$pid") || continue
    if [ "$sid" != "$1" ]; then
      case $marked in *"$file/environ"*) ;; *) continue ;; esac
      [ -n "$(find "$file" -prune -user "$(id -u)" 2>/dev/null)" ] || continue
    fi
    printf '%s ' "$pid"
  done
}

signal() { # NUMBER: sets left to whether anybody was there
  left=
  for leader in $mine; do
    if [ -r /proc/self/stat ]; then
      found=$(members "$leader")
      # shellcheck disable=SC2086 # one word for each process
      [ -z "$found" ] || { left=yes && kill "-$1" $found 2>/dev/null; }
    else
      kill "-$1" -- "-$leader" 2>/dev/null && left=yes
    fi
  done
}

signal 15
round=0
while [ "$round" -lt "$grace" ]; do
  signal 0
  [ -n "$left" ] || exit 0
  sleep 1
  round=$((round + 1))
done
signal 9
exit 0
