# shellcheck shell=sh
# shellcheck disable=SC2016,SC2030,SC2031 # text for awk and inner shells; trials have variables of their own
# restart.sh DIR DROP WORD...: try candidates by starting the program (WORD...) with each, then become the program with
# the best one. DIR is the job's folder as it is seen here, which may be inside a container. The last DROP words are
# the program's arguments, in whose place others may stand for a short run.
#
# DIR/restart holds: settings (see below), N.sh (what candidate N exports; 0 is the chosen one, the default of the
# trials), names, trial.sh (arguments of the short run), *.awk and pattern. The record, in which each line is written
# when it happens, is read by modak/jobs/restarted.py. All times are centiseconds, of one unit microseconds.
#
# Whatever goes wrong here, the program runs as the Plan starts it.
modak_dir=$1 modak_job=$1
modak_dir=$modak_dir/restart modak_drop=$2
shift 2
modak_signal=output modak_budget=0 modak_share='' modak_units='' modak_wall='' modak_count=0 modak_rounds=1 modak_only=''
modak_tolerance=0.01 modak_shortest=100
# shellcheck disable=SC1091
. "$modak_dir/settings"

modak_now() { # sets modak_time to a time in centiseconds that nobody sets, with which nothing but differences make sense
  modak_time=
  { read -r modak_time _ </proc/uptime; } 2>/dev/null
  case $modak_time in
    *.[0-9][0-9]) modak_time=${modak_time%.*}${modak_time#*.} ;;
    *) modak_time=$(date +%s)00 ;;
  esac
  while :; do case $modak_time in 0?*) modak_time=${modak_time#0} ;; *) break ;; esac; done
}
modak_say() { printf 'modak: trials: %s\n' "$1" >&2; }
modak_note() { printf '%s\n' "$1" >>"$modak_dir/record" 2>/dev/null; }
modak_name() { sed -n "$(($1 + 1))p" "$modak_dir/names"; }
modak_seconds() { printf '%d.%02d s' $(($1 / 100)) $(($1 % 100)); }
modak_pause() { sleep 0.1 2>/dev/null || sleep 1; } # POSIX's sleep knows whole seconds only
modak_spent() { # sets modak_used to what the trials took so far
  modak_now
  modak_used=$((modak_time - modak_began))
}

# --- processes of a trial -------------------------------------------------------------------------------------------

