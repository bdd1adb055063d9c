#!/bin/sh
#PBS -N digits
#PBS -S /bin/sh
#PBS -v MODAK_TAG=modak-0123456789abcdef
#PBS -o /home/user/.modak/runs/digits-0123456789abcdef/scheduler.log
#PBS -j oe
#PBS -r n
#PBS -l nodes=1:ppn=1
#PBS -m n
#
# Job digits, modak-0123456789abcdef
# Every value below is a quoted word. This shell runs no line of the user's itself: it watches over one that does, and
# writes down in state/exit how that ended, whatever becomes of the queue's memory.

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
modak_limit=
modak_body=
modak_signal=
modak_recorded=
modak_stopped=
modak_app=
modak_scratch=
modak_staged=
modak_early=

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

# The application is started by a shell of its own, from the one that has run the user's lines: it inherits what they
# have exported, their limits and their umask, and neither their functions nor their traps.
modak_launch() {
  trap 'modak_stopped=1; [ -z "$modak_app" ] || kill -s TERM "$modak_app" 2>/dev/null' TERM
  modak_note pid "$$" | modak_keep launcher || modak_fail "nothing can be written to $modak_state"
  PATH=$modak_path rm -f "$modak_state/pre_execution$modak_suffix"
  cd "$modak_work" || modak_fail "the working directory $modak_work is not there"
  [ ! -e "$modak_state/stop$modak_suffix" ] || exit 143 # it came before there was anything to stop
  modak_note start "$(modak_now)" | modak_keep run || modak_fail "nothing can be written to $modak_state"
  (
    exec sh -c '# Enters a container with the chosen part of the environment, once per rank.
# Arguments: how the runtime takes variables, an awk pattern of the names that pass, the command.
# The names are known only here: a launcher gives each rank its own PMI variables.
how=$1 pattern=$2
shift 2
names() { # 1: the variables that pass; 0: all others
  awk '"'"'BEGIN { for (name in ENVIRON)
    if (name ~ /^[A-Za-z_][A-Za-z0-9_]*$/ && (name ~ ARGV[2]) == ARGV[1]) print name }'"'"' "$1" "$pattern"
}
case $how in
  APPTAINERENV_ | SINGULARITYENV_)
    # Values are data: without this a container made from an OCI image expands $(...) in them.
    export "${how%ENV_}_NO_EVAL=1"
    for name in $(names 1); do eval "export $how$name=\"\$$name\""; done ;;
  --env)
    first=$1 second=$2
    shift 2
    for name in $(names 1); do set -- --env "$name" "$@"; done
    [ "$first" != docker ] || set -- --user "$(id -u):$(id -g)" "$@"
    set -- "$first" "$second" "$@" ;;
  unset)
    for name in $(names 0); do
      case $name in PATH | HOME | USER | PWD | TMPDIR) ;; *) unset "$name" ;; esac
    done ;;
esac
exec "$@"
' modak-enter APPTAINERENV_ '^((SLURM|PBS_|PMI|PRTE_|OMPI_|MPI|HYDI_|HYDRA_|I_MPI_|MV2_|UCX_|FI_|NCCL_|OMP_|GOMP_|KMP_|MKL_|OPENBLAS_|LC_)[A-Za-z0-9_]*|CUDA_MPS_LOG_DIRECTORY|CUDA_MPS_PIPE_DIRECTORY|CUDA_VISIBLE_DEVICES|GPU_DEVICE_ORDINAL|HIP_VISIBLE_DEVICES|LANG|MASTER_ADDR|MASTER_PORT|NVIDIA_VISIBLE_DEVICES|ROCR_VISIBLE_DEVICES|TERM|TF_CONFIG|TZ|ZE_AFFINITY_MASK)$' apptainer exec --cleanenv --bind=/home/user/.modak/runs/digits-0123456789abcdef --bind="$modak_work" --pwd="$modak_work" --env=PYTHONNOUSERSITE=1 /home/user/.modak/images/library_busybox_1-0000000000000000.sif ./train --epochs 12
  ) &
  modak_app=$!
  [ -z "$modak_stopped" ] || kill -s TERM "$modak_app" 2>/dev/null # it came before there was anything to stop
  modak_await "$modak_app"
  {
    modak_note end "$(modak_now)"
    modak_note app_code "$modak_code"
  } >>"$modak_state/run$modak_suffix" || modak_stopped=1
  [ -n "$modak_stopped" ] || PATH=$modak_path printf '%s\n' 'tar -cf model.tar model' | modak_keep post_execution
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
exec >/home/user/.modak/runs/digits-0123456789abcdef/output.log"$modak_suffix" 2>&1

