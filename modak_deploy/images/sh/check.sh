# shellcheck shell=sh
# check PATH TOOL [KEY]...: what an image file is, and whether it is signed with one of the keys, each the text of a
# public key in PEM form or of a PGP one.

by_pem() { # KEY
  printf '%s\n' "$1" >"$keys/key.pem"
  "$tool" verify --all --key "$keys/key.pem" "$path" 2>&1
}

by_pgp() { # KEY: a keyring of its own has this key alone, and what the machine's keyring has does not count
  export APPTAINER_KEYSDIR="$keys/ring" SINGULARITY_KEYSDIR="$keys/ring" SINGULARITY_SYPGPDIR="$keys/ring"
  rm -rf "$keys/ring"
  mkdir -m 700 "$keys/ring"
  printf '%s\n' "$1" >"$keys/key.asc"
  "$tool" key import "$keys/key.asc" 2>&1 </dev/null || return
  said=$("$tool" verify --all --local "$path" 2>&1)
  code=$?
  printf '%s\n' "$said"
  case $said in *"[LOCAL]"*) return "$code" ;; *) return 1 ;; esac
}

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
  part list
  "$tool" sif list "$path" 2>&1
  part inspect
  "$tool" inspect --json "$path" 2>&1
  keys=$(mktemp -d "${TMPDIR:-/tmp}/modak.XXXXXXXX") || fail "no temporary folder can be made"
  trap 'rm -rf "$keys"' EXIT
  number=0
  for key in "$@"; do
    number=$((number + 1))
    part "signature.$number"
    case $key in *"BEGIN PGP PUBLIC KEY BLOCK"*) by_pgp "$key" ;; *) by_pem "$key" ;; esac
    printf '\ncode %d' $?
  done ;;
ch-run)
  [ "$(head -c 4 "$path" | tr -d '\0')" = hsqs ] || fail "the image $path is none that Charliecloud mounts: it is not squashed"
  # What ch-image keeps of the configuration that the registry had; ch-run does not look into it.
  part metadata
  unsquashfs -cat "$path" ch/metadata.json 2>/dev/null | head -c 1048576 || : ;;
esac
part end
