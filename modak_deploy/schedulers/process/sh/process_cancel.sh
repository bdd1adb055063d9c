# shellcheck shell=sh
# process_cancel GRACE ID...: SIGTERM to all processes of the jobs, and SIGKILL to what is left after GRACE seconds. They
# are those in the session that the job leads, and those that have left it and carry its folder in their environment.
# Without /proc only the process groups are known.

grace=$1
shift
mine=''
for id in "$@"; do
  ! is_there "$id" || mine="$mine ${id%%-*}"
done

mark_of() { # PID: the variable in its environment that names the job's folder
  tr '\n\0' '\001\n' 2>/dev/null <"/proc/$1/environ" | grep '^MODAK_DIRECTORY=.'
}

for leader in $mine; do
  eval "mark_$leader=\$(mark_of $leader)"
done

members() { # PID: all processes of the job that it leads
  eval "mark=\$mark_$1"
  marked=''
  [ -z "$mark" ] || marked=$(grep -lsF -e "$mark" /proc/[0-9]*/environ)
  for file in /proc/[0-9]*; do
    pid=${file#/proc/}
    sid=$(session_of "$pid") || continue
    if [ "$sid" != "$1" ]; then
      case $marked in *"$file/environ"*) ;; *) continue ;; esac
      [ "$(mark_of "$pid")" = "$mark" ] || continue
      [ -n "$(find "$file" -prune -user "$(id -u)" 2>/dev/null)" ] || continue
    fi
    printf '%s ' "$pid"
  done
}

left=''
told=' '

tell() { # NUMBER OLDEST: signals the processes that started after OLDEST, each once; sets left to whether any is there
  left=''
  for leader in $mine; do
    for pid in $(members "$leader"); do
      left=yes
      case $told in *" $pid "*) continue ;; esac
      told="$told$pid "
      if [ "$(group_of "$pid")" != "$leader" ] || [ "$(start_of "$pid" || echo 0)" -ge "$2" ]; then
        kill "-$1" "$pid" 2>/dev/null
      fi
    done
  done
}

tell_groups() { # NUMBER: all at once, so that no process can start another one between two signals
  left=''
  for leader in $mine; do
    kill "-$1" "-$leader" 2>/dev/null && left=yes
  done
}

# When this subshell started is now, by the clock that processes are dated with.
now=$(read -r line </proc/self/stat 2>/dev/null && echo "${line##*\) }" | cut -d ' ' -f 20)
tell_groups 15
round=0
while [ "$round" -lt "$grace" ]; do
  if [ -n "$now" ]; then tell 15 "$now"; else tell_groups 0; fi
  [ -n "$left" ] || exit 0
  [ "$round" = 0 ] || sleep 1
  round=$((round + 1))
done
tell_groups 9
told=' '
[ -z "$now" ] || tell 9 0
exit 0
