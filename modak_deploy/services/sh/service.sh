# shellcheck shell=sh
# Shared by the steps of a service, after common.sh and lock.sh. A service's folder is WORKSPACE/services/NAME:
#
#   record      its revision, and in the second line what belongs to the service; replaced in one step
#   ports       lines "PORT ID": ports that are reserved for a replica
#   front/      the configuration of the proxy before the replicas, and its socket for administrators

umask 077
unset http_proxy HTTP_PROXY all_proxy ALL_PROXY

service_open() { # WORKSPACE NAME: sets workspace and dir
  case $1 in
  \~) workspace=${HOME:?is not set} ;;
  \~/*) workspace=${HOME:?is not set}/${1#??} ;;
  *) workspace=$1 ;;
  esac
  workspace=${workspace%/} dir=${workspace%/}/services/$2
  [ ! -h "$dir" ] || fail "$dir is a symbolic link, and not the folder of a service"
  [ ! -e "$dir" ] || [ -d "$dir" ] || fail "$dir is not a folder"
  [ ! -d "$dir" ] || [ -n "$(find "$dir" -prune -user "$(id -u)" 2>/dev/null)" ] || fail "$dir belongs to another user"
}

service_lock() { # FOLDER: waits for its lock, which is held until the step ends
  lock_open "$1"
  trap lock_drop EXIT
  trap 'exit 1' HUP INT TERM PIPE
  waits=0
  until lock_try; do
    waits=$((waits + 1))
    [ "$waits" -le $((240 * lock_naps)) ] || fail "another run holds $1"
    lock_wait
  done
}

service_revision() { # prints the record's revision, 0 where there is none
  revision=
  [ ! -s "$dir/record" ] || read -r revision <"$dir/record" || fail "$dir/record cannot be read"
  printf '%s' "${revision:-0}"
}

service_there() { # REVISION: ends the step, and makes no folder, where the service was removed since
  [ "$1" = 0 ] || [ -d "$dir" ] || service_changed
}

service_check() { # REVISION: ends the step where the record is no longer the one that the caller has read
  [ "$(service_revision)" = "$1" ] || service_changed
}

service_changed() {
  part changed
  part end
  exit 0
}

child_of() { # FOLDER: prints the process that a job's supervising shell has started, where it is there
  { read -r child <"$workspace/runs/$1/supervise/child"; } 2>/dev/null || return 1
  case $child in *[!0-9.]* | .* | *.) return 1 ;; esac
  lock_lives "$child" && printf '%s' "$child"
}

job_lives() { # FOLDER: does the script of the job there run?
  { read -r leader <"$workspace/runs/$1/state/pid"; } 2>/dev/null || return 1
  case $leader in *[!0-9-]* | -* | *-) return 1 ;; *-*) lock_lives "${leader%%-*}.${leader#*-}" ;; *) return 1 ;; esac
}

listens() { # PORT [USER]: is it open on this host, by a process of the user with this number?
  cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | awk -v port="$(printf ':%04X' "$1")" -v user="${2-}" '
    $4 == "0A" && substr($2, length($2) - 4) == port && (user == "" || $8 == user) { open = 1 }
    END { exit !open }'
}

workers_of() { # PID: prints its children
  for stat in /proc/[0-9]*/stat; do
    { read -r line <"$stat"; } 2>/dev/null || continue
    # shellcheck disable=SC2086 # one word for each field
    set -- "$1" ${line##*\) }
    case $2 in Z | X) continue ;; esac
    [ "$3" != "$1" ] || { stat=${stat#/proc/} && printf '%s ' "${stat%/stat}"; }
    set -- "$1"
  done
}

nap() { sleep "$1" 2>/dev/null || sleep 1; } # POSIX has whole seconds only
