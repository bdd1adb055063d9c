# shellcheck shell=sh
# stop WORKSPACE NAME FOLDER SECONDS: SIGTERM to the shell that supervises the program of the job in the folder of that name,
# which hands it on, and wait for at most SECONDS until the program has ended.

service_open "$1" "$2"
end=$(($(date +%s) + $4))
if child=$(child_of "$3"); then
  { read -r line <"/proc/${child%%.*}/stat"; } 2>/dev/null
  # shellcheck disable=SC2086 # one word for each field
  set -- ${line##*\) }
  parent=$2 session=$4 line=
  { read -r line <"/proc/$parent/stat"; } 2>/dev/null
  # shellcheck disable=SC2086 # likewise
  set -- ${line##*\) }
  [ "$4" = "$session" ] || parent=${child%%.*} # the shell was killed: init or the like has the program now
  kill -s TERM "$parent" 2>/dev/null
  while lock_lives "$child" && [ "$(date +%s)" -lt "$end" ]; do nap 0.2; done
fi
part end
