# shellcheck shell=sh
# check_store TOOL NAME: what podman or docker knows of an image in its store.

command -v "$1" >/dev/null 2>&1 || fail "$1 is not on this machine's PATH"
part inspect
if ! said=$("$1" image inspect "$2" 2>&1); then
  case $said in *[Nn]'o such'* | *'not known'*) fail "the image $2 is not in $1's store" ;; esac
  fail "$1 does not tell whether it has the image $2: $(printf '%s' "$said" | tail -n 1)"
fi
printf '%s\n' "$said"
part end
