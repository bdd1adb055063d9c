# shellcheck shell=sh
# What the usual commands for jobs say of themselves: by this a scheduler is recognised.

have qsub || reach sbatch
ask sbatch sbatch --version
ask qsub qsub --version
ask qsub-help qsub -help
