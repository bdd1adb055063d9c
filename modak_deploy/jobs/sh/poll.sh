# shellcheck shell=sh
# poll STATUS LINGER NAP NAPS MESSAGE: what the scheduler says, and each job's own records. Standard input has five lines
# for each job: its folder, the file that its output goes to, from which byte on that is wanted, with 0 for none of it,
# how many records of an end it writes, and how many bytes at the end of the output tell of its progress. MESSAGE is the pattern of the lines that the scheduler writes into the job's
# log when it ends it; empty for none.
#
# Before that it waits for LINGER seconds, in at most NAPS naps of NAP seconds, until every job has written down its end:
# so an end is seen when it comes, and the scheduler is asked no more often.

status=$1 linger=$2 nap=$3 naps=$4 message=$5
jobs=$(cat)

ended() {
  while IFS= read -r dir && IFS= read -r output && IFS= read -r offset && IFS= read -r ends && IFS= read -r tail; do
    set -- "$dir"/state/exit*
    [ -e "$1" ] && [ "$#" -ge "$ends" ] || return 1
  done <<JOBS
$jobs
JOBS
}

rest() { sleep "$nap" 2>/dev/null || sleep 1; }

if [ "$linger" -gt 0 ]; then
  over=$(($(date +%s) + linger))
  while ! ended && [ "$naps" -gt 0 ] && [ "$(date +%s)" -lt "$over" ]; do # a clock may be set back
    rest
    naps=$((naps - 1))
  done
  ! ended || rest # the scheduler learns of it a little later
fi
part status
sh -c "$status" </dev/null
code=$?
part code
printf '%d' "$code"
job=0
while IFS= read -r dir && IFS= read -r output && IFS= read -r offset && IFS= read -r ends && IFS= read -r tail; do
  part "job.$job"
  job=$((job + 1))
  records "$dir"
  if [ -n "$message" ]; then
    part messages
    (cd "$dir" && grep -e "$message" /dev/null scheduler.log*) 2>/dev/null | dd bs=65536 count=1 2>/dev/null
  fi
  if [ -d "$dir/launch/record" ]; then # what the launcher has counted so far stands at the end of its newest record
    record=$(cd "$dir/launch/record" && ls -t 2>/dev/null | grep -x '[A-Za-z0-9_-]*[.]jsonl' | head -n 1)
    if [ -n "$record" ] && [ -f "$dir/launch/record/$record" ] && [ ! -h "$dir/launch/record/$record" ]; then
      part progress
      tail -c 4096 "$dir/launch/record/$record" 2>/dev/null
    fi
  fi
  if [ "$tail" -gt 0 ] && [ -f "$output" ]; then
    part written
    tail -c "$tail" "$output" 2>/dev/null
  fi
  if [ "$offset" -gt 0 ] && [ -f "$output" ]; then
    part output
    tail -c "+$offset" "$output" | dd bs=65536 count=1 2>/dev/null
  fi
done <<JOBS
$jobs
JOBS
part end
