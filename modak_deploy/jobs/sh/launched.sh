# shellcheck shell=sh
# launched DIR FILES BYTES: the launcher's records of a job, the newest first: at most FILES of them, BYTES of each.
# Nothing is followed: no link, no pipe, and no name but those that the launcher gives.

dir=$1 files=$2 bytes=$3
total=0
if [ ! -h "$dir/launch/record" ] && cd "$dir/launch/record" 2>/dev/null; then
  for name in $(ls -t 2>/dev/null | grep -x '[A-Za-z0-9_-]*[.]jsonl'); do
    [ -f "$name" ] && [ ! -h "$name" ] || continue
    total=$((total + 1))
    [ "$total" -le "$files" ] || continue
    part record
    dd if="$name" bs="$bytes" count=1 2>/dev/null
  done
fi
part total
printf '%d' "$total"
part end
