# shellcheck shell=sh
# has TOOL PATH: is the image there?

part has
case $1 in
podman | docker) "$1" image inspect "$2" >/dev/null 2>&1 && echo 1 ;;
*) [ -f "$2" ] && { [ -f "$2.info" ] || [ "$1" = file ]; } && echo 1 ;;
esac
part end
