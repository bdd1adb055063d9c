#!/bin/sh
#SBATCH --job-name=digits
#SBATCH --comment=modak-0123456789abcdef
#SBATCH --output=scheduler.log
#SBATCH --no-requeue
#SBATCH --export=NONE
#SBATCH --account=proj
#SBATCH --partition=work
#SBATCH --time=2-0:00:00
#SBATCH --nodes=1
#SBATCH --ntasks=4
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=2
#SBATCH --gres=gpu:1
#SBATCH --mail-type=NONE
#
# Job digits, modak-0123456789abcdef
# Every value below is a quoted word. This shell runs no line of the user's itself: it watches over one that does, and
# writes down in state/exit how that ended, whatever becomes of the queue's memory.

modak_cr=$(printf '\r')
modak_directory=/home/user/.modak/runs/digits-0123456789abcdef
modak_state=$modak_directory/state
if [ "${1-}" = launch ]; then # called by itself, from the shell that has run the user's lines: see modak_launch
  set +eufC
  unset -f cd cat date grep kill ldconfig mv printf rm sed sync wait 2>/dev/null
  modak_work=$2 modak_path=$3 modak_suffix=$4 modak_host=$5 modak_own=$6
else
  modak_work=$modak_directory/work
  modak_path=$PATH
  modak_task=
  modak_suffix=${modak_task:+.$modak_task}
  modak_job=${SLURM_JOB_ID:-$$}
  modak_host=${SLURMD_NODENAME:-$(uname -n)}
  modak_own=
fi
modak_limit=172800
modak_body=
modak_signal=
modak_recorded=
modak_claimed=
modak_sync=
modak_start=$modak_state/start$modak_suffix
modak_stopped=
modak_app=

modak_now() {
  modak_time=$(PATH=$modak_path date +%s.%N)
  case $modak_time in
    *[!0-9.]* | *.) PATH=$modak_path date +%s ;;
    *) echo "$modak_time" ;;
  esac
}

modak_uptime() { # prints the seconds since the node was started, which nobody sets as they do the clock
  [ ! -r /proc/uptime ] || { read -r modak_time _ </proc/uptime && echo "$modak_time"; }
}

modak_load() { # prints the load average of the last minute, and how many processes want a processor at this moment
  [ ! -r /proc/loadavg ] || { read -r modak_time _ _ modak_line _ </proc/loadavg && echo "$modak_time ${modak_line%%/*}"; }
}

modak_keep() { # FILE: puts standard input there in one step
  PATH=$modak_path cat >"$modak_state/.$1$modak_suffix.$$" &&
    PATH=$modak_path mv -f "$modak_state/.$1$modak_suffix.$$" "$modak_state/$1$modak_suffix"
}

modak_durable() { # FILE...: they outlast a power loss from here on; fails where the disk is full
  if [ -z "$modak_sync" ]; then # sync takes files from coreutils 8.24 on and in BusyBox; an older one flushes everything
    modak_sync=none
    ! PATH=$modak_path command -v sync >/dev/null 2>&1 || modak_sync=all
    ! PATH=$modak_path sync "$modak_state" 2>/dev/null || modak_sync=files
  fi
  case $modak_sync in
  files) PATH=$modak_path sync "$@" ;;
  all) PATH=$modak_path sync ;;
  esac
}

# Records have one size and are written over room that was reserved before the job was submitted: that needs no byte
# more on a full disk.
modak_fill() { # RECORD TEXT
  PATH=$modak_path printf '%-1023s\n' "$2" 1<>"$modak_state/$1"
}

modak_put() { # RECORD: what was written over the room for it is the record from here on
  PATH=$modak_path mv -f "$modak_state/reserved.$1$modak_suffix" "$modak_state/$1$modak_suffix"
}

modak_superseded() { # was this job given up, and another attempt made? Then its records are not ours to write.
  [ -e "$modak_start" ] || return 0
  while read -r modak_line; do
    case $modak_line in
    "claim=$modak_own") return 1 ;;
    claim=*) return 0 ;;
    esac
  done <"$modak_start"
  return 1 # its content was lost
}

modak_app_code() { # prints the application's exit code, nothing where it has not ended by itself
  PATH=$modak_path sed -n 's/^app_code=\([0-9][0-9]*\) *$/\1/p' "$modak_state/run$modak_suffix" 2>/dev/null
}

