# shellcheck shell=sh
# slurm_list: number, comment and working directory of this user's jobs, those that have ended too.

unset SQUEUE_ACCOUNT SQUEUE_ARRAY SQUEUE_FORMAT2 SQUEUE_LICENSES SQUEUE_NAMES SQUEUE_PARTITION SQUEUE_QOS SQUEUE_SORT \
  SQUEUE_USERS
case ${SLURM_CLUSTERS-} in *,* | all) unset SLURM_CLUSTERS ;; esac # as where the job was submitted
# squeue(1): --all shows jobs in hidden partitions too; the variables above would leave some out.
squeue --noheader --all --states=all --user="$(id -un)" --format='%F|%k|%Z' || exit
sacct --noheader --parsable2 --allocations ${SLURM_CLUSTERS:+"--clusters=$SLURM_CLUSTERS"} --starttime=now-30days \
  --format=JobID,Comment,WorkDir 2>/dev/null
:
