# shellcheck shell=sh
# Which candidate is the fastest: a part of the runner of restart trials (restart.sh).

modak_score() { # START STEADY: prints the remaining time, or the time of a unit where units are unknown
  if [ -n "$modak_units" ] && [ "$modak_signal" != whole ]; then
    echo $(($1 * 10000000 + (modak_units - 1) * $2))
  else
    echo "$2"
  fi
}

modak_measure() { # CANDIDATE ROUND WINDOW WORD...: tries and records; fails where the budget does not allow it
  modak_spent
  # The trial's end, the copy's removal and the last trial of the default must fit in as well.
  modak_room=$((modak_budget - modak_used - 150 - modak_removal))
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
  modak_note "trial index=$modak_index round=$modak_turn state=$modak_state took=$modak_took start=$modak_start steady=${modak_steady:+$(modak_micro "$modak_steady")} units=$modak_done times=$modak_times code=$modak_code memory=$modak_memory load=$modak_load whole=$modak_at_once reason=$modak_reason"
  modak_say "$(modak_name "$modak_index"): $modak_state${modak_steady:+, $(modak_micro $((modak_steady / 1000))) ms a unit}: $modak_reason"
  return 0
}

modak_percent() { # PART WHOLE: prints 100 times the ratio; a hundred times three years in nanoseconds exceed 63 bits
  if [ "$1" -lt 90000000000000000 ] || [ "$2" -lt 100 ]; then echo $(($1 * 100 / $2)); else echo $(($1 / ($2 / 100))); fi
}

modak_keep_score() { # of the trial just made: the worst and the best score of each candidate
  modak_value=$(modak_score "$modak_start" "$modak_steady")
  [ "$modak_value" -gt 0 ] || modak_value=1
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

modak_take_into_account() { # of the trial just made: its score, or that its candidate is out
  eval "modak_old=\${modak_worst_$modak_index:-}"
  # What was slower this time, or did all of its work between two looks, is still better than the default perhaps.
  case $modak_state.${modak_old:+known}.${modak_steady:+rate}.$modak_code in
  measured.* | beaten.known.rate.*) modak_keep_score ;;
  stopped.known.*.0) ;;
  *) eval "modak_out_$modak_index=1" ;;
  esac
}

modak_ranked() { # prints the candidates that are better than the default by 2 %, the best first
  modak_i=1
  while [ "$modak_i" -lt "$modak_count" ]; do
    eval "modak_value=\${modak_worst_$modak_i:-}"
    eval "modak_old=\${modak_out_$modak_i:-}"
    if [ -n "$modak_value" ] && [ -z "$modak_old" ] && [ "$((modak_value + modak_value / 50))" -lt "$modak_worst_0" ]; then
      echo "$modak_value $modak_i"
    fi
    modak_i=$((modak_i + 1))
  done | sort -n | sed 's/^[^ ]* //'
}

modak_fit() { # lowers the budget to what the job's length permits, once the default's rate is known
  [ -n "$modak_units" ] && [ "$modak_signal" != whole ] || return 0
  modak_total=$(($(modak_score "$modak_start" "$modak_steady") / 10000000))
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
  modak_cost=$((modak_took + modak_removal)) modak_most=$((2 * modak_memory + 262144))
  [ "$modak_memory" -gt 0 ] || modak_most=
  modak_reserve=$((modak_cost + 50))
  modak_turn_now=1
  while [ "$modak_turn_now" -le "$modak_rounds" ]; do
    modak_n=$((modak_turn_now == 1 ? 1 : 0))
    while [ "$modak_n" -lt "$modak_count" ]; do
      eval "modak_old=\${modak_out_$modak_n:-}"
      if [ -z "$modak_old" ]; then
        modak_measure "$modak_n" "$modak_turn_now" "$modak_window" "$@" || break 2
        modak_take_into_account
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
      modak_take_into_account
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
    modak_take_into_account
    eval "[ -z \"\${modak_out_$modak_first:-}\" ] || modak_worst_$modak_first="
  fi
  [ -z "$modak_stop" ] || return
  modak_drift='' modak_margin=105
  if modak_measure 0 "$((modak_turn_now + 1))" "$modak_window" "$@" && [ "$modak_state" = measured ]; then
    modak_keep_score
    modak_drift=$(modak_percent "$modak_value" "$modak_old_default") modak_margin=102
  fi
  [ -z "$modak_stop" ] || return
  modak_spent
  eval "modak_value=\${modak_worst_$modak_first:-}"
  if [ -n "$modak_value" ] && [ "$((modak_value + modak_value * (modak_margin - 100) / 100))" -lt "$modak_least_0" ]; then
    modak_winner=$modak_first
    modak_gain=$(modak_percent "$modak_least_0" "$modak_value")
    modak_note "decided index=$modak_first gain=$modak_gain drift=$modak_drift spent=$modak_used reason=fastest of all that was tried"
    modak_say "the program runs with $(modak_name "$modak_first"), $((modak_gain / 100)).$(printf '%02d' $((modak_gain % 100))) times as fast as the default; the trials took $(modak_seconds "$modak_used")"
  else
    modak_winner=0
    modak_note "decided index=0 gain=100 drift=$modak_drift spent=$modak_used reason=measured again the best is not faster than the default"
    modak_say "the default stays: measured again the best is not faster; the trials took $(modak_seconds "$modak_used")"
  fi
}