modak_failed_step() { # prints what failed
  if [ -e "$modak_state/pre_execution$modak_suffix" ]; then
    echo pre_execution
  elif [ ! -e "$modak_state/run$modak_suffix" ]; then
    echo setup
  elif [ "$(modak_app_code)" = 0 ]; then
    echo outputs
  else
    echo application
  fi
}

modak_record() { # STATE EXIT_CODE [REASON]
  [ -n "$modak_claimed" ] || return 0 # another job's record is not ours to write
  ! modak_superseded || return 0
  modak_recorded=1
  modak_text=$(
    PATH=$modak_path
    printf 'tag=%s\nstate=%s\ncode=%s\n' modak-0123456789abcdef "$1" "$2"
    [ -z "${3-}" ] || printf 'reason=%s\n' "$3"
    printf 'signal=%s\njob=%s\nhost=%s\n' "$modak_signal" "$modak_job" "$modak_host"
    if [ "$1" = failed ] && [ -z "${3-}" ]; then printf 'step=%s\n' "$(modak_failed_step)"; fi
    [ ! -r "$modak_state/run$modak_suffix" ] ||
      while read -r modak_line; do printf '%s\n' "$modak_line"; done <"$modak_state/run$modak_suffix"
    printf 'finished=%s\n' "$(modak_now)"
  )
  if [ -e "$modak_state/exit$modak_suffix" ]; then # what was written when a signal came
    modak_fill "exit$modak_suffix" "$modak_text"
  else # once it is on disk it counts, put in place or not
    modak_fill "reserved.exit$modak_suffix" "$modak_text" && modak_durable "$modak_state/reserved.exit$modak_suffix" &&
      modak_put exit
  fi && modak_durable "$modak_state/exit$modak_suffix" "$modak_state"
}

modak_is_past() { # was this job given up before it began, and another attempt made? state/attempt names such jobs
  [ -r "$modak_state/attempt" ] || return 1
  {
    read -r modak_line # the attempt's number
    while read -r modak_line; do
      # A process id may be in use again: then the time at which the process started counts, which is behind it.
      case ${modak_job#"${modak_job%%[!0-9]*}"}:${modak_line#"${modak_line%%[!0-9]*}"} in
      -*:-*) [ "$modak_job" != "$modak_line" ] || return 0 ;;
      *) [ "${modak_job%%[!0-9]*}" != "${modak_line%%[!0-9]*}" ] || return 0 ;;
      esac
    done
  } <"$modak_state/attempt"
  return 1
}

# The application runs once: only where this job, and no other of the same tag that may have come of a lost answer, has
# made state/start, which is on disk before anything is run. A hard link or a symbolic link is made by one call that
# fails where it is there already; NFS may carry that out twice and report the second, so what is there counts.
modak_claim() {
  if [ -e "$modak_start" ] || [ -h "$modak_start" ] || [ -e "$modak_state/exit$modak_suffix" ]; then return 1; fi
  ! modak_is_past || return 1
  # Of another name than any other job's: host name and process id may be the same in two containers.
  modak_own=$(mktemp "$modak_state/claim.XXXXXXXX") || modak_own=$modak_state/claim.$modak_job.$modak_host.$$
  modak_own=${modak_own##*/}
  mv -f "$modak_state/reserved.start$modak_suffix" "$modak_state/$modak_own"
  modak_fill "$modak_own" "$(
    printf 'tag=%s\nstart=%s\njob=%s\nhost=%s\n' modak-0123456789abcdef "$modak_began" "$modak_job" "$modak_host"
    printf 'claim=%s' "$modak_own"
  )" && modak_durable "$modak_state/$modak_own" || return 2
  ln "$modak_state/$modak_own" "$modak_start" || ln -s "$modak_own" "$modak_start"
  [ -e "$modak_start" ] || return 2
  while read -r modak_line; do
    [ "$modak_line" != "claim=$modak_own" ] || modak_claimed=1
  done <"$modak_start"
  # The name of its own is of no more use, unless a symbolic link leads to it.
  if [ -z "$modak_claimed" ] || [ ! -h "$modak_start" ]; then rm -f "$modak_state/$modak_own"; fi
  [ -n "$modak_claimed" ]
}

