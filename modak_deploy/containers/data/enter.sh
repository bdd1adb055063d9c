# Enters a container with the chosen part of the environment, once per rank.
# Arguments: how the runtime takes variables, an awk pattern of the names that pass, how many words at the end are the
# application's, how many before them start it with the launcher, whose GPUs it uses, the command.
# The names are known only here: a launcher gives each rank its own PMI variables.
how=$1 pattern=$2 words=$3 starter=$4 gpus=$5
shift 5
names() { # 1: the variables that pass; 0: all others
  awk 'BEGIN { for (name in ENVIRON)
    if (name ~ /^[A-Za-z_][A-Za-z0-9_]*$/ && (name ~ ARGV[2]) == ARGV[1]) print name }' "$1" "$pattern"
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
  # The starter at their end is left out: that of restart trials would try this question in place of the program.
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
without_starter() { # COUNT WORD...: runs the words but for the starter's, which end with the first COUNT
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
looked_at $(($# - words)) "$@"
# One rank asks for all, since it takes as long as a container takes to start; all ask where a shell starts the program.
shell=yes
[ "$starter" = 0 ] && [ "${SLURM_PROCID:-${PMIX_RANK:-${PMI_RANK:-0}}}" != 0 ] || inside $(($# - words)) "$@"
if [ "$shell" = no ] && [ "$starter" != 0 ]; then
  echo "modak: the launcher is not used: the image has no shell" >&2
  without_starter $(($# - words)) "$@"
fi
exec "$@"
