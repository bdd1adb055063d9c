# shellcheck shell=sh

case $kind in torque | openpbs | any)
  if have qsub && have pbsnodes && ! have sbatch; then
    # -a: OpenPBS's pbsnodes without arguments is a usage error (23.06.06).
    query nodes pbsnodes -a
    query queues qstat -Q -f
    query server qstat -B -f
  fi
  ;;
esac
