# shellcheck shell=sh
# Shared by all that calls a scheduler's commands.

reach() { # COMMAND: a session that is no login may lack what a site's profile adds to the path
  command -v "$1" >/dev/null 2>&1 && return
  # shellcheck disable=SC1091
  reached=$({ . /etc/profile; } >/dev/null 2>&1 </dev/null; printf '%s' "$PATH")
  PATH=$PATH${reached:+:$reached}
  export PATH
}
