# shellcheck shell=sh
# check_store TOOL NAME: what podman or docker knows of an image in its store.

command -v "$1" >/dev/null 2>&1 || fail "$1 is not on this machine's PATH"
part inspect
"$1" image inspect "$2" 2>/dev/null || fail "the image $2 is not in $1's store"
part end