modak_marked() { # processes that carry the trial's mark, or work in its folder, in whatever group they are
  # shellcheck disable=SC2013 # names of /proc
  for modak_file in $(grep -lsF -e "MODAK_TRIAL=$modak_token" /proc/[0-9]*/environ 2>/dev/null); do
    modak_file=${modak_file#/proc/}
    printf '%s ' "${modak_file%/environ}"
  done
  # shellcheck disable=SC2012 # names of /proc
  ls -l /proc/[0-9]*/cwd 2>/dev/null | sed -n "s|^.* /proc/\([0-9][0-9]*\)/cwd -> $modak_pattern_work\(/.*\)\{0,1\}\$|\1|p" |
    tr '\n' ' '
}

modak_processes() { # AWK: prints "found" after looking at each process of the trial's session: $1 is its state, $22 its pages
  cat /proc/[0-9]*/stat 2>/dev/null |
    awk -v group="$modak_pid" "{ sub(/^.*[)] /, \"\"); if (\$3 == group || \$4 == group) { $1 } } END { if (found) printf \"%.0f\", found }"
}

modak_kill() { # ends all processes of the trial: asked first, for they may clean up, then without asking
  [ -n "$modak_pid" ] || return 0
  kill -s TERM -- "-$modak_pid" 2>/dev/null
  modak_left=5
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
}

modak_clean() {
  [ -z "$modak_copy" ] || kill -s KILL "$modak_copy" 2>/dev/null
  modak_kill
  chmod -R u+rwx "$modak_dir/work" 2>/dev/null
  rm -rf "$modak_dir/work" "$modak_dir/progress" "$modak_dir/code" "$modak_dir/code.new"
  rm -f "$modak_dir/log" "$modak_dir"/values.*
}

modak_become() { # CANDIDATE WORD...: the one run
  modak_clean
  modak_number=$1
  shift
  if [ -n "$modak_only" ]; then exit 0; fi
  if [ "$modak_number" != 0 ]; then
    # shellcheck disable=SC1090
    . "$modak_dir/$modak_number.sh"
    [ ! -e "$modak_dir/$modak_number.json" ] || export MODAK_LAUNCH_CONFIG="$modak_dir/$modak_number.json"
  fi
  trap - TERM INT HUP
  [ -z "$modak_stop" ] || exit 143
  exec "$@"
}

modak_ends() { # REASON: no winner
  modak_spent
  modak_note "end spent=$modak_used reason=$1"
  modak_say "none is used: $1"
}

# --- one trial ------------------------------------------------------------------------------------------------------

# The trial's own session: it ends with the runner, whatever ends that, and leaves the exit code in a file.
# shellcheck disable=SC2016
modak_inner='modak_parent=$1 modak_code=$2
shift 2
( (while kill -0 "$modak_parent" 2>/dev/null; do sleep 1; done; kill -s KILL 0) </dev/null >/dev/null 2>&1 & )
"$@"
echo "$?" >"$modak_code.new" && mv "$modak_code.new" "$modak_code"'

modak_copied() { # TIME: puts a copy of the working directory in place, in that time
  chmod -R u+rwx "$modak_dir/work" 2>/dev/null
  rm -rf "$modak_dir/work" "$modak_dir/progress" "$modak_dir/code"
  mkdir "$modak_dir/work" "$modak_dir/progress" 2>/dev/null || return 1
  modak_now
  modak_until=$((modak_time + $1))
  cp -RPp . "$modak_dir/work/" 2>/dev/null &
  modak_copy=$!
  : "$modak_copy"
  while kill -0 "$modak_copy" 2>/dev/null && [ -z "$(modak_has_ended "$modak_copy")" ]; do
    modak_now
    if [ "$modak_time" -ge "$modak_until" ] || [ -n "$modak_stop" ]; then
      kill -s KILL "$modak_copy" 2>/dev/null
      wait "$modak_copy" 2>/dev/null
      modak_copy=
      return 1
    fi
    modak_pause
  done
  wait "$modak_copy"
  modak_code=$?
  modak_copy=
  return "$modak_code"
}

modak_has_ended() { # PID: prints yes for a child that has ended and was not waited for
  { read -r modak_line <"/proc/$1/stat"; } 2>/dev/null || { echo yes; return; }
  case ${modak_line##*\) } in [ZX]*) echo yes ;; esac
}

modak_look() { # sets modak_u and modak_t to the last unit and when it was seen, and modak_s to a steady unit if told
  modak_u=0 modak_t=0 modak_s='' modak_v=
  case $modak_signal in
  output)
    modak_seen=$(tail -c 65536 "$modak_dir/log" 2>/dev/null | tr '\r' '\n' | awk -v mode=last -f "$modak_dir/progress.awk")
    modak_now
    [ -z "$modak_seen" ] || modak_u=${modak_seen%% *} modak_t=$((modak_time - modak_from))
    ;;
  launcher)
    modak_seen=$(cat "$modak_dir"/progress/*.jsonl 2>/dev/null | awk -f "$modak_dir/counted.awk")
    # shellcheck disable=SC2086 # four words
    [ -z "$modak_seen" ] || {
      set -- $modak_seen
      modak_u=$1 modak_t=$2 modak_s=$3 modak_v=${4-}
    }
    ;;
  esac
}

modak_try() { # CANDIDATE TIME WINDOW ROUND WORD...: sets state, reason, start, steady, units of the trial
  modak_this=$1 modak_cap=$2 modak_window=$3 modak_round=$4
  shift 4
  modak_state=stopped modak_reason='no unit was done in its time' modak_start='' modak_steady='' modak_times='' modak_done=0 modak_code='' modak_memory=0
  modak_load=
  { read -r modak_load _ </proc/loadavg; } 2>/dev/null
  modak_note "trying index=$modak_this round=$modak_round"
  modak_now
  modak_trial=$modak_time
  if ! modak_copied "$((modak_cap / 2))"; then
    modak_state=unusable modak_reason='the working directory was not copied in time'
    return
  fi
  if [ -e "$modak_dir/$modak_this.libraries" ] && ! modak_loads "$(cat "$modak_dir/$modak_this.libraries")"; then
    modak_state=unusable modak_reason='a library that it preloads is not there'
    return
  fi
  modak_token=$modak_job.$modak_this.$modak_trial.$$
  (
    trap - TERM INT HUP
    cd "$modak_dir/work" || exit 125
    # shellcheck disable=SC1090
    . "$modak_dir/$modak_this.sh"
    if [ "$modak_signal" = whole ]; then
      modak_keep=$(($# - modak_drop))
      for modak_word in "$@"; do
        shift
        [ "$modak_keep" -le 0 ] || set -- "$@" "$modak_word"
        modak_keep=$((modak_keep - 1))
      done
      # shellcheck disable=SC1091
      . "$modak_dir/trial.sh"
    elif [ "$modak_signal" = output ]; then
      PYTHONUNBUFFERED=1
      export PYTHONUNBUFFERED
      ! command -v stdbuf >/dev/null 2>&1 || set -- stdbuf -oL "$@"
    fi
    [ ! -e "$modak_dir/$modak_this.trial.json" ] || export MODAK_LAUNCH_CONFIG="$modak_dir/$modak_this.trial.json"
    export MODAK_TRIAL="$modak_token"
    exec setsid sh -c "$modak_inner" modak-trial "$$" "$modak_dir/code" "$@"
  ) </dev/null >"$modak_dir/log" 2>&1 &
  modak_pid=$!
  modak_now
  modak_from=$modak_time
  modak_watch
  modak_kill
  modak_now
  modak_took=$((modak_time - modak_trial))
  if [ "$modak_signal" != launcher ]; then
    head -c 4194304 "$modak_dir/log" 2>/dev/null | tr '\r' '\n' | awk -f "$modak_dir/progress.awk" >"$modak_dir/values.$modak_this.$modak_round"
  fi
  if [ "$modak_state" = measured ] && ! modak_agrees; then
    modak_state=different modak_reason="its result differs from the default's"
  fi
}

modak_watch() { # follows the trial until its rate is known, it is beaten, ends, or its time is over
  modak_first_u='' modak_first_t='' modak_base_u='' modak_base_t='' modak_last_u=0 modak_looks=0 modak_parts=0 modak_times='' modak_known=
  while :; do
    modak_pause
    [ -z "$modak_stop" ] || return
    modak_looks=$((modak_looks + 1))
    modak_look
    if [ -e "$modak_dir/code" ]; then
      read -r modak_code <"$modak_dir/code"
      modak_now
      modak_whole=$((modak_time - modak_from))
      modak_look
      modak_progress
      if [ "$modak_code" != 0 ]; then
        modak_state=failed modak_reason="it ended with exit code $modak_code"
      elif [ "$modak_signal" = whole ]; then
        modak_state=measured modak_steady=$((modak_whole * 10000)) modak_start=0 modak_done=1 modak_reason='a whole short run'
      elif [ -n "$modak_known" ]; then
        modak_state=measured modak_reason='it ended'
      else
        modak_state=stopped modak_reason='it ended before its rate was known'
      fi
      return
    fi
    modak_progress
    modak_now
    modak_age=$((modak_time - modak_from))
    if [ -n "$modak_known" ] && [ "$modak_span" -ge "$modak_window" ] && [ $((modak_done - modak_first_u)) -ge 3 ]; then
      modak_state=measured modak_reason='its rate is known'
      return
    fi
    if modak_is_beaten; then return; fi
    if [ "$modak_age" -ge "$((modak_cap - modak_from + modak_trial))" ]; then
      [ -z "$modak_known" ] || modak_state=measured
      [ "$modak_signal" != whole ] || modak_reason='the short run did not end in its time'
      [ "$modak_state" != measured ] || modak_reason='its time was over'
      return
    fi
    if [ $((modak_looks % 5)) = 1 ]; then
      modak_kib=$(modak_processes 'found += $22 * 4') # pages of 4 KiB; with others the limit is as much larger
      [ "${modak_kib:-0}" -le "$modak_memory" ] || modak_memory=$modak_kib
      if [ -n "$modak_most" ] && [ "$modak_memory" -gt "$modak_most" ]; then
        modak_state=failed modak_reason="its memory grew to $((modak_memory / 1024)) MiB"
        return
      fi
      if [ "$(($(wc -c <"$modak_dir/log")))" -gt 67108864 ]; then
        modak_state=failed modak_reason='its output exceeds 64 MiB'
        return
      fi
    fi
  done
}

modak_progress() { # takes what was seen last into account; sets modak_known and steady where there is a rate
  [ "$modak_u" -gt "$modak_last_u" ] || return 0
  modak_last_u=$modak_u modak_done=$modak_u
  if [ -z "$modak_first_u" ]; then
    modak_first_u=$modak_u modak_first_t=$modak_t modak_start=$modak_t
  elif [ -z "$modak_base_u" ]; then
    modak_base_u=$modak_u modak_base_t=$modak_t modak_part_u=$modak_u modak_part_t=$modak_t
  elif [ $((modak_t - modak_part_t)) -gt $((modak_window / 6)) ] && [ "$modak_parts" -lt 20 ]; then
    # Times of a unit in parts of the trial, which tell how much it varies.
    modak_times=$modak_times$(((modak_t - modak_part_t) * 10000 / (modak_u - modak_part_u))),
    modak_part_u=$modak_u modak_part_t=$modak_t modak_parts=$((modak_parts + 1))
  fi
  if [ -n "$modak_s" ] && [ "$modak_u" -ge 2 ]; then # the launcher knows better
    modak_known=1 modak_steady=$modak_s modak_span=$((modak_t - modak_first_t))
    # Compilation in the first units is in the time of the first here.
    [ "$modak_looks" -le 0 ] || modak_start=$((modak_t - (modak_u - 1) * modak_s / 10000))
    [ "$modak_start" -ge 0 ] || modak_start=0
  elif [ -n "$modak_base_u" ] && [ "$modak_u" -gt "$modak_base_u" ] && [ "$modak_t" -gt "$modak_base_t" ]; then
    modak_known=1 modak_span=$((modak_t - modak_base_t))
    modak_steady=$(((modak_t - modak_base_t) * 10000 / (modak_u - modak_base_u)))
    modak_start=$((modak_first_t - (modak_first_u - 1) * modak_steady / 10000))
    [ "$modak_start" -ge 0 ] || modak_start=0
  fi
}

modak_is_beaten() { # by the best so far; sets state and reason
  [ -n "$modak_best" ] && [ "$modak_this" != 0 ] || return 1
  if [ "$modak_signal" = whole ]; then
    [ "$((modak_age * 10000))" -gt "$((modak_best_steady * 5 / 4))" ] || return 1
    modak_state=beaten modak_reason='it takes longer than the best so far' modak_steady=$((modak_age * 10000)) modak_start=0
    return 0
  fi
  if [ -n "$modak_known" ]; then
    [ "$modak_span" -ge "$((modak_window / 3))" ] && [ "$modak_steady" -gt "$((modak_best_steady * 5 / 4))" ] || return 1
    modak_state=beaten modak_reason='it is slower than the best so far'
    return 0
  fi
  # As many units as the slowest start and three times the best one's time allow: it hangs, or compiles for too long.
  [ "$modak_age" -gt "$((3 * modak_best_start + 300 + 4 * modak_best_steady * 3 / 10000))" ] || return 1
  modak_state=beaten modak_reason='no rate by three times the time of the best so far'
}

modak_loads() { # LIBRARIES: can the loader preload them?
  ! LD_PRELOAD=$1 sh -c : 2>&1 | grep -q 'cannot be preloaded'
}

modak_agrees() { # do the values of the trial agree with those of the default, of its first run?
  case $modak_v in nan) return 1 ;; esac
  [ "$modak_signal" != launcher ] && [ "$modak_this" != 0 ] || return 0
  awk -v tolerance="$modak_tolerance" '
    NR == FNR { value[$1] = $2; next }
    $2 == "nan" { bad = 1 }
    $1 in value && $2 != "" && value[$1] != "" {
      difference = $2 - value[$1]; if (difference < 0) difference = -difference
      size = value[$1] < 0 ? -value[$1] : value[$1]
      worst = difference > tolerance * size + 1e-12 ? 1 : 0 # of the last common unit
    }
    END { exit (bad || worst) }' "$modak_dir/values.0.1" "$modak_dir/values.$modak_this.$modak_round" 2>/dev/null
}

# --- the search -----------------------------------------------------------------------------------------------------

modak_score() { # START STEADY: prints the remaining time in microseconds, or the time of a unit where units are unknown
  if [ -n "$modak_units" ] && [ "$modak_signal" != whole ]; then
    echo $(($1 * 10000 + (modak_units - 1) * $2))
  else
    echo "$2"
  fi
}

modak_measure() { # CANDIDATE ROUND WINDOW WORD...: tries and records; fails where the budget does not allow it
  modak_spent
  # The trial's end, the copy's removal and the last trial of the default must fit in as well.
  modak_room=$((modak_budget - modak_used - 150))
  [ "$1" = 0 ] || modak_room=$((modak_room - modak_reserve))
  modak_need=$((modak_cost + 50))
  [ "$modak_room" -ge "$modak_need" ] || return 1
  modak_longest=$((modak_room < 6 * modak_need + 600 ? modak_room : 6 * modak_need + 600))
  [ "$1.$2" != 0.1 ] || modak_longest=$((modak_room / 2))
  modak_index=$1 modak_turn=$2 modak_wide=$3
  shift 3
  modak_took=0
  modak_try "$modak_index" "$modak_longest" "$modak_wide" "$modak_turn" "$@"
  modak_now
  modak_took=$((modak_time - modak_trial))
  [ -z "$modak_stop" ] || return 1
  modak_note "trial index=$modak_index round=$modak_turn state=$modak_state took=$modak_took start=$modak_start steady=$modak_steady units=$modak_done times=$modak_times code=$modak_code memory=$modak_memory load=$modak_load reason=$modak_reason"
  modak_say "$(modak_name "$modak_index"): $modak_state${modak_steady:+, $((modak_steady / 1000)).$(printf '%03d' $((modak_steady % 1000))) ms a unit}: $modak_reason"
  return 0
}

modak_keep_score() { # of the trial just made: the worst and the best score of each candidate
  modak_value=$(modak_score "$modak_start" "$modak_steady")
  eval "modak_old=\${modak_worst_$modak_index:-0}"
  [ "$modak_value" -le "$modak_old" ] || eval "modak_worst_$modak_index=$modak_value"
  eval "modak_old=\${modak_least_$modak_index:-}"
  if [ -z "$modak_old" ] || [ "$modak_value" -lt "$modak_old" ]; then eval "modak_least_$modak_index=$modak_value"; fi
  eval "modak_times_$modak_index=\$((\${modak_times_$modak_index:-0} + 1))"
  modak_score_best=${modak_score_best:-$modak_value}
  if [ -z "$modak_best" ] || [ "$modak_value" -lt "$modak_score_best" ]; then
    modak_best=$modak_index modak_score_best=$modak_value modak_best_steady=$modak_steady modak_best_start=${modak_start:-0}
  fi
}

modak_ranked() { # prints the candidates that are better than the default by 2 %, the best first
  modak_i=1
  while [ "$modak_i" -lt "$modak_count" ]; do
    eval "modak_value=\${modak_worst_$modak_i:-}"
    eval "modak_old=\${modak_out_$modak_i:-}"
    if [ -n "$modak_value" ] && [ -z "$modak_old" ] && [ "$((modak_value * 102 / 100))" -lt "$modak_worst_0" ]; then
      echo "$modak_value $modak_i"
    fi
    modak_i=$((modak_i + 1))
  done | sort -n | sed 's/^[^ ]* //'
}

modak_fit() { # lowers the budget to what the job's length permits, once the default's rate is known
  [ -n "$modak_units" ] && [ "$modak_signal" != whole ] || return 0
  modak_total=$(($(modak_score "$modak_start" "$modak_steady") / 10000))
  if [ -n "$modak_share" ] && [ "$((modak_total * modak_share / 1000))" -lt "$modak_budget" ]; then
    modak_budget=$((modak_total * modak_share / 1000))
  fi
  if [ -n "$modak_wall" ]; then
    modak_gap=$((modak_wall_left - modak_total * 11 / 10))
    [ "$modak_gap" -ge "$modak_budget" ] || modak_budget=$modak_gap
  fi
}

modak_search() { # WORD...: sets modak_winner
  modak_cost=100 modak_reserve=0 modak_best='' modak_best_steady=0 modak_best_start=0 modak_most=
  modak_window=$((modak_budget / (4 * (modak_count + 2))))
  [ "$modak_window" -ge "$modak_shortest" ] || modak_window=$modak_shortest
  [ "$modak_window" -le 1000 ] || modak_window=1000
  modak_measure 0 1 "$modak_window" "$@" || {
    [ -n "$modak_stop" ] || modak_ends 'the budget is too small for a trial'
    return
  }
  if [ "$modak_state" != measured ]; then
    modak_ends "the default itself gives no rate: $modak_reason"
    return
  fi
  modak_keep_score
  modak_best=0
  modak_fit
  modak_cost=$modak_took modak_most=$((2 * modak_memory + 262144))
  [ "$modak_memory" -gt 0 ] || modak_most=
  modak_reserve=$((modak_took + 50))
  modak_turn_now=1
  while [ "$modak_turn_now" -le "$modak_rounds" ]; do
    modak_n=$((modak_turn_now == 1 ? 1 : 0))
    while [ "$modak_n" -lt "$modak_count" ]; do
      eval "modak_old=\${modak_out_$modak_n:-}"
      if [ -z "$modak_old" ]; then
        modak_measure "$modak_n" "$modak_turn_now" "$modak_window" "$@" || break 2
        if [ "$modak_state" = measured ]; then modak_keep_score; else eval "modak_out_$modak_n=1"; fi
      fi
      modak_n=$((modak_n + 1))
    done
    modak_turn_now=$((modak_turn_now + 1))
  done
  [ -z "$modak_stop" ] || return
  modak_halve "$@"
  [ -z "$modak_stop" ] || return
  modak_confirm "$@"
}

modak_halve() { # WORD...: the best ones are measured again for longer, and the better half of them, until one is left
  modak_turn_now=$((modak_rounds + 1))
  modak_field=$(modak_ranked | head -n 4)
  while :; do
    # shellcheck disable=SC2086 # numbers
    modak_size=$(set -- $modak_field && echo $#)
    [ "$modak_size" -gt 1 ] || break
    modak_window=$((modak_window * 2))
    modak_cost=$((modak_cost + modak_window / 2))
    for modak_n in $modak_field; do
      modak_measure "$modak_n" "$modak_turn_now" "$modak_window" "$@" || return 0
      if [ "$modak_state" = measured ]; then modak_keep_score; else eval "modak_out_$modak_n=1"; fi
    done
    modak_turn_now=$((modak_turn_now + 1))
    modak_field=$(modak_ranked | head -n $(((modak_size + 1) / 2)))
  done
}

modak_confirm() { # WORD...: the best one and the default are measured once more, and compared by the more careful values
  modak_first=$(modak_ranked | head -n 1)
  if [ -z "$modak_first" ]; then
    modak_winner=0
    modak_spent
    modak_note "decided index=0 gain=100 drift= spent=$modak_used reason=nothing that was tried is faster by 2 %"
    modak_say "the default stays: nothing that was tried is faster by 2 %"
    return
  fi
  modak_old_default=$modak_worst_0
  eval "modak_old=\${modak_times_$modak_first}"
  if [ "$modak_old" -lt 2 ] && modak_measure "$modak_first" "$modak_turn_now" "$modak_window" "$@"; then
    if [ "$modak_state" = measured ]; then modak_keep_score; else eval "modak_out_$modak_first=1 modak_worst_$modak_first="; fi
  fi
  [ -z "$modak_stop" ] || return
  modak_drift='' modak_margin=105
  if modak_measure 0 "$((modak_turn_now + 1))" "$modak_window" "$@" && [ "$modak_state" = measured ]; then
    modak_keep_score
    modak_drift=$((modak_value * 100 / modak_old_default)) modak_margin=102
  fi
  [ -z "$modak_stop" ] || return
  modak_spent
  eval "modak_value=\${modak_worst_$modak_first:-}"
  if [ -n "$modak_value" ] && [ "$((modak_value * modak_margin / 100))" -lt "$modak_least_0" ]; then
    modak_winner=$modak_first
    modak_gain=$((modak_least_0 * 100 / modak_value))
    modak_note "decided index=$modak_first gain=$modak_gain drift=$modak_drift spent=$modak_used reason=fastest of all that was tried"
    modak_say "the program runs with $(modak_name "$modak_first"), $((modak_gain / 100)).$(printf '%02d' $((modak_gain % 100))) times as fast as the default; the trials took $(modak_seconds "$modak_used")"
  else
    modak_winner=0
    modak_note "decided index=0 gain=100 drift=$modak_drift spent=$modak_used reason=measured again the best is not faster than the default"
    modak_say "the default stays: measured again the best is not faster; the trials took $(modak_seconds "$modak_used")"
  fi
}

modak_allowed() { # why nothing may be tried here, if so
  command -v setsid >/dev/null 2>&1 || { echo 'the program setsid is not there'; return; }
  [ -r /proc/uptime ] && [ -r "/proc/$$/stat" ] || { echo '/proc is not there'; return; }
  for modak_file in "$modak_job"/attempts/*/restart.record; do
    [ ! -e "$modak_file" ] || grep -q -e '^decided ' -e '^end spent=[0-9]' "$modak_file" || { echo 'an earlier attempt of the job ended during its trials'; return; }
  done
  modak_wall_left=
  if [ -n "$modak_wall" ]; then
    modak_wall_left=$((modak_wall - $(modak_elapsed)))
    [ "$((modak_wall_left - modak_budget))" -ge "$((modak_wall / 2))" ] || echo 'too little of the wall time is left'
  fi
}

modak_elapsed() { # prints the time since the job began
  modak_line=$(sed -n 's/^start=\([0-9]*\).*/\1/p' "$modak_job/state/start${MODAK_TASK:+.$MODAK_TASK}" 2>/dev/null)
  echo $((($(date +%s) - ${modak_line:-$(date +%s)}) * 100))
}

modak_stop='' modak_pid='' modak_copy='' modak_winner=0 modak_token=- modak_wall_left=
modak_pattern=$modak_dir/pattern
export modak_pattern
modak_pattern_work=$(printf '%s\n' "$modak_dir/work" | sed 's/[][\.*^$|]/\\&/g')
modak_worst_0=0 modak_least_0=''
modak_now
modak_began=$modak_time
if mkdir "$modak_dir/claim" 2>/dev/null; then
  trap 'modak_stop=1' TERM INT HUP
  : >"$modak_dir/record" 2>/dev/null
  modak_note "begin budget=$modak_budget count=$modak_count"
  modak_why=$(modak_allowed)
  [ -z "$modak_wall" ] || modak_wall_left=$((modak_wall - $(modak_elapsed)))
  if [ -n "$modak_why" ]; then modak_ends "$modak_why"; else modak_search "$@"; fi
  if [ -n "$modak_stop" ]; then
    modak_clean
    modak_note 'end spent= reason=the job was ended during its trials'
    exit 143
  fi
else # another task of the array tries, or has tried: what it has decided by now holds
  modak_winner=$(sed -n 's/^decided index=\([0-9]*\) .*/\1/p' "$modak_dir/record" 2>/dev/null | head -n 1)
  [ -z "$modak_only" ] || exit 0
  modak_winner=${modak_winner:-0}
  [ "$modak_winner" = 0 ] || {
    # shellcheck disable=SC1090
    . "$modak_dir/$modak_winner.sh"
    [ ! -e "$modak_dir/$modak_winner.json" ] || export MODAK_LAUNCH_CONFIG="$modak_dir/$modak_winner.json"
  }
  exec "$@"
fi
unset modak_pattern
modak_become "$modak_winner" "$@"
