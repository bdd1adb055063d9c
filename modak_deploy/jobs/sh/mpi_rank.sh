# shellcheck shell=sh
# mpi_rank KIND RANKS COMMAND...: become COMMAND, one of RANKS ranks, if the launcher offers what a library of KIND needs.
# KIND is empty where it is not known: then only the number of ranks is looked at, as far as the launcher tells it.
#   PMI_FD, PMI_PORT  the wire protocol of MPICH's Hydra, and of srun --mpi=pmi2 and cray_shasta (PMI_CONTROL_PORT)
#   PMIX_NAMESPACE    PMIx, of srun --mpi=pmix and of Open MPI's mpirun
#   SLURM_PROCID      enough for Slurm's own libpmi
kind=$1 ranks=$2
shift 2
pmi=${PMI_FD:-}${PMI_PORT:-}${PMI_CONTROL_PORT:-}${PALS_RANKID:-}${MPIRUN_RANK:-}${MV2_COMM_WORLD_RANK:-}
case $kind in
  openmpi) offered=${PMIX_NAMESPACE:-} library='Open MPI' needed='PMIx (srun --mpi=pmix, or the mpirun of Open MPI)' ;;
  openmpi-pmi) offered=${PMIX_NAMESPACE:-}$pmi library='Open MPI' needed='PMIx or PMI-2 (srun --mpi=pmix or pmi2)' ;;
  mpich) offered=$pmi library=MPICH needed='PMI (srun --mpi=pmi2, or the mpirun of MPICH)' ;;
  mpich-pmix) offered=${PMIX_NAMESPACE:-}$pmi library='MPICH with PMIx' needed='PMIx (srun --mpi=pmix)' ;;
  mpich-slurm) offered=${SLURM_PROCID:-}$pmi library="MPICH with Slurm's PMI" needed='srun' ;;
  intelmpi)
    offered=$pmi${I_MPI_PMI_LIBRARY:-}${PMIX_NAMESPACE:-} library='Intel MPI'
    needed='PMI (srun --mpi=pmi2 with I_MPI_PMI_LIBRARY, or the mpirun of Intel MPI)' ;;
  *) offered=unknown library= needed= ;;
esac
# Of a step of Slurm, but not of the steps in which an mpirun starts its own daemons.
number=${PMI_SIZE:-${OMPI_COMM_WORLD_SIZE:-}}
if [ -z "$number$pmi" ] || [ -n "${SLURM_MPI_TYPE:-}" ]; then number=${SLURM_STEP_NUM_TASKS:-$number}; fi
case $number in
  '' | *[!0-9]*) number=$ranks ;;
esac
why=
if [ -z "$offered" ]; then
  why="the program uses $library, which needs $needed, and its launcher offers none: each of the $ranks ranks would run alone"
elif [ "$number" != "$ranks" ]; then
  why="$number ranks were started, and the job has $ranks"
fi
[ -n "$why" ] || exec "$@"
# The first rank has the word, and the launcher ends the others with it.
case ${PMI_RANK:-${OMPI_COMM_WORLD_RANK:-${SLURM_PROCID:-0}}} in
  0) echo "modak: $why" >&2 ;;
  *) sleep 5 ;;
esac
exit 1
