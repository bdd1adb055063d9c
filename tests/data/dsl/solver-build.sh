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
if ! sh -c '# Enters a container with the chosen part of the environment, once per rank.
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
' modak-enter SINGULARITYENV_ '^((SLURM|PBS_|PMI|PRTE_|OMPI_|MPI|HYDI_|HYDRA_|I_MPI_|MV2_|UCX_|FI_|NCCL_|OMP_|GOMP_|KMP_|MKL_|OPENBLAS_|LC_)[A-Za-z0-9_]*|CUDA_MPS_LOG_DIRECTORY|CUDA_MPS_PIPE_DIRECTORY|CUDA_VISIBLE_DEVICES|GPU_DEVICE_ORDINAL|HIP_VISIBLE_DEVICES|LANG|MASTER_ADDR|MASTER_PORT|NVIDIA_VISIBLE_DEVICES|ROCR_VISIBLE_DEVICES|TERM|TF_CONFIG|TZ|ZE_AFFINITY_MASK)$' env SINGULARITYENV_PYTHONNOUSERSITE=1 singularity exec --cleanenv --bind="$modak_work" --pwd="$modak_work" docker://docker.io/ethcscs/mpich:ub1804_cuda101_mpi314_gnugprof sh -e -c 'cd "$1"
python3 setup.py install' build aster-full-src-14.4.0-1.noarch; then
  rm -rf "$modak_source"
  echo "the build of $modak_source failed" >&2
  exit 1
fi
: >"$modak_done"
