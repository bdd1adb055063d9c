# shellcheck shell=sh
# poll STATUS [DIR OUTPUT OFFSET]...: what the scheduler says, and each job's own records; from byte OFFSET on the text
# in the file OUTPUT, none of it where OFFSET is 0.

status=$1
shift
part status
sh -c "$status" </dev/null
code=$?
part code
printf '%d' "$code"
job=0
while [ "$#" -ge 3 ]; do
  dir=$1 output=$2 offset=$3
  shift 3
  part "job.$job"
  job=$((job + 1))
  records "$dir"
  if [ "$offset" -gt 0 ] && [ -f "$output" ]; then
    part output
    tail -c "+$offset" "$output" | dd bs=65536 count=1 2>/dev/null
  fi
done
part end
