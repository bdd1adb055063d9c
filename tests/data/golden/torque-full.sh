#!/bin/sh
#PBS -N digits
#PBS -S /bin/sh
#PBS -v MODAK_TAG=modak-0123456789abcdef
#PBS -o /home/user/.modak/runs/digits-0123456789abcdef/scheduler.log
#PBS -j oe
#PBS -r n
#PBS -A proj
#PBS -q work
#PBS -l walltime=48:00:00
#PBS -l nodes=1:ppn=8:gpus=1
#PBS -m n
#
# Job digits, modak-0123456789abcdef
# Every value below is a quoted word. This shell runs no line of the user's itself: it watches over one that does, and
# writes down in state/exit how that ended, whatever becomes of the queue's memory.

modak_cr=$(printf '\r')
modak_directory=/home/user/.modak/runs/digits-0123456789abcdef
modak_state=$modak_directory/state
if [ "${1-}" = launch ]; then # called by itself, from the shell that has run the user's lines: see modak_launch
  set +eufC
  unset -f cd cat date grep kill ldconfig mv printf rm wait 2>/dev/null
  modak_work=$2 modak_path=$3 modak_suffix=$4 modak_host=$5
else
  modak_work=$modak_directory/work
  modak_path=$PATH
  modak_task=
  modak_suffix=${modak_task:+.$modak_task}
  modak_host=$(uname -n)
  modak_job=${PBS_JOBID:-$$}
fi
modak_limit=172800
modak_body=
modak_signal=
modak_recorded=
modak_stopped=
modak_app=

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

modak_app_code() { # prints the application's exit code, nothing where it has not ended by itself
  PATH=$modak_path sed -n 's/^app_code=\([0-9][0-9]*\)$/\1/p' "$modak_state/run$modak_suffix" 2>/dev/null
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

modak_record() { # STATE EXIT_CODE
  modak_recorded=1
  {
    printf 'tag=%s\nstate=%s\ncode=%s\n' modak-0123456789abcdef "$1" "$2"
    printf 'signal=%s\njob=%s\nhost=%s\n' "$modak_signal" "$modak_job" "$modak_host"
    [ "$1" != failed ] || printf 'step=%s\n' "$(modak_failed_step)"
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
  modak_note pid "$$" | modak_keep launcher || modak_fail "nothing can be written to $modak_state"
  PATH=$modak_path rm -f "$modak_state/pre_execution$modak_suffix"
  cd "$modak_work" || modak_fail "the working directory $modak_work is not there"
  awk 'seen[$0]++ % 2 == 0' "$PBS_NODEFILE" >"$modak_state/hosts$modak_suffix"
  modak_preload libtcmalloc_minimal.so.4
  [ ! -e "$modak_state/stop$modak_suffix" ] || exit 143 # it came before there was anything to stop
  modak_note start "$(modak_now)" | modak_keep run || modak_fail "nothing can be written to $modak_state"
  (
    export LD_PRELOAD="$modak_libraries${LD_PRELOAD:+:$LD_PRELOAD}"
    exec mpirun -n 4 -machinefile "$modak_state/hosts$modak_suffix" ./train --epochs 12
  ) &
  modak_app=$!
  [ -z "$modak_stopped" ] || kill -s TERM "$modak_app" 2>/dev/null # it came before there was anything to stop
  modak_await "$modak_app"
  {
    modak_note end "$(modak_now)"
    modak_note app_code "$modak_code"
  } >>"$modak_state/run$modak_suffix" || modak_stopped=1
  [ -n "$modak_stopped" ] || PATH=$modak_path printf '%s\n' 'rm -rf "$STAGE"' | modak_keep post_execution
  PATH=$modak_path rm -f "$modak_state/launcher$modak_suffix"
  exit "$modak_code"
}

[ "${1-}" != launch ] || modak_launch

modak_began=$(modak_now)
for modak_name in exit run timeout stop launcher pre_execution post_execution; do
  rm -f "$modak_state/$modak_name$modak_suffix"
done
trap 'modak_on_signal 15' TERM
trap 'modak_on_signal 2' INT
trap 'modak_on_signal 1' HUP
trap 'modak_on_exit $?' EXIT
printf 'tag=%s\nstart=%s\njob=%s\nhost=%s\n' modak-0123456789abcdef "$modak_began" "$modak_job" "$modak_host" | modak_keep start
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
  : >"$modak_state/stop$modak_suffix"
  modak_pid=$(PATH=$modak_path sed -n 's/^pid=//p' "$modak_state/launcher$modak_suffix" 2>/dev/null)
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
    readonly modak_directory modak_state modak_work modak_path modak_suffix modak_host
    trap - TERM EXIT
    set -e
    # shellcheck disable=SC1090
    . "$modak_state/pre_execution$modak_suffix"
    set +e
    trap : TERM # what ends the application ends this shell, too
    /bin/sh "$modak_directory/job.sh" launch "$modak_work" "$modak_path" "$modak_suffix" "$modak_host"
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
    modak_note post_code "$modak_code" >>"$modak_state/run$modak_suffix"
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
