# shellcheck shell=sh
# Where there is sbatch, Torque's commands are Slurm's wrappers.

case $kind in torque | openpbs) ! have sbatch || kind=slurm ;; esac
case $kind in slurm | any)
  case ${SLURM_CLUSTERS-} in *,* | all) unset SLURM_CLUSTERS ;; esac # jobs go to one cluster: that of the login node
  ask srun srun --mpi=list
  # sinfo(1), --exact: else unlike nodes share a line, with the least of their cores and memory and a "+".
  query sinfo sinfo --noheader --exact --format='%P|%a|%l|%D|%t|%c|%m|%G|%f'
  part here
  # Partitions with a node that runs on this very host, as on a cluster of one machine.
  if have sinfo; then
    name=$(uname -n)
    limited sinfo --noheader --format='%n|%R' </dev/null 2>/dev/null | while IFS='|' read -r node partition; do
      if [ "${node%%.*}" = "${name%%.*}" ]; then printf '%s\n' "$partition"; fi
    done
  fi
  ;;
esac
