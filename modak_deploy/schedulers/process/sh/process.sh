# shellcheck shell=sh
# Shared by the steps on a plain machine. A process is told from a later one with the same number by the time at which
# it started: in clock ticks after boot where there is /proc, else as ps writes it.

fields_of() { # PID: its state and what follows in /proc/PID/stat, blanks and brackets in its name left behind
  { read -r line <"/proc/$1/stat"; } 2>/dev/null || return 1
  line=${line##*\) }
  case $line in Z* | X*) return 1 ;; esac
  printf '%s\n' "$line"
}

start_of() { # PID: fails when it has ended
  if [ -r /proc/self/stat ]; then
    fields_of "$1" | cut -d ' ' -f 20 | grep .
  else
    case $(ps -o stat= -p "$1" 2>/dev/null) in '' | Z*) return 1 ;; esac
    ps -o lstart= -p "$1" 2>/dev/null | tr -cs '[:alnum:]\n' _
  fi
}

group_of() { # PID
  line=$(fields_of "$1") || return 1
  line=${line#* * }
  echo "${line%% *}"
}

session_of() { # PID
  line=$(fields_of "$1") || return 1
  line=${line#* * * }
  echo "${line%% *}"
}

is_there() { # ID
  [ "$(start_of "${1%%-*}")" = "${1#*-}" ]
}