modak_begin() { # the record of the start, and room for those of the end
  [ -n "$modak_claimed" ] || modak_claim || return
  for modak_room in "reserved.run$modak_suffix" "reserved.exit$modak_suffix"; do
    [ -s "$modak_state/$modak_room" ] || modak_fill "$modak_room" '' || return 2
  done
  modak_durable "$modak_state/reserved.exit$modak_suffix" "$modak_state" || return 2
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

modak_preload() { # LIBRARY ...: sets modak_libraries to what LD_PRELOAD is to begin with
  modak_libraries=
  modak_cache=$(PATH=$modak_path:/sbin:/usr/sbin ldconfig -p 2>/dev/null)
  for modak_name in "$@"; do
    modak_found=
    if [ -r "$modak_name" ]; then
      modak_found=$modak_name
    elif PATH=$modak_path printf '%s\n' "$modak_cache" | PATH=$modak_path grep -Fq "	$modak_name ("; then
      modak_found=$modak_name
    else
      modak_ifs=$IFS
      IFS=:
      for modak_folder in ${LD_LIBRARY_PATH-} /lib /usr/lib /lib64 /usr/lib64 /usr/local/lib; do
        [ -z "$modak_folder" ] || [ ! -r "$modak_folder/$modak_name" ] || modak_found=$modak_folder/$modak_name
      done
      IFS=$modak_ifs
    fi
    [ -n "$modak_found" ] || modak_fail "the library $modak_name, which the plan preloads, is not on $modak_host"
    modak_libraries=$modak_found${modak_libraries:+:$modak_libraries}
  done
}

# The application is started by a shell of its own, from the one that has run the user's lines: it inherits what they
# have exported, their limits and their umask, and neither their functions nor their traps.
modak_launch() {
  trap 'modak_stopped=1; [ -z "$modak_app" ] || kill -s TERM "$modak_app" 2>/dev/null' TERM
  # A signal is sent to this shell: in the room for the record of the run, as the disk may be full.
  modak_fill "reserved.run$modak_suffix" "launcher=$$" || modak_fail "nothing can be written to $modak_state"
  PATH=$modak_path rm -f "$modak_state/pre_execution$modak_suffix"
  cd "$modak_work" || modak_fail "the working directory $modak_work is not there"
  modak_preload libtcmalloc_minimal.so.4
  [ ! -e "$modak_state/stop$modak_suffix" ] || exit 143 # it came before there was anything to stop
  ! modak_superseded || modak_fail "this job was given up, and another attempt made: the application is not started"
  modak_run="start=$(modak_now)
uptime_start=$(modak_uptime)
load=$(modak_load)"
  if ! modak_fill "reserved.run$modak_suffix" "$modak_run
launcher=$$" || ! modak_put run; then
    modak_fail "no record can be written to $modak_state: the application is not started"
  fi
  (
    export LD_PRELOAD="$modak_libraries${LD_PRELOAD:+:$LD_PRELOAD}"
    exec srun --export=ALL --kill-on-bad-exit=1 --nodes=1 --ntasks=4 --ntasks-per-node=4 --cpus-per-task=2 ./train --epochs 12
  ) &
  modak_app=$!
  [ -z "$modak_stopped" ] || kill -s TERM "$modak_app" 2>/dev/null # it came before there was anything to stop
  modak_await "$modak_app"
  modak_run="$modak_run
end=$(modak_now)
uptime_end=$(modak_uptime)
app_code=$modak_code"
  if modak_superseded || ! modak_fill "run$modak_suffix" "$modak_run"; then modak_stopped=1; fi
  [ -n "$modak_stopped" ] || PATH=$modak_path printf '%s\n' 'rm -rf "$STAGE"' | modak_keep post_execution ||
    PATH=$modak_path printf '%s\n' 'modak: post_execution cannot be written down, and so it is not run' >&2
  exit "$modak_code"
}

[ "${1-}" != launch ] || modak_launch

trap 'modak_on_signal 15' TERM
trap 'modak_on_signal 2' INT
trap 'modak_on_signal 1' HUP
trap 'modak_on_exit $?' EXIT
modak_began=$(modak_now)
modak_begin 2>/dev/null
modak_code=$?
if [ "$modak_code" = 2 ] && [ -n "$modak_signal" ]; then # it was the signal's doing
  modak_begin 2>/dev/null
  modak_code=$?
fi
case $modak_code in
0) ;;
1)
  echo "modak: the application has been started before (see $modak_start), and so it is not started again" >&2
  exit 75
  ;;
