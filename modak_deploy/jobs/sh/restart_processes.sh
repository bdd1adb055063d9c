# shellcheck shell=sh
# shellcheck disable=SC2016 # text for awk
# The processes of a trial, and its end: a part of the runner of restart trials (restart.sh).

modak_marked() { # processes that carry the trial's mark, or work in its folder, in whatever group they are
  # shellcheck disable=SC2013 # names of /proc
  for modak_file in $(grep -lsF -e "MODAK_TRIAL=$modak_token" /proc/[0-9]*/environ 2>/dev/null); do
    modak_file=${modak_file#/proc/}
    printf '%s ' "${modak_file%/environ}"
  done
  # shellcheck disable=SC2012 # names of /proc
  ls -l /proc/[0-9]*/cwd 2>/dev/null | LC_ALL=C sed -n "s|^.* /proc/\([0-9][0-9]*\)/cwd -> $modak_pattern_work\(/.*\)\{0,1\}\$|\1|p" |
    tr '\n' ' '
}

modak_processes() { # AWK: prints "found" after looking at each process of the trial's session: $1 is its state, $22 its pages
  cat /proc/[0-9]*/stat 2>/dev/null |
    modak_awk -v group="$modak_pid" "{ sub(/^.*[)] /, \"\"); if (\$3 == group || \$4 == group) { $1 } } END { if (found) printf \"%.0f\", found }"
}

modak_kill() { # ends all processes of the trial: asked first, for they may clean up, then without asking
  [ -n "$modak_pid" ] || return 0
  kill -s TERM -- "-$modak_pid" 2>/dev/null
  modak_left=${modak_ranks:+50} # launchers end their ranks on all nodes first
  modak_left=${modak_left:-5}
  while [ "$modak_left" -gt 0 ] && [ -n "$(modak_processes 'if ($1 != "Z") found = 1')" ]; do
    modak_pause
    modak_left=$((modak_left - 1))
  done
  kill -s KILL -- "-$modak_pid" 2>/dev/null
  modak_left=8
  while modak_pids=$(modak_marked) && [ -n "${modak_pids% }" ] && [ "$modak_left" -gt 0 ]; do # a fork may be under way
    # shellcheck disable=SC2086 # process ids
    kill -s KILL $modak_pids 2>/dev/null
    modak_left=$((modak_left - 1))
  done
  wait "$modak_pid" 2>/dev/null
  modak_pid=
  [ -z "$modak_trial_id" ] || rm -f "$modak_dir/$modak_trial_id"
}

modak_clean() {
  [ -z "$modak_copy" ] || kill -s KILL "$modak_copy" 2>/dev/null
  modak_kill
  ( # whoever ends a job may signal each of its processes, and those that come later
    trap '' TERM INT HUP
    chmod -R u+rwx "$modak_dir/work" 2>/dev/null
    rm -rf "$modak_dir/work" "$modak_dir/progress" "$modak_dir/code" "$modak_dir/code.new"
    rm -f "$modak_dir/log" "$modak_dir"/values.* "$modak_dir"/*.ran
  )
}

modak_become() { # CANDIDATE WORD...: the one run
  modak_clean
  trap - EXIT
  if [ -n "$modak_only" ]; then exit 0; fi
  trap - TERM INT HUP
  [ -z "$modak_stop" ] || exit 143
  if [ -n "$modak_own" ] && [ ! -d "$modak_own" ] && [ -e "$modak_dir/settings" ]; then
    modak_say 'this job was given up, and another attempt made: the program is not started'
    exit 1
  fi
  modak_run "$@"
}

modak_ends() { # REASON: no winner
  modak_spent
  modak_note "end spent=$modak_used reason=$1"
  modak_say "none is used: $1"
}
