# shellcheck shell=sh
# Whose a folder below .work is: its .owner names boot, PID namespace, process and start, host; its .alive grows every
# few seconds while that process lives. A process that SIGKILL ends leaves its folder, of the size of an unpacked image.

work_here() { # prints what boot and PID namespace are these
  { read -r work_boot </proc/sys/kernel/random/boot_id; } 2>/dev/null || work_boot=$(uname -n)
  printf '%s %s' "$work_boot" "$(readlink /proc/self/ns/pid 2>/dev/null | tr -dc '0-9')"
}

work_own() { # makes $work ours
  printf '%s %s %s %s\n' "$(work_here)" $$ "$(lock_start_of $$)" "$(uname -n)" >"$work/.owner"
  (
    while sleep 5 && [ -d "$work" ] && kill -0 $$ 2>/dev/null; do echo >>"$work/.alive"; done
  ) >/dev/null 2>&1 </dev/null 9>&- &
  work_beat=$!
}

work_quiet() { # DIR: has nobody written a sign of life for ten minutes, by this machine's clock?
  work_sign=$1/.owner
  [ ! -e "$1/.alive" ] || work_sign=$1/.alive
  [ -n "$(find "$work_sign" -prune -mmin +10 2>/dev/null)" ]
}

work_is_left() { # DIR: is its owner certainly gone?
  if ! { read -r work_boot work_space work_pid work_start work_host <"$1/.owner"; } 2>/dev/null; then
    work_host=unknown # it was killed at once, or an older modak made it
    [ -n "$(find "$1" -prune -mtime +0 2>/dev/null)" ]
    return
  fi
  case $work_pid$work_start in *[!0-9]* | '') work_quiet "$1" && return 0 || return 1 ;; esac
  if [ "$work_boot $work_space" = "$(work_here)" ]; then
    [ "$(lock_start_of "$work_pid")" != "$work_start" ]
    return
  fi
  # On another machine, in another container, or before a restart. Clocks differ: it must not grow while we look, either.
  work_quiet "$1" || return 1
  work_size=$(wc -c 2>/dev/null <"$1/.alive")
  sleep 12
  [ "$work_size" = "$(wc -c 2>/dev/null <"$1/.alive")" ]
}

work_list() { # DRY: removes the folders whose owners are gone; prints lines as collect does
  for work_dir in "$images/.work"/*; do
    [ -d "$work_dir" ] && [ ! -h "$work_dir" ] && [ "$work_dir" != "${work:-}" ] || continue
    work_kb=$(du -sk "$work_dir" 2>/dev/null)
    work_bytes=$((${work_kb%%[!0-9]*} * 1024))
    work_name=.work/$(printf '%s' "${work_dir##*/}" | tr -cd 'A-Za-z0-9._-')
    if ! work_is_left "$work_dir"; then
      work_host=$(printf '%s' "$work_host" | tr -cd 'A-Za-z0-9._-')
      printf 'kept\t%d\t%s\ta build or pull on %s may be using it\n' "$work_bytes" "$work_name" "$work_host"
      continue
    fi
    if [ "$1" != 1 ]; then
      chmod -R u+rwX "$work_dir" 2>/dev/null
      rm -rf "$work_dir" 2>/dev/null
    fi
    if [ "$1" = 1 ] || [ ! -e "$work_dir" ]; then
      printf 'removed\t%d\t%s\tleft by a build or pull that was killed\n' "$work_bytes" "$work_name"
    else
      printf 'kept\t%d\t%s\tleft by a build or pull that was killed, and it cannot be removed\n' "$work_bytes" "$work_name"
    fi
  done
}
