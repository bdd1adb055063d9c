# shellcheck shell=sh
# The lock of a job's submission and of an image. Whoever makes the symbolic link DIR/N with the highest N has it; the
# link's target names its owner. A link is made by one call that fails where it is there already, on NFS too. Links are
# numbered and stay: one that is nobody's any more is followed by the next number and never removed by two at once.
#
#   DIR/N         the owner: boot, PID namespace, user, process, when that started, and "flock" where it holds
#   DIR/N.alive   locked with flock(1) by the owner and by what it starts; grows every few seconds while the owner lives
#   DIR/N.free    the owner has given it back
#   DIR/N.child   without flock(1): a process that the owner has started and that the lock stays with
#
# What holds, and by what:
#   * On one machine with flock(1), in whatever containers or PID namespaces its processes are: a lock is held until
#     its owner and all that inherited its file descriptor 9 have ended, even where the owner was killed with SIGKILL
#     and what it had started was not. The kernel keeps the account: PIDs in use again, and clocks, do not matter.
#   * Without flock(1), or where the file system has none (Lustre mounted without -o flock gives ENOSYS): an owner of
#     the same boot, PID namespace and user is looked for by its PID and its time of start, and what it has started
#     likewise.
#   * Else, for an owner on another machine or before a restart: it is gone once it has given no sign of life for
#     $lock_patience seconds, counted by the naps of the one that waits and not by any clock. An owner whose machine
#     hung for longer and then goes on sees by lock_held that it has been followed.
# flock(2) across machines (NFS with lockd) is not relied upon: many mounts keep it local (nolock, local_lock, localflock).

lock='' lock_dir='' lock_beat='' lock_kind='' lock_last='' lock_quiet=0
lock_patience=${MODAK_LOCK_PATIENCE:-180} # longer than what a killed owner has started may go on
lock_nap=0.2 lock_naps=5 # seconds between two looks, and looks in a second

# Most functions set a variable rather than print, since each $( ) is a process of its own.

lock_start_in() { # LINE of /proc/PID/stat: sets lock_start
  # The 22nd field; the second may hold blanks and brackets. A zombie (Z, X) has ended.
  # shellcheck disable=SC2086 # one word for each field
  set -- ${1##*\) }
  case $1 in Z | X) return 1 ;; esac
  lock_start=${20}
}

lock_start_of() { # PID: prints when it started, in clock ticks after boot; fails where that is not to be had
  { read -r lock_line <"/proc/$1/stat"; } 2>/dev/null && lock_start_in "$lock_line" && printf '%s' "$lock_start"
}

lock_whoami() { # sets lock_boot, lock_space, lock_pid and lock_self
  { read -r lock_boot </proc/sys/kernel/random/boot_id; } 2>/dev/null || lock_boot=$(uname -n)
  case $lock_boot in # its first 18 characters without hyphens, which the usual form of a UUID has in the same places
  *[!0-9a-f-]* | ????????-????-????-????-*-*) lock_boot=$(printf '%.18s' "$lock_boot" | tr -dc '[:alnum:]') ;;
  ????????-????-????-????-*)
    lock_line=${lock_boot#*-*-*-}
    lock_boot=${lock_boot%"-$lock_line"} lock_line=${lock_boot#*-}
    lock_boot=${lock_boot%%-*}${lock_line%-*}${lock_line#*-}
    ;;
  *) lock_boot=$(printf '%.18s' "$lock_boot" | tr -dc '[:alnum:]') ;;
  esac
  lock_space=$(readlink /proc/self/ns/pid 2>/dev/null) # pid:[NUMBER]
  lock_space=${lock_space#*"["}
  lock_space=${lock_space%"]"}
  case $lock_space in *[!0-9]*) lock_space=$(printf '%s' "$lock_space" | tr -dc '0-9') ;; esac
  lock_space=${lock_space:-0}:$(id -u)
  # /proc may be that of another PID namespace: then nothing can be learnt from it.
  lock_start=
  { read -r lock_line </proc/self/stat; } 2>/dev/null && [ "${lock_line%% *}" = $$ ] && lock_start_in "$lock_line"
  lock_pid=$$.${lock_start:-0}
  lock_self=$lock_boot:$lock_space:$lock_pid
}

lock_lives() { # PID.START
  [ "$(lock_start_of "${1%%.*}")" = "${1#*.}" ]
}

lock_owner_of() { # NUMBER: sets lock_owner
  lock_owner=$(ls -ld "$lock_dir/$1" 2>/dev/null)
  lock_owner=${lock_owner##* -> }
}

lock_highest() { # sets lock_top
  lock_top=0
  for lock_file in "$lock_dir"/*; do
    case ${lock_file##*/} in *[!0-9]*) continue ;; esac
    [ "${lock_file##*/}" -le "$lock_top" ] || lock_top=${lock_file##*/}
  done
}

lock_silent() { # NUMBER OWNER: has it given no sign of life for long enough?
  lock_sign=$1:$2:$(wc -c 2>/dev/null <"$lock_dir/$1.alive")
  if [ "$lock_sign" = "$lock_last" ]; then lock_quiet=$((lock_quiet + 1)); else lock_quiet=0 lock_last=$lock_sign; fi
  [ "$lock_quiet" -ge "$((lock_patience * lock_naps))" ]
}

lock_busy() { # NUMBER: may its owner, or what that has started, still act?
  [ ! -e "$lock_dir/$1.free" ] || return 1
  lock_owner_of "$1"
  case $lock_owner in
  "$lock_boot":*:flock)
    # A shared lock: two that look at once are not in each other's way. What fails with a message is no answer.
    if lock_said=$(flock -n -s "$lock_dir/$1.alive" true 2>&1); then return 1; fi
    [ -n "$lock_said" ] || return 0 ;;
  "$lock_boot:$lock_space":*.0:*) ;;
  "$lock_boot:$lock_space":*)
    lock_other=${lock_owner#"$lock_boot:$lock_space:"}
    ! lock_lives "${lock_other%%:*}" || return 0
    [ -e "$lock_dir/$1.child" ] || return 1
    if { read -r lock_other <"$lock_dir/$1.child"; } 2>/dev/null && [ "${lock_other#*.}" != 0 ]; then
      lock_lives "$lock_other"
      return
    fi ;;
  esac
  ! lock_silent "$1" "$lock_owner"
}

