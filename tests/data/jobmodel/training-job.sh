#!/bin/sh
#PBS -N test
#PBS -S /bin/sh
#PBS -v MODAK_TAG=modak-0123456789abcdef
#PBS -o test-0123456789abcdef.scheduler.log
#PBS -j oe
#PBS -r n
#PBS -A test
#PBS -q batch
#PBS -V
#PBS -l walltime=12:00:00
#PBS -l nodes=1:ppn=12:arch:BW20:gpus=1
#PBS -l mem=122880kb
#PBS -t 1,2,3,4
#PBS -a 203012312359.00
#PBS -m abe
#PBS -M user@example.org
#
# Job test, modak-0123456789abcdef
# Submit it from the folder in which it is to run. Every value below is a quoted word.
# The image is named by a tag, which may come to mean another one: write its digest to pin it.

modak_work=${PBS_O_WORKDIR:-$PWD}
cd "$modak_work" || exit 1
modak_task=${PBS_ARRAYID:-}
modak_suffix=${modak_task:+.$modak_task}
exec >'output file path'"$modak_suffix" 2>&1
modak_state=$(mktemp -d) || exit 1
trap 'rm -rf "$modak_state"' EXIT
export MODAK_TASK="$modak_task"
export MODAK_TAG=modak-0123456789abcdef
export OMP_NUM_THREADS=2
export TF_XLA_FLAGS='--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit'
set -e
eval 'echo everywhere
echo '"'"'{{ xla }}'"'"' ${#A[@]}
export PREFETCH=100
echo before'
set +e
cd "$modak_work" || exit 1
# A program that is named without a folder may lie in the job's own.
PATH=$PATH:$modak_work
export PATH
export APPTAINERENV_APPEND_PATH="$modak_work"
export SINGULARITYENV_APPEND_PATH="$modak_work"
awk 'seen[$0]++ % 2 == 0' "$PBS_NODEFILE" >"$modak_state/hosts$modak_suffix"
mpirun -n 6 -machinefile "$modak_state/hosts$modak_suffix" sh -c 'how=$1 pattern=$2 words=$3 starter=$4 gpus=$5
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
' modak-enter SINGULARITYENV_ '^((SLURM|PBS_|SGE_|PMI|PRTE_|OMPI_|MPI|HYDI_|HYDRA_|I_MPI_|MV2_|UCX_|FI_|NCCL_|OMP_|GOMP_|KMP_|MKL_|OPENBLAS_|LC_)[A-Za-z0-9_]*|CUDA_MPS_LOG_DIRECTORY|CUDA_MPS_PIPE_DIRECTORY|CUDA_VISIBLE_DEVICES|GPU_DEVICE_ORDINAL|HIP_VISIBLE_DEVICES|JOB_ID|JOB_NAME|LANG|MASTER_ADDR|MASTER_PORT|NHOSTS|NQUEUES|NSLOTS|NVIDIA_VISIBLE_DEVICES|PE_HOSTFILE|ROCR_VISIBLE_DEVICES|TERM|TF_CONFIG|TF_XLA_FLAGS|TZ|ZE_AFFINITY_MASK)$' 4 0 nvidia env SINGULARITYENV_PYTHONNOUSERSITE=1 singularity exec --cleanenv --nv --bind="$modak_work" --bind=/some/data --pwd="$modak_work" docker://docker.io/tensorflow/tensorflow:2.1.0-gpu-py3 test_mpi a b c
modak_code=$?
# The application's exit code stays the job's.
(
  eval 'echo after'
) || echo "modak: post-execution ended with exit code $?" >&2
exit "$modak_code"
