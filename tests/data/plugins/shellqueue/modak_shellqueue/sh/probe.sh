# shellcheck shell=sh

case $kind in shellqueue | any)
  ask shellqueue sq version
  if have sq; then query shellqueue-queues sq queues; fi
  ;;
esac
