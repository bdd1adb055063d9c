# shellcheck shell=sh
# check PATH TOOL [KEY]...: what an image file is, and whether it is signed with one of the keys (PEM texts).

path=$1 tool=$2
shift 2
[ -f "$path" ] || fail "the image $path is not there"
[ -r "$path" ] || fail "the image $path cannot be read"
part sum
digest "$path" ''
part info
[ ! -f "$path.info" ] || cat "$path.info"
case $tool in
apptainer | singularity)
  command -v "$tool" >/dev/null 2>&1 || fail "$tool is not on this machine's PATH"
  part header
  "$tool" sif header "$path" 2>&1
  part inspect
  "$tool" inspect --json "$path" 2>&1
  keys=$(mktemp -d "${TMPDIR:-/tmp}/modak.XXXXXXXX") || fail "no temporary folder can be made"
  trap 'rm -rf "$keys"' EXIT
  number=0
  for key in "$@"; do
    number=$((number + 1))
    printf '%s\n' "$key" >"$keys/key.pem"
    part "signature.$number"
    "$tool" verify --all --key "$keys/key.pem" "$path" 2>&1
    printf '\ncode %d' $?
  done ;;
esac
part end