modak_stop_app() { # the application, or the user's lines before and after it
  : >"$modak_state/stop$modak_suffix"
  modak_pid=$(PATH=$modak_path sed -n 's/^pid=//p' "$modak_state/launcher$modak_suffix" 2>/dev/null)
  kill -s TERM "${modak_pid:-$modak_app}" 2>/dev/null
}

modak_stage() { # copies the working directory to a new folder on the node's own disk
  modak_place="${TMPDIR-}"
  [ -n "$modak_place" ] || modak_fail "job.scratch names the variable TMPDIR, which is not set on $modak_host"
  case $modak_place in
    *[,:]*) modak_fail "the scratch folder $modak_place cannot be shown to a container, for its comma or colon" ;;
    /*) [ -d "$modak_place" ] || modak_fail "the scratch folder $modak_place is not there on $modak_host" ;;
    *) modak_fail "the scratch folder $modak_place is no absolute path" ;;
  esac
  modak_tries=0
  while :; do # another task of an array may be putting its results there meanwhile
    modak_scratch=$(PATH=$modak_path mktemp -d "$modak_place/modak.XXXXXX")
    [ -d "$modak_scratch" ] || modak_fail "no folder can be made in the scratch folder $modak_place on $modak_host"
    ! PATH=$modak_path cp -RPp "$modak_work/." "$modak_scratch" || break
    PATH=$modak_path rm -rf "$modak_scratch"
    modak_tries=$((modak_tries + 1))
    [ "$modak_tries" -lt 3 ] || modak_fail "the working directory cannot be copied to $modak_place on $modak_host"
    PATH=$modak_path sleep 1
  done
  modak_work=$modak_scratch
  (
    PATH=$modak_path
    cd "$modak_work" && for modak_name in model.tar 'a b' metrics.json; do
      [ ! -e "$modak_name" ] || find -H "./$modak_name" -type f -exec cksum {} +
    done
  ) | modak_keep staged
  modak_staged=1
}

# shellcheck disable=SC2317 # called by a trap
modak_bring() ( # puts back what the application was to write, as far as it is there and was not before
  PATH=$modak_path
  trap '' HUP INT TERM
  cd "$modak_work" && for modak_name in model.tar 'a b' metrics.json; do
    [ -e "$modak_name" ] || continue
    # shellcheck disable=SC2016 # for the inner shell
    find -H "./$modak_name" -type f -exec sh -c '
      new=$1.$$ staged=$2 work=$3
      shift 3
      for file; do
        ! grep -Fqx -e "$(cksum "$file")" "$staged" || continue
        ! cmp -s "$file" "$work/$file" || continue
        mkdir -p "$work/${file%/*}" && [ ! -d "$work/$file" ] && cp -p "$file" "$new" && mv -f "$new" "$work/$file" ||
          { rm -f "$new"; echo "modak: $file cannot be brought back from the scratch folder" >&2; }
      done' sh "$modak_state/back$modak_suffix" "$modak_state/staged$modak_suffix" "$modak_directory/work" {} +
  done
)

# shellcheck disable=SC2317 # called by a trap
modak_on_stop() { # the application may be deaf, and what does not ask may follow in a few seconds
  modak_stopped=1
  [ -z "$modak_app" ] || modak_stop_app
  if [ -z "$modak_early" ]; then
    (trap '' TERM; PATH=$modak_path sleep 2; modak_bring) &
    modak_early=$!
  fi
}

# shellcheck disable=SC2317 # called by a trap
modak_leave() { # CODE
  trap '' HUP INT TERM
  set +e
  [ -z "$modak_early" ] || kill -s KILL "$modak_early" 2>/dev/null
  modak_said=
  [ -z "$modak_staged" ] || modak_said=$(modak_bring 2>&1)
  PATH=$modak_path
  rm -f "$modak_state/back$modak_suffix".*
  if [ -n "$modak_said" ]; then
    printf '%s\nmodak: it is in %s on %s\n' "$modak_said" "$modak_scratch" "$modak_host" >&2
    [ "$1" != 0 ] || exit 1
  elif [ -n "$modak_scratch" ]; then
    cd / && rm -rf "$modak_scratch"
  fi
  exit "$1"
}

(
  cd "$modak_work" || modak_fail "the working directory $modak_work is not there"
  export MODAK_TAG=modak-0123456789abcdef
  trap 'modak_leave $?' EXIT
  trap 'exit 143' TERM
  modak_stage
  cd "$modak_work" || modak_fail "the working directory $modak_work is not there"
  trap modak_on_stop TERM
  # The user's shell: none of its functions, variables and traps reaches this one, whatever its lines do.
  : >"$modak_state/post_execution$modak_suffix"
  (
    readonly modak_directory modak_state modak_work modak_path modak_suffix modak_host
    trap - TERM EXIT
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