*)
  modak_record failed 74 'no record of the start could be written (is the disk full?), and so nothing was started'
  echo "modak: no record can be written to $modak_state, and so nothing is started" >&2
  exit 74
  ;;
esac
for modak_name in stop pre_execution post_execution; do
  PATH=$modak_path rm -f "$modak_state/$modak_name$modak_suffix"
done
exec >/home/user/.modak/runs/digits-0123456789abcdef/output.log"$modak_suffix" 2>/home/user/.modak/runs/digits-0123456789abcdef/error.log"$modak_suffix"

modak_modules() { # MODULE ...
  if ! command -v module >/dev/null 2>&1; then
    for modak_file in "${MODULESHOME:-/usr/share/modules}/init/sh" /etc/profile.d/modules.sh /etc/profile.d/lmod.sh \
      /usr/share/modules/init/sh /usr/share/lmod/lmod/init/sh; do
      # shellcheck disable=SC1090
      if [ -r "$modak_file" ]; then
        . "$modak_file"
        break
      fi
    done
  fi
  command -v module >/dev/null 2>&1 || modak_fail "there is no command 'module' on $modak_host to load $*"
  for modak_name in "$@"; do
    module load "$modak_name" || modak_fail "the module $modak_name cannot be loaded on $modak_host"
  done
}

modak_stop_app() { # the application, or the user's lines before and after it
  (: >"$modak_state/stop$modak_suffix") 2>/dev/null
  modak_pid=$(
    PATH=$modak_path
    sed -n 's/^launcher=\([0-9][0-9]*\) *$/\1/p' "$modak_state/reserved.run$modak_suffix" "$modak_state/run$modak_suffix" \
      2>/dev/null | sed -n '$p'
  )
  kill -s TERM "${modak_pid:-$modak_app}" 2>/dev/null
}

# shellcheck disable=SC2317 # called by a trap
modak_on_stop() {
  modak_stopped=1
  [ -z "$modak_app" ] || modak_stop_app
}

(
  cd "$modak_work" || modak_fail "the working directory $modak_work is not there"
  export FIRST='two'"$modak_cr"'
lines'
  export KERAS_BACKEND=jax
  export MODAK_TAG=modak-0123456789abcdef
  export OMP_NUM_THREADS=2
  export SECOND='it'"'"'s $HOME'
  modak_modules python/3.11 gcc/12
  trap modak_on_stop TERM
  # The user's shell: none of its functions, variables and traps reaches this one, whatever its lines do.
  PATH=$modak_path printf '%s\n' 'ulimit -c 0
export STAGE=/tmp/$USER' | modak_keep pre_execution ||
    modak_fail "nothing can be written to $modak_state"
  : >"$modak_state/post_execution$modak_suffix"
  (
    readonly modak_directory modak_state modak_work modak_path modak_suffix modak_host modak_own
    trap - TERM EXIT
    set -e
    # shellcheck disable=SC1090
    . "$modak_state/pre_execution$modak_suffix"
    set +e
    trap : TERM # what ends the application ends this shell, too
    /bin/sh "$modak_directory/job.sh" launch "$modak_work" "$modak_path" "$modak_suffix" "$modak_host" \
      "$modak_own"
    modak_launched=$?
    [ -s "$modak_state/post_execution$modak_suffix" ] || exit "$modak_launched" # it is written when it is to run
    trap - TERM
    # shellcheck disable=SC1090
    (command cd "$modak_work" && . "$modak_state/post_execution$modak_suffix")
  ) &
  modak_app=$!
  [ -z "$modak_stopped" ] || modak_stop_app # it came before there was anything to stop
  modak_await "$modak_app"
  modak_app=
  if [ -s "$modak_state/post_execution$modak_suffix" ]; then
    modak_superseded || modak_fill "run$modak_suffix" "$(PATH=$modak_path sed 's/ *$//' "$modak_state/run$modak_suffix")
post_code=$modak_code"
    [ "$modak_code" = 0 ] || echo "modak: post_execution ended with exit code $modak_code" >&2
  fi
  modak_ended=$(modak_app_code)
  exit "${modak_ended:-$modak_code}"
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
