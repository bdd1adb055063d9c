# shellcheck shell=sh
# torque_status COUNT ID... ARRAY...: qstat for the COUNT plain jobs, for the tasks of the arrays (without -t an array's
# id lists all jobs there are), and for the jobs that held ones wait for: Torque holds a job for ever when its parent
# had ended badly before it was submitted. Complaints stay on standard error: in one stream they could fall into the
# middle of a line.

set -f # the brackets of an array's id are no pattern
unset PBS_QSTAT_EXECONLY PBS_QSTAT_NO_COMPLETE # with these qstat would keep jobs to itself
plain=''
count=$1
shift
while [ "$count" -gt 0 ]; do
  plain="$plain $1"
  count=$((count - 1))
  shift
done
jobs='' code=0
if [ -n "$plain" ]; then
  # shellcheck disable=SC2086 # one word for each id
  jobs=$(qstat -f $plain)
  code=$?
fi
if [ "$#" -gt 0 ]; then
  jobs="$jobs
$(qstat -f -t "$@")" || code=$?
fi
printf '%s\n' "$jobs"
parents=$(printf '%s\n' "$jobs" | awk '
  function look() { if (sub(/^    depend = /, "", line)) { gsub(/[,:]/, "\n", line); print line } }
  /^\t/ { line = line substr($0, 2); next }
  { look(); line = $0 }
  END { look() }' |
  sed -n 's/@.*//; /\[\]/d; /^[0-9][0-9]*[.[]/p' | sort -u)
# shellcheck disable=SC2086
case $jobs in *"job_state = H"*) [ -z "$parents" ] || qstat -f $parents 2>/dev/null ;; esac
exit "$code"
