# shellcheck shell=sh
# pull_store TOOL NAME PLAIN STALL: lets podman or docker pull NAME, which ends in a digest, into its own store.
# Standard input: registry, user and password, a line each, or nothing.

tool=$1 name=$2 plain=$3 watch_limit=$4 file=$2
command -v "$tool" >/dev/null 2>&1 || fail "$tool is not on this machine's PATH"
if "$tool" image inspect "$name" >/dev/null 2>&1; then
  part pulled
  echo 0
  part end
  exit 0
fi
store_login "$tool"
case $tool in
podman) # keeps a blob in TMPDIR, or in /var/tmp, until it is whole
  tmp=$(mktemp -d "${TMPDIR:-/var/tmp}/modak.XXXXXXXX") || fail "no temporary folder can be made in ${TMPDIR:-/var/tmp}"
  export TMPDIR="$tmp" ;;
*) watch_limit=$((watch_limit * 12)) ;; # its daemon downloads, and says something only once a layer is whole
esac
trap 'exit 143' HUP INT TERM
pull() { watched "$work/log" "$tool" pull "$@" "$name"; }
if [ "$tool" = podman ] && [ "$plain" = 1 ]; then
  pull || pull --tls-verify=false
else
  pull
fi || fail "the image $name was not pulled: $(store_why "$work/log")"
part pulled
printf '1 %d' "$("$tool" image inspect --format '{{.Size}}' "$name")"
part end
