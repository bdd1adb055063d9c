# shellcheck shell=bash
# Shared by the scripts that set up real parts. They set NAME (what they set up), PROGRAMS and PACKAGES before.

umask 022
export PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
TOP=$(cd "$HERE/../.." && pwd)
BUILD=${MODAK_BUILD_DIR:-$TOP/.build}
# shellcheck disable=SC2034 # by the scripts that read this file
BASE=${MODAK_REAL_BASE:-/var/tmp}
CANNOT=77 # exit code for "not possible on this machine", as automake has it

say() { printf 'real %s: %s\n' "$NAME" "$*" >&2; }
fail() { say "$*"; exit 1; }
cannot() { say "not possible here: $*"; exit "$CANNOT"; }

SUDO=
as_root() { $SUDO "$@"; }
need_root() {
  [ "$(id -u)" = 0 ] && return
  if ! sudo -n true 2>/dev/null; then cannot "it takes root or passwordless sudo"; fi
  SUDO="sudo -n"
}

# --- packages ----------------------------------------------------------------------------------------------------

missing_programs() { # and libraries, which a script that needs some names by their soname in LIBRARIES
  local program library present
  for program in $PROGRAMS; do command -v "$program" >/dev/null || echo "$program"; done
  [ -n "${LIBRARIES:-}" ] || return 0
  present=$(ldconfig -p)
  for library in $LIBRARIES; do case $present in *"$library ("*) ;; *) echo "$library" ;; esac; done
}

logged() { # NAME COMMAND...: its output goes to a log, of which the end is shown when it fails
  local log=$BUILD/logs/$1.log
  shift
  mkdir -p "$BUILD/logs"
  "$@" >"$log" 2>&1 || { tail -n 20 "$log" >&2; fail "this failed: $*; the whole log is $log"; }
}

install_packages() {
  local missing policy=/usr/sbin/policy-rc.d made=
  missing=$(missing_programs | tr '\n' ' ')
  [ -n "$missing" ] || return 0
  command -v apt-get >/dev/null || cannot "${missing% } missing, and this is no Debian or Ubuntu to install them on"
  say "installing ${PACKAGES[*]}"
  # The packages' own services are not wanted: everything here runs on its own ports, sockets and files.
  if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
    as_root chmod 755 "$policy"
    made=$policy
  fi
  # shellcheck disable=SC2064 # the value of now
  [ -z "$made" ] || trap "$SUDO rm -f '$made'" EXIT
  logged "apt-update-$NAME" as_root env DEBIAN_FRONTEND=noninteractive apt-get -q update
  logged "apt-$NAME" as_root env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends "${PACKAGES[@]}"
  if [ -n "$made" ]; then
    as_root rm -f "$made"
    trap - EXIT
  fi
  missing=$(missing_programs | tr '\n' ' ')
  [ -z "$missing" ] || fail "still missing after the installation: $missing"
}

mirror() { # PATTERN: the mirror of a distribution whose name matches that this machine already uses
  # shellcheck disable=SC2016 # apt's variable, not the shell's
  apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 2>/dev/null | grep -E "/($1)/?\$" | sort -u | head -n 1
}

# --- processes ---------------------------------------------------------------------------------------------------

runs() { # PID: is it there, and not just waiting to be buried?
  local state
  state=$(sed -n 's/^State:[[:space:]]*//p' "/proc/$1/status" 2>/dev/null) && [ -n "$state" ] && [ "${state#Z}" = "$state" ]
}

end_processes() { # PIDS: asks, waits for up to ten seconds, then insists
  local pid round left=()
  for round in $(seq 0 100); do
    left=()
    for pid in "$@"; do ! runs "$pid" || left+=("$pid"); done
    [ ${#left[@]} != 0 ] || return 0
    [ "$round" != 0 ] || as_root kill "${left[@]}" 2>/dev/null || true
    sleep 0.1
  done
  as_root kill -9 "${left[@]}" 2>/dev/null || true
}
