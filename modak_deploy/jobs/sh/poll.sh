# shellcheck shell=sh
# poll STATUS LINGER WAITED LEAST MESSAGE: what the scheduler says, and each job's own records. Standard input has five
# lines for each job: its folder, the file that its output goes to, from which byte on that is wanted, with 0 for none
# of it, how many records of an end it writes, and how many bytes at the end of the output tell of its progress.
# MESSAGE is the pattern of the lines that the scheduler writes into the job's log when it ends it; empty for none.
#
# Before that it waits for LINGER seconds until every job has written down its end: so an end is seen when it comes,
# and the scheduler is asked no more often. WAITED is how long these jobs have been watched, in hundredths of a second
# like LEAST, the shortest pause between two looks. A pause is a twentieth of the time watched and at most a second, so
# a short job's end is seen soon, and a long job costs the login node one look a second.

status=$1 linger=$2 waited=$3 least=$4 message=$5
# squeue 22.05 told of an end 0.12 s after it in five of five runs, and of those of many jobs later; a scheduler that has
# not told by then is asked again.
most=100 after=$((least * 3 / 4))
[ "$after" -le 30 ] || after=30
[ "$least" -le "$most" ] || most=$least
jobs=$(cat)

ended() {
  while IFS= read -r dir && IFS= read -r output && IFS= read -r offset && IFS= read -r ends && IFS= read -r tail; do
    set -- "$dir"/state/exit*
    [ -e "$1" ] && [ "$#" -ge "$ends" ] || return 1
  done <<JOBS
$jobs
JOBS
}

rest() { sleep "$(($1 / 100)).$(($1 / 10 % 10))$(($1 % 10))" 2>/dev/null || sleep 1; } # POSIX knows whole seconds only

if [ "$linger" -gt 0 ]; then
  over=$(($(date +%s) + linger)) left=$((linger * 100))
  while ! ended && [ "$left" -gt 0 ] && [ "$(date +%s)" -lt "$over" ]; do # a clock may be set back
    nap=$((waited / 20))
    [ "$nap" -ge "$least" ] || nap=$least
    [ "$nap" -le "$most" ] || nap=$most
    rest "$nap"
    left=$((left - nap)) waited=$((waited + nap))
  done
  ! ended || rest "$after" # the scheduler learns of it a little later
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
    (
      cd "$dir" || exit
      set -- /dev/null
      for log in scheduler.log*; do [ ! -f "$log" ] || set -- "$@" "$log"; done # a FIFO there holds whoever opens it
      grep -e "$message" "$@"
    ) 2>/dev/null | dd bs=65536 count=1 2>/dev/null
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
    tail -c "+$offset" "$output" 2>/dev/null | head -c 65536 # and not dd, which takes what one read() of the pipe gives
  fi
done <<JOBS
$jobs
JOBS
part end