lock_open() { # DIR: which lock is meant
  lock_dir=$1
  [ -n "${lock_self:-}" ] || lock_whoami
  [ -d "$lock_dir" ] || lock_error=$(mkdir -p "$lock_dir" 2>&1) || fail "the folder $lock_dir cannot be made: ${lock_error##*: }"
}

lock_wait() {
  sleep "$lock_nap" 2>/dev/null || { lock_nap=1 lock_naps=1 && sleep 1; } # POSIX knows whole seconds only
}

lock_try() { # takes the lock unless somebody has it; to be called again after lock_wait
  lock_highest
  lock_number=$lock_top
  if [ "$lock_number" -gt 0 ] && lock_busy "$lock_number"; then return 1; fi
  lock_number=$((lock_number + 1))
  # 'command' keeps the shell from ending where it fails.
  { command exec 9>>"$lock_dir/$lock_number.alive"; } 2>/dev/null || {
    lock_error=$( (: >>"$lock_dir/$lock_number.alive") 2>&1) || fail "no lock can be made in $lock_dir: ${lock_error##*: }"
    return 1
  }
  lock_kind=none
  if command -v flock >/dev/null 2>&1; then
    if lock_said=$(flock -n 9 2>&1); then
      lock_kind=flock
    elif [ -z "$lock_said" ]; then # another process is taking it at this moment
      exec 9>&-
      return 1
    fi
  fi
  lock_error=$(ln -s "$lock_self:$lock_kind" "$lock_dir/$lock_number" 2>&1)
  # Who is named there, and not what ln said: NFS may carry a call out twice and report the second.
  lock_owner_of "$lock_number"
  lock_highest
  if [ "$lock_owner" = "$lock_self:$lock_kind" ] && [ "$lock_top" = "$lock_number" ]; then
    lock=$lock_number
    lock_live
    return 0
  fi
  exec 9>&-
  [ -h "$lock_dir/$lock_number" ] || fail "no lock can be made in $lock_dir: ${lock_error##*: }"
  return 1
}

lock_take() { # DIR: waits for as long as somebody has it
  lock_open "$1"
  until lock_try; do lock_wait; done
}

lock_live() { # gives signs of life until the owner has ended
  (
    while sleep 5 && [ ! -e "$lock_dir/$lock.free" ]; do
      if [ "${lock_pid#*.}" = 0 ]; then kill -0 $$ 2>/dev/null; else lock_lives "$lock_pid"; fi || exit 0
      echo >>"$lock_dir/$lock.alive"
    done
  ) >/dev/null 2>&1 </dev/null 9>&- &
  lock_beat=$!
}

lock_child() { # [PID]: what the lock stays with; to be said without a PID before it is started, and then with it
  [ "$lock_kind" != flock ] || return 0
  if [ -n "${1:-}" ]; then
    (printf '%s.%s\n' "$1" "$(lock_start_of "$1" || echo 0)" >"$lock_dir/$lock.child") 2>/dev/null
  else
    (: >"$lock_dir/$lock.child") 2>/dev/null || fail "nothing can be written to $lock_dir"
  fi
}

lock_held() { # has nobody followed?
  lock_highest
  [ -n "$lock" ] && [ "$lock_top" = "$lock" ]
}

lock_drop() {
  [ -n "$lock" ] || return 0
  (: >"$lock_dir/$lock.free") 2>/dev/null
  [ -z "$lock_beat" ] || kill "$lock_beat" 2>/dev/null
  exec 9>&-
  lock_old=$((lock - 8)) # whoever looked so long ago and goes on sees in lock_try that there are higher ones
  [ "$lock_old" -lt 1 ] || rm -f "$lock_dir/$lock_old" "$lock_dir/$lock_old".*
  lock='' lock_beat='' lock_last='' lock_quiet=0
}
