# shellcheck shell=sh
# results DIR EACH SUM: which files there are to bring back, and those of at most EACH bytes, SUM in all, that the
# caller lacks. Standard input: lines "want PATH", file or folder, and "have DIGEST SIZE PATH".

dir=$1 each=$2 sum_limit=$3
cd "$dir" || fail "$dir is not there"
lists=$(mktemp -d "$dir/state/results.XXXXXX") || fail "nothing can be written to $dir/state"
trap 'rm -rf "$lists"' EXIT
: >"$lists/want" && : >"$lists/have"
while IFS= read -r line; do
  case $line in
  'want '*) printf '%s\n' "${line#want }" >>"$lists/want" ;;
  'have '*) printf '%s\n' "${line#have }" >>"$lists/have" ;;
  esac
done
while IFS= read -r path; do
  if [ -d "$path" ]; then
    find "$path" -type f
  elif [ -f "$path" ]; then
    printf '%s\n' "$path"
  fi
done <"$lists/want" | LC_ALL=C sort -u >"$lists/there"
while IFS= read -r path; do digest "$path" "$path"; done <"$lists/there" >"$lists/digests" || exit 1
rsync_there
part files
cat "$lists/digests"
LC_ALL=C sort "$lists/have" >"$lists/known"
LC_ALL=C sort "$lists/digests" | LC_ALL=C comm -23 - "$lists/known" >"$lists/lacking"
set --
total=0
while IFS= read -r line; do # DIGEST SIZE PATH
  line=${line#* }
  size=${line%% *} path=${line#* }
  if [ "$size" -le "$each" ] && [ $((total + size)) -le "$sum_limit" ] && [ "$#" -lt 500 ]; then
    total=$((total + size))
    set -- "$@" "./$path"
  fi
done <"$lists/lacking"
if [ "$#" -gt 0 ]; then
  tar -cf "$lists/tar" "$@" || fail "the results in $dir cannot be packed"
  if command -v base64 >/dev/null 2>&1; then
    part base64
    base64 <"$lists/tar"
  elif command -v openssl >/dev/null 2>&1; then
    part base64
    openssl base64 <"$lists/tar"
  else
    part hex
    od -An -v -tx1 "$lists/tar"
  fi
fi
part end
