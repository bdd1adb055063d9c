#!/bin/sh
#SBATCH --job-name=solver
#SBATCH --comment=modak-0123456789abcdef
#SBATCH --output=solver-0123456789abcdef.scheduler.log
#SBATCH --no-requeue
#SBATCH --export=NONE
#SBATCH --time=0-1:00:00
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=1
#SBATCH --mail-type=NONE
#
# Builds what solver needs once, before the first run, in the folder in which this is started: modak-0123456789abcdef
# Every value below is a quoted word.

set -eu
modak_work=${SLURM_SUBMIT_DIR:-$PWD}
cd "$modak_work"
modak_fresh=$(mktemp -d "$modak_work/.modak-build.XXXXXX")
trap 'rm -rf "$modak_fresh"' EXIT

modak_source=aster-full-src-14.4.0-1.noarch
modak_done=$modak_source/.modak-0123456789abcdef
if [ -e "$modak_done" ]; then
  echo "it is built: $modak_work/$modak_source"
  exit 0
fi
if [ -e "$modak_source" ]; then
  echo "$modak_work/$modak_source is there and was not built from modak-0123456789abcdef: move it away" >&2
  exit 1
fi
curl --fail --silent --show-error --location --proto =https --output "$modak_fresh/archive" https://example.org/aster-full-src-14.4.0-1.noarch.tar.gz
mkdir "$modak_fresh/source"
tar -xzf "$modak_fresh/archive" -C "$modak_fresh/source"
modak_top=$modak_fresh/source
set -- "$modak_top"/* # an archive of one folder is that folder
if [ $# = 1 ] && [ -d "$1" ]; then
  modak_top=$1
fi
mv "$modak_top" "$modak_source"
if ! sh -c 'how=$1 pattern=$2 words=$3 starter=$4 gpus=$5
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
' modak-enter SINGULARITYENV_ '^((SLURM|PBS_|SGE_|PMI|PRTE_|OMPI_|MPI|HYDI_|HYDRA_|I_MPI_|MV2_|UCX_|FI_|NCCL_|OMP_|GOMP_|KMP_|MKL_|OPENBLAS_|LC_)[A-Za-z0-9_]*|CUDA_MPS_LOG_DIRECTORY|CUDA_MPS_PIPE_DIRECTORY|CUDA_VISIBLE_DEVICES|GPU_DEVICE_ORDINAL|HIP_VISIBLE_DEVICES|JOB_ID|JOB_NAME|LANG|MASTER_ADDR|MASTER_PORT|NHOSTS|NQUEUES|NSLOTS|NVIDIA_VISIBLE_DEVICES|PE_HOSTFILE|ROCR_VISIBLE_DEVICES|TERM|TF_CONFIG|TZ|ZE_AFFINITY_MASK)$' 6 0 '' env SINGULARITYENV_PYTHONNOUSERSITE=1 singularity exec --cleanenv --bind="$modak_work" --pwd="$modak_work" docker://docker.io/ethcscs/mpich:ub1804_cuda101_mpi314_gnugprof sh -e -c 'cd "$1"
python3 setup.py install' build aster-full-src-14.4.0-1.noarch; then
  rm -rf "$modak_source"
  echo "the build of $modak_source failed" >&2
  exit 1
fi
: >"$modak_done"
