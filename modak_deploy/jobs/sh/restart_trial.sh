# shellcheck shell=sh
# shellcheck disable=SC2016,SC2030,SC2031 # text for inner shells; trials have variables of their own
# One start of the program with a candidate: a part of the runner of restart trials (restart.sh).

# The trial's own session: it ends with the runner, whatever ends that, and leaves the exit code in a file.
# shellcheck disable=SC2016
modak_inner='modak_parent=$1 modak_code=$2 modak_alive=$3
shift 3
( (while kill -0 "$modak_parent" 2>/dev/null; do sleep 1; done; rm -f "$modak_alive"; kill -s KILL 0) </dev/null >/dev/null 2>&1 & )
"$@"
echo "$?" >"$modak_code.new" && mv "$modak_code.new" "$modak_code"'

modak_copied() { # TIME: puts a copy of the working directory in place, in that time
  modak_now
  modak_until=$modak_time
  chmod -R u+rwx "$modak_dir/work" 2>/dev/null
  rm -rf "$modak_dir/work" "$modak_dir/progress" "$modak_dir/code"
  modak_now
  [ "$((modak_time - modak_until))" -le "$modak_removal" ] || modak_removal=$((modak_time - modak_until))
  mkdir "$modak_dir/work" "$modak_dir/progress" 2>/dev/null || return 1
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
  modak_copied=$?
  modak_now
  # Nothing has been removed yet: that takes no longer than making it, as a rule.
  [ "$modak_removal" -gt 0 ] || modak_removal=$((modak_time - modak_until + $1))
  modak_copy=
  return "$modak_copied"
}

