# shellcheck shell=sh

case $kind in torque | openpbs | any)
  if have qsub && have pbsnodes && ! have sbatch; then
    query nodes pbsnodes -a
    query queues qstat -Q -f
    query server qstat -B -f
  fi
  ;;
esac
