# shellcheck shell=sh
# progress IMAGES FILE: prints the kilobytes that the pull of FILE has written so far, nothing where none is under way.

part kilobytes
for path in "$1"/.work/*/.progress "${TMPDIR:-/tmp}"/modak.*/.progress; do
  { [ -f "$path" ] && [ ! -h "$path" ] && [ -O "$path" ]; } || continue
  { IFS= read -r file && IFS= read -r size; } 2>/dev/null <"$path" || continue
  [ "$file" != "$2" ] || printf '%.12s\n' "$(printf '%s' "$size" | tr -cd 0-9)"
done
part end