modak_has_ended() { # PID: prints yes for a child that has ended and was not waited for
  { read -r modak_line <"/proc/$1/stat"; } 2>/dev/null || { echo yes; return; }
  case ${modak_line##*\) } in [ZX]*) echo yes ;; esac
}

modak_read() { # MODE TIME: what progress.awk makes of standard input, and of as much of it as that time suffices for
  modak_now
  tr '\r' '\n' 2>/dev/null | modak_awk -v mode="$1" -v until="$((modak_time + $2))" -f "$modak_dir/progress.awk"
}

modak_look() { # sets modak_u and modak_t to the last unit and when it was seen, and modak_s to a steady unit if told
  modak_u=0 modak_t=0 modak_s='' modak_v=
  case $modak_signal in
  output)
    modak_seen=$(tail -c "$modak_tail" "$modak_dir/log" 2>/dev/null | modak_read last 50)
    modak_now
    [ -z "$modak_seen" ] || modak_u=${modak_seen%% *} modak_t=$((modak_time - modak_from))
    ;;
  launcher)
    modak_seen=$(cat "$modak_dir"/progress/*.jsonl 2>/dev/null | modak_awk -f "$modak_dir/counted.awk")
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
  modak_state=stopped modak_reason='no unit was done in its time' modak_start='' modak_steady='' modak_times='' modak_done=0 modak_code='' modak_memory=0 modak_at_once=''
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
  modak_trial_id=$modak_this.$modak_trial.$$ modak_mark=
  modak_token=$modak_job.$modak_trial_id
  if [ -n "$modak_ranks" ]; then
    modak_mark=$modak_this:$modak_trial_id:$((modak_cap / 100 + 10))
  fi
  if ! (: >"$modak_dir/log" && { [ -z "$modak_ranks" ] || : >"$modak_dir/$modak_trial_id"; }) 2>/dev/null; then
    modak_state=unusable modak_reason='nothing can be written to the folder of the job'
    return
  fi
  (
    trap - TERM INT HUP
    cd "$modak_dir/work" || exit 125
    # shellcheck disable=SC1090
    [ -n "$modak_ranks" ] || . "$modak_dir/$modak_this.sh"
    if [ "$modak_signal" = whole ]; then
      modak_keep=$(($# - modak_drop))
      for modak_word in "$@"; do
        shift
        [ "$modak_keep" -le 0 ] || set -- "$@" "$modak_word"
        modak_keep=$((modak_keep - 1))
      done
      # shellcheck disable=SC1091
      . "$modak_dir/trial.sh"
    fi
    # shellcheck disable=SC1090
    [ -n "$modak_ranks" ] || [ ! -e "$modak_dir/$modak_this.words" ] || . "$modak_dir/$modak_this.words"
    if [ "$modak_signal" = output ]; then
      PYTHONUNBUFFERED=1
      export PYTHONUNBUFFERED
      [ -n "$modak_ranks" ] || ! command -v stdbuf >/dev/null 2>&1 || set -- stdbuf -oL "$@"
    fi
    [ ! -e "$modak_dir/$modak_this.trial.json" ] || export MODAK_LAUNCH_CONFIG="$modak_dir/$modak_this.trial.json"
    export MODAK_TRIAL="$modak_token"
    modak_exec "$modak_mark" setsid sh -c "$modak_inner" modak-trial "$$" "$modak_dir/code" "$modak_dir/$modak_trial_id" "$@"
  ) </dev/null >"$modak_dir/log" 2>&1 &
  modak_pid=$!
  modak_now
  modak_from=$modak_time
  modak_watch
  [ "$modak_this" != 0 ] || [ "$modak_gap" -le "$modak_gap_0" ] || modak_gap_0=$modak_gap
  modak_kill
  modak_now
  modak_took=$((modak_time - modak_trial))
  if [ "$modak_signal" = output ] && { [ "$modak_this.$modak_round" = 0.1 ] || [ "$modak_state" = measured ]; }; then
    modak_left=$((modak_trial + modak_cap - modak_time)) # of its time
    [ "$modak_left" -le 100 ] || modak_left=100
    [ "$modak_left" -ge 20 ] || modak_left=20
    head -c 4194304 "$modak_dir/log" 2>/dev/null | modak_read all "$modak_left" 2>/dev/null >"$modak_dir/values.$modak_this.$modak_round"
  fi
  [ "$modak_this" != 0 ] || [ "$modak_done" -le "${modak_reached:-0}" ] || modak_reached=$modak_done
  if [ "$modak_state" = measured ] && [ -n "$modak_ranks" ] && [ ! -e "$modak_dir/$modak_trial_id.ran" ]; then
    modak_state=unusable modak_reason='the ranks were not given the candidate: the image has no shell'
  fi
  if [ "$modak_state" = measured ] && ! modak_agrees; then
    modak_state=different modak_reason="its result differs from the default's"
  fi
}

modak_watch() { # follows the trial until its rate is known, it is beaten, ends, or its time is over
  modak_first_u='' modak_first_t='' modak_base_u='' modak_base_t='' modak_last_u=0 modak_looks=0 modak_parts=0 modak_times='' modak_known='' modak_gap=0
  modak_tail=65536
  while :; do
    modak_pause
    [ -z "$modak_stop" ] || return
    modak_looks=$((modak_looks + 1))
    modak_look
    if [ -e "$modak_dir/code" ]; then
      read -r modak_code <"$modak_dir/code"
      modak_now
      modak_whole=$((modak_time - modak_from)) modak_tail=1048576
      modak_look
      modak_progress
      if [ "$modak_code" != 0 ]; then
        modak_state=failed modak_reason="it ended with exit code $modak_code"
      elif [ "$modak_signal" = whole ]; then
        modak_state=measured modak_steady=$((modak_whole * 10000000)) modak_start=0 modak_done=1 modak_reason='a whole short run'
      else
        modak_judge_end
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
      if [ "$modak_state" = measured ] && modak_is_stuck; then modak_state=stopped modak_reason='it made no more progress'; fi
      return
    fi
    if [ $((modak_looks % 5)) = 1 ]; then
      modak_kib=$(modak_processes 'found += $22 * 4') # pages of 4 KiB; with others the limit is as much larger
      [ "${modak_kib:-0}" -le "$modak_memory" ] || modak_memory=$modak_kib
      if [ -n "$modak_most" ] && [ "$modak_memory" -gt "$modak_most" ]; then
        modak_state=failed modak_reason="its memory grew to $((modak_memory / 1024)) MiB"
        return
      fi
      modak_size=$(wc -c 2>/dev/null <"$modak_dir/log")
      if [ "$((${modak_size:-0}))" -gt 67108864 ]; then
        modak_state=failed modak_reason='its output exceeds 64 MiB'
        return
      fi
    fi
  done
}

modak_judge_end() { # of a trial that ended well; the default is the measure of how far that has to be
  if [ "$modak_this" = 0 ]; then
    modak_ended=$modak_done
  elif [ "$modak_signal" = output ]; then
    # Not what the document says: its units need not be the numbers that the program prints.
    modak_least=${modak_reached:-0}
    [ -z "$modak_ended" ] || modak_least=$((modak_ended * 19 / 20)) # a solver may need a few steps less
    if [ "$modak_done" -lt "$modak_least" ]; then
      modak_state=failed modak_reason="it ended after $modak_done units, and the default did $modak_least at least"
      return
    fi
  fi
  if [ -n "$modak_known" ]; then
    modak_state=measured modak_reason='it ended'
  elif [ "$modak_this" != 0 ] && modak_did_all; then
    # It did all of its work between two looks. With its start in that time, a unit takes less than this, and all of
    # them, the first one included, take as long as the whole.
    modak_state=measured modak_reason='it ended, and its whole time counts' modak_at_once=1
    modak_start=$((modak_whole / modak_units)) modak_steady=$((modak_whole * 10000000 / modak_units)) modak_done=$modak_units
  else
    modak_state=stopped modak_reason='it ended before its rate was known'
  fi
}

modak_did_all() { # did the trial print as many numbers of units as the program has, however it numbers them?
  [ "$modak_signal" = output ] && [ -n "$modak_units" ] || return 1
  modak_seen=$(head -c 1048576 "$modak_dir/log" | modak_read first 50)
  [ -n "$modak_seen" ] || return 1
  modak_seen=$((modak_u - ${modak_seen%% *} + 1))
  [ "$modak_seen" -ge $((modak_units * 19 / 20)) ] && [ "$modak_seen" -le $((modak_units * 21 / 20 + 1)) ]
}

modak_progress() { # takes what was seen last into account; sets modak_known and steady where there is a rate
  [ "$modak_u" -gt "$modak_last_u" ] || return 0
  modak_now
  [ "$modak_last_u" = 0 ] || [ $((modak_time - modak_last_at)) -le "$modak_gap" ] || modak_gap=$((modak_time - modak_last_at))
  modak_last_u=$modak_u modak_done=$modak_u modak_last_at=$modak_time
  if [ -z "$modak_first_u" ]; then
    modak_first_u=$modak_u modak_first_t=$modak_t modak_start=$modak_t
  elif [ -z "$modak_base_u" ]; then
    modak_base_u=$modak_u modak_base_t=$modak_t modak_part_u=$modak_u modak_part_t=$modak_t
  elif [ $((modak_t - modak_part_t)) -gt $((modak_window / 6)) ] && [ "$modak_parts" -lt 20 ]; then
    # Times of a unit in parts of the trial, which tell how much it varies.
    modak_times=$modak_times$(modak_micro $(((modak_t - modak_part_t) * 10000000 / (modak_u - modak_part_u)))),
    modak_part_u=$modak_u modak_part_t=$modak_t modak_parts=$((modak_parts + 1))
  fi
  if [ -n "$modak_s" ] && [ "$modak_u" -ge 2 ]; then # the launcher knows better
    modak_known=1 modak_steady=$modak_s modak_span=$((modak_t - modak_first_t))
    # Compilation in the first units is in the time of the first here.
    [ "$modak_looks" -le 0 ] || modak_start=$((modak_t - (modak_u - 1) * modak_s / 10000000))
    [ "$modak_start" -ge 0 ] || modak_start=0
  elif [ -n "$modak_base_u" ] && [ "$modak_u" -gt "$modak_base_u" ] && [ "$modak_t" -gt "$modak_base_t" ]; then
    modak_known=1 modak_span=$((modak_t - modak_base_t))
    modak_steady=$(((modak_t - modak_base_t) * 10000000 / (modak_u - modak_base_u)))
    modak_start=0 # a program may number its units from 10^11 on: the product of all before would exceed 63 bits
    if [ "$modak_steady" = 0 ] || [ $((modak_first_u - 1)) -le $((modak_first_t * 10000000 / modak_steady)) ]; then
      modak_start=$((modak_first_t - (modak_first_u - 1) * modak_steady / 10000000))
    fi
  fi
}

modak_is_beaten() { # by the best so far; sets state and reason
  # A second trial of the best one is slower by chance: that is measured, not given up.
  [ -n "$modak_best" ] && [ "$modak_this" != 0 ] && [ "$modak_this" != "$modak_best" ] || return 1
  if [ "$modak_signal" = whole ]; then
    [ "$((modak_age * 10000000))" -gt "$((modak_best_steady * 5 / 4))" ] || return 1
    modak_state=beaten modak_reason='it takes longer than the best so far' modak_steady=$((modak_age * 10000000)) modak_start=0
    return 0
  fi
  if [ -n "$modak_known" ]; then
    [ "$modak_span" -ge "$((modak_window / 3))" ] && [ "$modak_steady" -gt "$((modak_best_steady * 5 / 4))" ] || return 1
    modak_state=beaten modak_reason='it is slower than the best so far'
    return 0
  fi
  # As many units as the slowest start and three times the best one's time allow: it hangs, or compiles for too long.
  [ "$modak_age" -gt "$((3 * modak_best_start + 300 + 4 * modak_best_steady * 3 / 10000000))" ] || return 1
  modak_state=beaten modak_reason='no rate by three times the time of the best so far'
}

modak_is_stuck() { # has the candidate done nothing for much longer than between two units before, and than the default?
  [ "$modak_this" != 0 ] || return 1
  [ "$modak_gap" -ge "$modak_gap_0" ] || modak_gap=$modak_gap_0
  [ $((modak_time - modak_last_at)) -gt $((3 * modak_gap + 100)) ]
}

modak_loads() { # LIBRARIES: can the loader preload them?
  ! LD_PRELOAD=$1 sh -c : 2>&1 | grep -q 'cannot be preloaded'
}

modak_agrees() { # do the values of the trial agree with those of the default, of its first run?
  case $modak_v in nan) return 1 ;; esac
  [ "$modak_signal" = output ] && [ "$modak_this" != 0 ] || return 0
  modak_awk -v tolerance="$modak_tolerance" '
    NR == FNR { value[$1] = $2; next }
    $2 == "nan" { bad = 1 }
    $1 in value && $2 != "" && value[$1] != "" {
      difference = $2 - value[$1]; if (difference < 0) difference = -difference
      size = value[$1] < 0 ? -value[$1] : value[$1]
      worst = difference > tolerance * size + 1e-12 ? 1 : 0 # of the last common unit
    }
    END { exit (bad || worst) }' "$modak_dir/values.0.1" "$modak_dir/values.$modak_this.$modak_round" 2>/dev/null
}
