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
awk 'seen[$0]++ % 2 == 0' "$PBS_NODEFILE" >"$modak_state/hosts$modak_suffix"
mpirun -n 6 -machinefile "$modak_state/hosts$modak_suffix" sh -c '# Enters a container with the chosen part of the environment, once per rank.
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
' modak-enter SINGULARITYENV_ '^((SLURM|PBS_|PMI|PRTE_|OMPI_|MPI|HYDI_|HYDRA_|I_MPI_|MV2_|UCX_|FI_|NCCL_|OMP_|GOMP_|KMP_|MKL_|OPENBLAS_|LC_)[A-Za-z0-9_]*|CUDA_MPS_LOG_DIRECTORY|CUDA_MPS_PIPE_DIRECTORY|CUDA_VISIBLE_DEVICES|GPU_DEVICE_ORDINAL|HIP_VISIBLE_DEVICES|LANG|MASTER_ADDR|MASTER_PORT|NVIDIA_VISIBLE_DEVICES|ROCR_VISIBLE_DEVICES|TERM|TF_CONFIG|TF_XLA_FLAGS|TZ|ZE_AFFINITY_MASK)$' env SINGULARITYENV_PYTHONNOUSERSITE=1 singularity exec --cleanenv --nv --bind="$modak_work" --bind=/some/data --pwd="$modak_work" docker://docker.io/tensorflow/tensorflow:2.1.0-gpu-py3 test_mpi a b c
modak_code=$?
# The application's exit code stays the job's.
(
  eval 'echo after'
) || echo "modak: post-execution ended with exit code $?" >&2
exit "$modak_code"
