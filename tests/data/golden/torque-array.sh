#!/bin/sh
#PBS -N digits
#PBS -S /home/user/.modak/runs/digits-0123456789abcdef/job.sh
#PBS -v MODAK_TAG=modak-0123456789abcdef
#PBS -o /home/user/.modak/runs/digits-0123456789abcdef/scheduler.log
#PBS -j oe
#PBS -r n
#PBS -l nodes=1:ppn=1
#PBS -t 0-9%2
#PBS -W depend=afterok:12.vm
#PBS -m n
#
# Job digits, modak-0123456789abcdef
# Every value below is a quoted word. This shell runs no line of the user's itself: it watches over one that does, and
# writes down in state/exit how that ended, whatever becomes of the queue's memory.

if [ "$#" = 0 ]; then # the scheduler starts this script as the job's shell, which otherwise is a login shell
  # shellcheck disable=SC1091
  [ ! -r /etc/profile ] || . /etc/profile
  # shellcheck disable=SC1091
  [ ! -r "${HOME-}/.profile" ] || . "${HOME-}/.profile"
  exec /bin/sh /home/user/.modak/runs/digits-0123456789abcdef/job.sh login </dev/null # anew, free of what a profile sets in its shell only
fi

modak_directory=/home/user/.modak/runs/digits-0123456789abcdef
modak_state=$modak_directory/state
modak_work=$modak_directory/work
modak_path=$PATH
modak_task=${PBS_ARRAYID:-}
modak_suffix=${modak_task:+.$modak_task}
modak_job=${PBS_JOBID:-$$}
modak_host=$(uname -n)
modak_limit=
modak_body=
modak_signal=
modak_recorded=

modak_now() {
  modak_time=$(PATH=$modak_path date +%s.%N)
  case $modak_time in
    *[!0-9.]* | *.) PATH=$modak_path date +%s ;;
    *) echo "$modak_time" ;;
  esac
}

modak_note() { # NAME VALUE: a line for a record
  PATH=$modak_path printf '%s=%s\n' "$1" "$2"
}

modak_keep() { # FILE: puts standard input there in one step
  PATH=$modak_path cat >"$modak_state/.$1$modak_suffix.$$" &&
    PATH=$modak_path mv -f "$modak_state/.$1$modak_suffix.$$" "$modak_state/$1$modak_suffix"
}

modak_record() { # STATE EXIT_CODE
  modak_recorded=1
  {
    printf 'tag=%s\nstate=%s\ncode=%s\n' modak-0123456789abcdef "$1" "$2"
    printf 'signal=%s\njob=%s\nhost=%s\n' "$modak_signal" "$modak_job" "$modak_host"
    [ ! -r "$modak_state/run$modak_suffix" ] || cat "$modak_state/run$modak_suffix"
    printf 'finished=%s\n' "$(modak_now)"
  } | modak_keep exit
}

modak_end_state() { # is the end that a signal brings the wall time's, or somebody's will?
  modak_spent=$(($(PATH=$modak_path date +%s) - ${modak_began%%.*}))
  if [ -e "$modak_state/timeout$modak_suffix" ]; then
    echo timeout
  elif [ -n "$modak_limit" ] && [ "$modak_spent" -ge $((modak_limit - 1)) ]; then
    echo timeout
  else
    echo terminated
  fi
}

# shellcheck disable=SC2317 # called by a trap
modak_on_signal() { # NUMBER: what kills without asking may follow at once, so the record comes first
  if [ -z "$modak_signal" ]; then
    modak_signal=$1
    modak_record "$(modak_end_state)" $((128 + $1))
  fi
  [ -z "$modak_body" ] || kill -s TERM "$modak_body" 2>/dev/null
}

# shellcheck disable=SC2317 # called by a trap
modak_on_exit() { # CODE
  [ -n "$modak_recorded" ] || modak_record failed "$1"
}

modak_fail() { # SENTENCE
  PATH=$modak_path printf 'modak: %s\n' "$1" >&2
  exit 1
}

modak_await() { # PID: sets modak_code to its exit code
  while :; do # a signal ends wait early
    wait "$1"
    modak_code=$?
    kill -0 "$1" 2>/dev/null || break
  done
  if [ "$modak_code" -gt 128 ]; then # it may have ended together with the signal: then its own code is still to be had
    wait "$1" 2>/dev/null
    modak_again=$?
    [ "$modak_again" = 127 ] || modak_code=$modak_again
  fi
}

modak_began=$(modak_now)
rm -f "$modak_state/exit$modak_suffix" "$modak_state/run$modak_suffix" "$modak_state/timeout$modak_suffix"
trap 'modak_on_signal 15' TERM
trap 'modak_on_signal 2' INT
trap 'modak_on_signal 1' HUP
trap 'modak_on_exit $?' EXIT
printf 'tag=%s\nstart=%s\njob=%s\nhost=%s\n' modak-0123456789abcdef "$modak_began" "$modak_job" "$modak_host" | modak_keep start
exec >/home/user/.modak/runs/digits-0123456789abcdef/output.log"$modak_suffix" 2>&1

(
  cd "$modak_work" || modak_fail "the working directory $modak_work is not there"
  export MODAK_TASK="$modak_task"
  export MODAK_TAG=modak-0123456789abcdef
  export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
  modak_stopped=
  modak_app=
  trap 'modak_stopped=1; [ -z "$modak_app" ] || kill -s TERM "$modak_app" 2>/dev/null' TERM
  modak_note start "$(modak_now)" | modak_keep run
  (
    exec ./train --epochs 12
  ) &
  modak_app=$!
  [ -z "$modak_stopped" ] || kill -s TERM "$modak_app" 2>/dev/null # it came before there was anything to stop
  modak_await "$modak_app"
  modak_note end "$(modak_now)" >>"$modak_state/run$modak_suffix"
  exit "$modak_code"
) </dev/null &
modak_body=$!
[ -z "$modak_signal" ] || kill -s TERM "$modak_body" 2>/dev/null # it came before there was anything to stop

modak_await "$modak_body"
if [ -n "$modak_signal" ]; then
  modak_record "$(modak_end_state)" "$modak_code"
elif [ "$modak_code" != 0 ]; then
  modak_record failed "$modak_code"
elif [ ! -e "$modak_state/run$modak_suffix" ]; then
  echo "modak: pre_execution ended the job before the application" >&2
  modak_code=1
  modak_record failed 1
else
  modak_record completed 0
fi
exit "$modak_code"
