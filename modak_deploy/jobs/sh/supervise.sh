#!/bin/sh
# supervise DIR PROGRAM [ARGUMENT...]: run the program until SIGTERM, and start it again when it ends by itself: after one
# second, then after twice as long each time, up to 30 seconds; a run of a minute makes it one second again.
#
#   DIR/supervise/child     its process id, a dot, and when it started (clock ticks after boot, 0 without /proc)
#   DIR/supervise/restarts  how often it was started again, and the exit code of its last end

modak_records=$1/supervise
shift
modak_child='' modak_stopped='' modak_restarts=0 modak_pause=1

modak_start_of() { # PID
  { read -r modak_line <"/proc/$1/stat"; } 2>/dev/null || { echo 0 && return; }
  # shellcheck disable=SC2086 # one word for each field; the second may hold blanks and brackets
  set -- ${modak_line##*\) }
  echo "${20}"
}

modak_keep() { # FILE TEXT: in one step, so that nobody reads half of it
  (printf '%s\n' "$2" >"$modak_records/$1.new" && mv -f "$modak_records/$1.new" "$modak_records/$1") 2>/dev/null
}

modak_stop() {
  modak_stopped=1
  [ -z "$modak_child" ] || kill -s TERM "$modak_child" 2>/dev/null
}

trap modak_stop TERM INT HUP
while [ -z "$modak_stopped" ]; do
  modak_began=$(date +%s)
  "$@" &
  modak_child=$!
  modak_keep child "$modak_child.$(modak_start_of "$modak_child")"
  [ -z "$modak_stopped" ] || kill -s TERM "$modak_child" 2>/dev/null # it came before there was anything to stop
  while :; do # a signal ends wait early
    wait "$modak_child"
    modak_code=$?
    kill -0 "$modak_child" 2>/dev/null || break
  done
  modak_child=
  [ -z "$modak_stopped" ] || exit "$modak_code"
  modak_restarts=$((modak_restarts + 1))
  modak_keep restarts "$modak_restarts $modak_code"
  [ "$(($(date +%s) - modak_began))" -lt 60 ] || modak_pause=1
  echo "modak: the program ended with exit code $modak_code; it is started again in $modak_pause s" >&2
  sleep "$modak_pause" &
  wait $!
  modak_pause=$((modak_pause * 2))
  [ "$modak_pause" -le 30 ] || modak_pause=30
done
exit 143
