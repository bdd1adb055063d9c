# shellcheck shell=sh

case $kind in gridengine | any)
  if have qhost && have qconf && { [ "$kind" = gridengine ] || ! have sbatch; }; then query qhost qhost -q -xml; fi
  ;;
esac
