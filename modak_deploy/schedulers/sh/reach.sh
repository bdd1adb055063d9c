# shellcheck shell=sh
# Shared by all that calls a scheduler's commands.

reach() { # COMMAND: a session that is no login may lack what the profile, or OpenPBS, says of the path
  command -v "$1" >/dev/null 2>&1 && return
  # shellcheck disable=SC1091
  reached=$({ . /etc/profile; } >/dev/null 2>&1 </dev/null; printf '%s' "$PATH")
  [ ! -r /etc/pbs.conf ] || reached=$reached:$(sed -n 's/^PBS_EXEC=//p' /etc/pbs.conf)/bin
  PATH=$PATH${reached:+:$reached}
  export PATH
}
