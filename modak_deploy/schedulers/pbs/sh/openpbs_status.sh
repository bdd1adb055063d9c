# shellcheck shell=sh
# openpbs_status COUNT ID... ARRAY...: qstat for the COUNT plain jobs and for the arrays with their tasks; ended ones too
# where the server keeps a history. The text and not the JSON, which a job named nan, or with such an account or variable,
# makes invalid. Complaints stay on standard error: in one stream they could fall into the middle of a line.

set -f # the brackets of an array's id are no pattern
few=20
count=$1 jobs='' code=0
shift
if [ "$count" -gt "$few" ]; then
  # For each id qstat connects anew, by a port below 1024 of which a login node has some 500. Many jobs are picked from
  # the list of all, which is one connection, and only those that have left it are asked for.
  plain=' ' left=''
  while [ "$count" -gt 0 ]; do
    plain="$plain$1 "
    count=$((count - 1))
    shift
  done
  all=$(qstat -f)
  code=$?
  jobs=$(printf '%s\n' "$all" | awk -v plain="$plain" '/^Job Id: / { keep = index(plain, " " $3 " ") } keep')
  there=" $(printf '%s\n' "$jobs" | sed -n 's/^Job Id: //p' | tr '\n' ' ') "
  for id in $plain; do
    case $there in *" $id "*) ;; *) left="$left $id" ;; esac
  done
  # shellcheck disable=SC2086 # one word for each id
  set -- $left "$@"
fi
ask() { # OPTION... ID...
  qstat -t -f "$@"
}
if [ "$#" -gt 0 ] && [ "$code" = 0 ]; then
  more=$(ask -x "$@")
  code=$?
  if [ "$code" = 0 ] && [ -z "$more" ]; then # without a history -x tells nothing, and that is no error
    more=$(ask "$@")
    code=$?
  fi
  jobs="$jobs
$more"
fi
printf '%s\n' "$jobs"
exit "$code"
