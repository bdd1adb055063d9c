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

# --- a folder, a user and ports of our own -------------------------------------------------------------------------

new_folder() { # KIND: sets DIR to a new folder outside the checkout, where its user can read, and links to it
  clear_away "$1"
  DIR=$(as_root mktemp -d "$BASE/modak-$1.XXXXXX")
  ln -sfn "$DIR" "$LINK"
  realpath -s "$LINK" | as_root tee "$DIR/link" >/dev/null
  as_root chmod 755 "$DIR"
}

clear_away() { # KIND: what checkouts left running that were deleted without 'down', or whose link was
  local folder link user
  for folder in "$BASE/modak-$1".*; do
    # Everybody may make a folder of this name, and what stands in it ends processes and removes a user: root made ours.
    [ "$(stat -c %u "$folder" 2>/dev/null)" = 0 ] && link=$(as_root cat "$folder/link" 2>/dev/null) || continue
    [ "$(as_root readlink "$link")" != "$folder" ] || continue
    say "removing $folder, which a deleted checkout left behind"
    user=$(getent passwd | awk -F: -v home="$folder/home" '$6 == home { print $1 }')
    as_root ln -sfn "$folder" "$folder/self"
    (LINK=$folder/self && stop) || true
    as_root rm -rf "$folder"
    [ -z "$user" ] || ! getent passwd "$user" >/dev/null || as_root userdel "$user" || true
  done
}

port_is_free() { ! (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# shellcheck disable=SC2034 # REASON and USER_NAME are for the scripts that read this file
claim_user() { # KIND NAME PORTS: sets USER_NAME, where neither the user nor a port is another's; else REASON
  local owner port
  owner=$(getent passwd "$2" | cut -d: -f6) || true
  case $owner in
    '') ;;
    "$BASE/modak-$1."*/home)
      if [ -d "${owner%/home}" ]; then REASON="$2 belongs to ${owner%/home}" && return 1; fi
      REASON=$(as_root userdel "$2" 2>&1) || return 1 ;;
    *) REASON="$2 is another user, with home $owner" && return 1 ;;
  esac
  for port in "${@:3}"; do
    port_is_free "$port" || { REASON="port $port is taken"; return 1; }
  done
  # '*' locks the password without locking the account, which sshd would refuse.
  REASON=$(as_root useradd --no-create-home --home-dir "$DIR/home" --shell /bin/bash --password '*' "$2" 2>&1) || return 1
  USER_NAME=$2
}

claim_any() { # KIND NAME: the first of thirty users that is free
  local slot reasons=
  for slot in {0..29}; do
    ! claim_user "$1" "$2$slot" || return 0
    reasons+="; $REASON"
  done
  fail "the users ${2}0 to ${2}29 are all taken: ${reasons#; }"
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
