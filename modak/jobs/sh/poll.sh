# shellcheck shell=sh
# poll STATUS: what the scheduler says, and each job's own records. Standard input has three lines for each job: its
# folder, the file that its output goes to, and from which byte on that is wanted, with 0 for none of it.

status=$1
part status
sh -c "$status" </dev/null
code=$?
part code
printf '%d' "$code"
job=0
while IFS= read -r dir && IFS= read -r output && IFS= read -r offset; do
  part "job.$job"
  job=$((job + 1))
  records "$dir"
  if [ "$offset" -gt 0 ] && [ -f "$output" ]; then
    part output
    tail -c "+$offset" "$output" | dd bs=65536 count=1 2>/dev/null
  fi
done
part end
