#!/bin/sh
#
# Job digits, modak-0123456789abcdef
# Every value below is a quoted word. This shell runs no line of the user's itself: it watches over one that does, and
# writes down in state/exit how that ended, whatever becomes of the queue's memory.

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
  modak_job=$(
    { read -r modak_line </proc/$$/stat; } 2>/dev/null || { echo $$ && exit; }
    # shellcheck disable=SC2086 # one word for each field
    set -- ${modak_line##*\) } # what is there after the name: the 20th word is when it started
    echo "$$-${20}"
  )
  modak_host=$(uname -n)
  modak_own=
fi
modak_limit=
modak_body=
modak_signal=
modak_recorded=
modak_claimed=
modak_sync=
modak_start=$modak_state/start$modak_suffix
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

# The application is started by a shell of its own, from the one that has run the user's lines: it inherits what they
# have exported, their limits and their umask, and neither their functions nor their traps.
modak_launch() {
  trap 'modak_stopped=1; [ -z "$modak_app" ] || kill -s TERM "$modak_app" 2>/dev/null' TERM
  # A signal is sent to this shell: in the room for the record of the run, as the disk may be full.
  modak_fill "reserved.run$modak_suffix" "launcher=$$" || modak_fail "nothing can be written to $modak_state"
  PATH=$modak_path rm -f "$modak_state/pre_execution$modak_suffix"
  cd "$modak_work" || modak_fail "the working directory $modak_work is not there"
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
    exec sh -c 'how=$1 pattern=$2 words=$3 starter=$4 gpus=$5
shift 5
names() { # 1: the variables that pass; 0: all others
  awk '"'"'BEGIN { for (name in ENVIRON)
    if (name ~ /^[A-Za-z_][A-Za-z0-9_]*$/ && (name ~ ARGV[2]) == ARGV[1]) print name }'"'"' "$1" "$pattern"
}
stop() { # EXIT_CODE SENTENCE
  printf "modak: %s (%s)\n" "$2" "$(uname -n)" >&2
  exit "$1"
}
looked_at() { # COUNT WORD...: stops where what the first COUNT words show to the container is not on this node
  left=$1
  shift
  for word in "$@"; do
    [ "$left" -gt 0 ] || break
    left=$((left - 1))
    case $word in --bind=/* | --volume=/*) ;; *) continue ;; esac
    word=${word#*=}
    [ -e "${word%%:*}" ] || stop 121 "the folder ${word%%:*}, which the container is to see, is not there"
  done
  case $gpus in
    nvidia) [ -e /dev/nvidiactl ] || [ -e /dev/dxg ] ||
      stop 122 "the image uses GPUs of nvidia, and this node has no such device: /dev/nvidiactl is not there" ;;
    amd) [ -e /dev/kfd ] ||
      stop 122 "the image uses GPUs of amd, and this node has no such device: /dev/kfd is not there" ;;
  esac
}
inside() { # COUNT WORD...: asks, in a container made by the first COUNT words, for the program that comes next
  left=$1
  shift
  program=
  for word in "$@"; do
    shift
    if [ "$left" -gt "$starter" ]; then set -- "$@" "$word"; elif [ "$left" = 0 ]; then program=$word; fi
    left=$((left - 1))
  done
  case $program in
    */* | "") [ "$starter" != 0 ] || return 0; program=sh ;; # its own path is found, or not, by the runtime
  esac
  said=$("$@" sh -c "command -v \"\$1\" >/dev/null 2>&1 && echo modak-yes || echo modak-no" sh "$program" 2>&1 </dev/null)
  case $said in
    *modak-yes*) ;;
    *modak-no*) stop 120 "the image has no program $program" ;;
    *"\"sh\""* | *" sh: "*) shell=no ;; # the runtime says by itself what else is missing
    *) stop 119 "the container cannot be started: $(printf %s "$said" | tail -n 1 | tr -d "[:cntrl:]" | cut -c1-300)" ;;
  esac
}
without_starter() { # COUNT WORD...: runs the words but for the starter'"'"'s, which end with the first COUNT
  left=$1 drop=$starter
  shift
  left=$((left - drop))
  for word in "$@"; do
    shift
    if [ "$left" -gt 0 ]; then left=$((left - 1)); elif [ "$drop" -gt 0 ]; then drop=$((drop - 1)) && continue; fi
    set -- "$@" "$word"
  done
  exec "$@"
}
case $how in
  APPTAINERENV_ | SINGULARITYENV_)
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
looked_at $(($# - words)) "$@"
shell=yes
[ "$starter" = 0 ] && [ "${SLURM_PROCID:-${PMIX_RANK:-${PMI_RANK:-0}}}" != 0 ] || inside $(($# - words)) "$@"
if [ "$shell" = no ] && [ "$starter" != 0 ]; then
  echo "modak: the launcher is not used: the image has no shell" >&2
  without_starter $(($# - words)) "$@"
fi
exec "$@"
' modak-enter APPTAINERENV_ '^((SLURM|PBS_|SGE_|PMI|PRTE_|OMPI_|MPI|HYDI_|HYDRA_|I_MPI_|MV2_|UCX_|FI_|NCCL_|OMP_|GOMP_|KMP_|MKL_|OPENBLAS_|LC_)[A-Za-z0-9_]*|CUDA_MPS_LOG_DIRECTORY|CUDA_MPS_PIPE_DIRECTORY|CUDA_VISIBLE_DEVICES|GPU_DEVICE_ORDINAL|HIP_VISIBLE_DEVICES|JOB_ID|JOB_NAME|LANG|MASTER_ADDR|MASTER_PORT|NHOSTS|NQUEUES|NSLOTS|NVIDIA_VISIBLE_DEVICES|PE_HOSTFILE|ROCR_VISIBLE_DEVICES|TERM|TF_CONFIG|TZ|ZE_AFFINITY_MASK)$' 3 0 '' apptainer exec --cleanenv --bind=/home/user/.modak/runs/digits-0123456789abcdef --bind="$modak_work" --pwd="$modak_work" --env=PYTHONNOUSERSITE=1 /home/user/.modak/images/library_busybox_1-0000000000000000.sif ./train --epochs 12
  ) &
  modak_app=$!
  [ -z "$modak_stopped" ] || kill -s TERM "$modak_app" 2>/dev/null # it came before there was anything to stop
  modak_await "$modak_app"
  modak_run="$modak_run
end=$(modak_now)
uptime_end=$(modak_uptime)
app_code=$modak_code"
  if modak_superseded || ! modak_fill "run$modak_suffix" "$modak_run"; then modak_stopped=1; fi
  [ -n "$modak_stopped" ] || PATH=$modak_path printf '%s\n' 'tar -cf model.tar model' | modak_keep post_execution ||
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
exec >/home/user/.modak/runs/digits-0123456789abcdef/output.log"$modak_suffix" 2>&1

modak_stop_app() { # the application, or the user's lines before and after it
  (: >"$modak_state/stop$modak_suffix") 2>/dev/null
  modak_pid=$(
    PATH=$modak_path
    sed -n 's/^launcher=\([0-9][0-9]*\) *$/\1/p' "$modak_state/reserved.run$modak_suffix" "$modak_state/run$modak_suffix" \
      2>/dev/null | sed -n '$p'
  )
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
    # shellcheck disable=SC2016 # for the inner shells
    find -H "./$modak_name" -type d -exec sh -c '
      work=$1
      shift
      for file; do
        mkdir -p "$work/$file" || echo "modak: $file cannot be brought back from the scratch folder" >&2
      done' sh "$modak_directory/work" {} + -o -type l -exec sh -c '
      new=$1.$$ scratch=$2 work=$3
      shift 3
      for file; do
        to=$(readlink "$file")
        case $to in "$scratch"/*) to=$work/${to#"$scratch"/} ;; esac
        [ ! -h "$work/$file" ] || [ "$(readlink "$work/$file")" != "$to" ] || continue
        { [ -h "$work/$file" ] || [ ! -d "$work/$file" ]; } && mkdir -p "$work/${file%/*}" && ln -s "$to" "$new" &&
          rm -f "$work/$file" && mv "$new" "$work/$file" ||
          { rm -f "$new"; echo "modak: $file cannot be brought back from the scratch folder" >&2; }
      done' sh "$modak_state/back$modak_suffix.link" "$modak_scratch" "$modak_directory/work" {} + -o -type f -exec sh -c '
      new=$1.$$ staged=$2 work=$3
      shift 3
      for file; do
        ! grep -Fqx -e "$(cksum "$file")" "$staged" || continue
        ! cmp -s "$file" "$work/$file" || { [ -h "$work/$file" ] && [ ! -h "$file" ]; } || continue
        mkdir -p "$work/${file%/*}" && [ ! -d "$work/$file" ] && cp -p "$file" "$new" && mv -f "$new" "$work/$file" ||
          { rm -f "$new"; echo "modak: $file cannot be brought back from the scratch folder" >&2; }
      done' sh "$modak_state/back$modak_suffix" "$modak_state/staged$modak_suffix" "$modak_directory/work" {} +
  done
)

# shellcheck disable=SC2317 # called by a trap
modak_on_stop() { # the application may be deaf, and what does not ask follows: in 1.2 s on Torque as it is installed
  modak_stopped=1
  [ -z "$modak_app" ] || modak_stop_app
  if [ -z "$modak_early" ]; then
    (trap '' TERM; PATH=$modak_path; sleep 0.5 2>/dev/null || sleep 1; modak_bring) &
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
    readonly modak_directory modak_state modak_work modak_path modak_suffix modak_host modak_own
    trap - TERM EXIT
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
