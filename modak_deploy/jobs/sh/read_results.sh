# shellcheck shell=sh
# read_results DIR: what is in files below it. Standard input: lines of quoted words, each a call of one of these.
#   pack ./PATH ...              a tar archive of them
#   piece ./PATH SKIP COUNT      COUNT MiB of one, from the SKIPth MiB on; a link is followed

dir=$1
cd "$dir" || fail "$dir is not there"
pack() { ${packer:?is not set} "$@"; }
piece() { [ -f "$1" ] && dd if="$1" bs=1048576 skip="$2" count="$3" 2>/dev/null; }
wanted=$(cat)
part "${encoding:?is not set}"
eval "$wanted" | ${encoder:?is not set}
part end
