#!/bin/sh
#SBATCH --job-name=solver
#SBATCH --comment=modak-0123456789abcdef
#SBATCH --output=solver-0123456789abcdef.scheduler.log
#SBATCH --no-requeue
#SBATCH --export=NONE
#SBATCH --time=0-1:00:00
#SBATCH --nodes=2
#SBATCH --ntasks=40
#SBATCH --ntasks-per-node=20
#SBATCH --cpus-per-task=1
#SBATCH --mail-user=user@example.org
#SBATCH --mail-type=BEGIN,END,FAIL
#
# Job solver, modak-0123456789abcdef
# Submit it from the folder in which it is to run. Every value below is a quoted word.
# The image is named by a tag, which may come to mean another one: write its digest to pin it.

modak_work=${SLURM_SUBMIT_DIR:-$PWD}
cd "$modak_work" || exit 1
modak_task=
modak_suffix=${modak_task:+.$modak_task}
exec >file.out"$modak_suffix" 2>&1
export MODAK_TAG=modak-0123456789abcdef
export OMP_NUM_THREADS=1
srun --export=ALL --kill-on-bad-exit=1 --nodes=2 --ntasks=40 --ntasks-per-node=20 --cpus-per-task=1 sh -c '# Enters a container with the chosen part of the environment, once per rank.
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
' modak-enter SINGULARITYENV_ '^((SLURM|PBS_|PMI|PRTE_|OMPI_|MPI|HYDI_|HYDRA_|I_MPI_|MV2_|UCX_|FI_|NCCL_|OMP_|GOMP_|KMP_|MKL_|OPENBLAS_|LC_)[A-Za-z0-9_]*|CUDA_MPS_LOG_DIRECTORY|CUDA_MPS_PIPE_DIRECTORY|CUDA_VISIBLE_DEVICES|GPU_DEVICE_ORDINAL|HIP_VISIBLE_DEVICES|LANG|MASTER_ADDR|MASTER_PORT|NVIDIA_VISIBLE_DEVICES|ROCR_VISIBLE_DEVICES|TERM|TF_CONFIG|TZ|ZE_AFFINITY_MASK)$' env SINGULARITYENV_PYTHONNOUSERSITE=1 singularity exec --cleanenv --bind="$modak_work" --pwd="$modak_work" docker://docker.io/ethcscs/mpich:ub1804_cuda101_mpi314_gnugprof sh -c 'exec "${ASTER_ROOT}"/14.4/bin/aster "${ASTER_ROOT}"/lib/E_SUPERV.py -commandes fort.1 --num_job=1432 --rep_outils="${ASTER_ROOT}"/outils'
modak_code=$?
exit "$modak_code"
