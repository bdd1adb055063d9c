# shellcheck shell=sh
# Comes before again.sh and remove.sh: ends what an ended job has left running, and removes what it has left on disk.

# A plain machine: what was left of the job when its script was killed. Its processes carry its folder's name.
leftover() { # DIR
  for file in $(grep -lsF -e "MODAK_DIRECTORY=$1" /proc/[0-9]*/environ 2>/dev/null); do
    # A line break inside a value is no end of a variable.
    tr '\n\0' '\001\n' 2>/dev/null <"$file" | grep -Fqx -e "MODAK_DIRECTORY=$1" || continue
    [ -n "$(find "${file%/environ}" -prune -user "$(id -u)" 2>/dev/null)" ] || continue
    file=${file#/proc/}
    printf '%s ' "${file%/environ}"
  done
}

end_leftover() { # DIR
  signal=TERM tries=0
  while pids=$(leftover "$1") && [ -n "$pids" ]; do
    [ "$tries" -lt 10 ] || signal=KILL
    [ "$tries" -lt 15 ] || fail "the job has ended, but its process ${pids%% *} does not: end it first"
    # shellcheck disable=SC2086 # process ids
    kill -s "$signal" $pids 2>/dev/null
    tries=$((tries + 1))
    sleep 1
  done
}

erase() { # FOLDER: also with folders in it that may not be written to, as Go's module cache makes them
  rm -rf "$1" 2>/dev/null && return
  find "$1" -type d ! -perm -700 -exec chmod u+rwx {} \; 2>/dev/null # each before find looks into it
  rm -rf "$1" 2>/dev/null
}
