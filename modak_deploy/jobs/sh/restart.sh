# shellcheck shell=sh
# restart.sh DIR DROP WORD...: try candidates by starting the program (WORD...) with each, then become the program with
# the best one. DIR is the job's folder as it is seen here, which may be inside a container. The last DROP words are
# the program's arguments, in whose place others may stand for a short run.
#
# The runner is this file behind its parts (restart_processes.sh, restart_trial.sh, restart_search.sh), which hold
# functions alone. With several ranks it stands before their launcher, WORD... has the launcher's words too, and the first
# word @modak-candidate@ is where restart_rank.sh, which starts the program on each rank, is given the candidate.
#
# DIR/restart holds: settings (see below), N.sh (what candidate N exports; 0 is the chosen one, the default of the
# trials), N.words (what N's command line ends with), names, trial.sh (arguments of the short run), *.awk and pattern. The record, in which each line is written
# when it happens, is read by modak_deploy/jobs/restarted.py. All times are centiseconds, and those of one unit nanoseconds; in the
# record they are microseconds.
#
# Whatever goes wrong here, the program runs as the Plan starts it.
modak_dir=$1 modak_job=$1
modak_dir=$modak_dir/restart modak_drop=$2
shift 2
modak_signal=output modak_budget=0 modak_share='' modak_units='' modak_ended='' modak_reached='' modak_wall='' modak_count=0 modak_rounds=1 modak_only=''
modak_ranks=''
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
modak_note() { printf '%s\n' "$1" 2>/dev/null >>"$modak_dir/record"; }
modak_name() { sed -n "$(($1 + 1))p" "$modak_dir/names"; }
modak_seconds() { printf '%d.%02d s' $(($1 / 100)) $(($1 % 100)); }
modak_micro() { printf '%d.%03d' $(($1 / 1000)) $(($1 % 1000)); } # a thousandth, as of nanoseconds in microseconds
modak_pause() { sleep 0.1 2>/dev/null || sleep 1; } # POSIX's sleep knows whole seconds only
modak_awk() { LC_ALL=C awk "$@"; } # mawk (1.3.4) reads and writes a comma for the point where the locale has one
modak_spent() { # sets modak_used to what the trials took so far
  modak_now
  modak_used=$((modak_time - modak_began))
}

modak_exec() { # CANDIDATE WORD...: become the words; ranks are given the candidate in place of the first mark for it
  if [ -z "$1" ]; then # thousands of words would take seconds one by one
    shift
    exec "$@"
  fi
  modak_mark=$1 modak_left=$(($# - 1))
  shift
  while [ "$modak_left" -gt 0 ]; do
    modak_word=$1 modak_left=$((modak_left - 1))
    shift
    if [ "$modak_word" = @modak-candidate@ ] && [ -n "$modak_mark" ]; then modak_word=$modak_mark modak_mark=; fi
    set -- "$@" "$modak_word"
  done
  exec "$@"
}

modak_run() { # CANDIDATE WORD...: become the program with a candidate
  modak_number=$1
  shift
  if [ -z "$modak_ranks" ] && [ "$modak_number" != 0 ]; then
    # shellcheck disable=SC1090
    . "$modak_dir/$modak_number.sh"
    # shellcheck disable=SC1090
    [ ! -e "$modak_dir/$modak_number.words" ] || . "$modak_dir/$modak_number.words"
    [ ! -e "$modak_dir/$modak_number.json" ] || export MODAK_LAUNCH_CONFIG="$modak_dir/$modak_number.json"
  fi
  modak_exec "${modak_ranks:+$modak_number}" "$@"
}

modak_allowed() { # why nothing may be tried here, if so
  command -v setsid >/dev/null 2>&1 || { echo 'the program setsid is not there'; return; }
  if [ ! -r /proc/uptime ] || [ ! -r "/proc/$$/stat" ]; then echo '/proc is not there' && return; fi
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

# The program's words, for whoever carries on where this shell ends within a function.
modak_words=0
for modak_word in "$@"; do
  modak_words=$((modak_words + 1))
  eval "modak_word_$modak_words=\$modak_word"
done

modak_rescue() { # this shell ends, and nobody has asked it to: dash does where no more processes may be started
  trap - EXIT
  if [ -n "$modak_pid" ]; then
    kill -s KILL -- "-$modak_pid" "$modak_pid" 2>/dev/null
    wait "$modak_pid" 2>/dev/null
  fi
  modak_now
  modak_until=$((modak_time + 50))
  while [ "$modak_time" -lt "$modak_until" ]; do modak_now; done # until what was killed is gone
  modak_note 'end spent= reason=the trials were cut off by an error'
  unset modak_pattern
  set --
  while [ "$#" -lt "$modak_words" ]; do eval "set -- \"\$@\" \"\$modak_word_$(($# + 1))\""; done
  modak_become "$modak_winner" "$@"
}

modak_stop='' modak_own='' modak_pid='' modak_copy='' modak_removal=0 modak_gap_0=0 modak_winner=0 modak_trial_id='' modak_token=- modak_wall_left=
modak_pattern=$modak_dir/pattern
export modak_pattern
# /proc names folders as they are without links.
modak_pattern_work=$( (cd "$modak_dir" && pwd -P) | sed 's/[][\.*^$|]/\\&/g')/work
modak_worst_0=0 modak_least_0=''
modak_now
modak_began=$modak_time
if mkdir "$modak_dir/claim" 2>/dev/null; then
  trap 'modak_stop=1' TERM INT HUP USR1 USR2 XCPU
  trap modak_rescue EXIT
  modak_own=$modak_dir/claim/$$.$modak_time # it goes with the claim where this attempt is given up: see again.sh
  mkdir "$modak_own" 2>/dev/null || modak_own=
  # A redirection that fails ends the shell that carries out ':', which is why another one does.
  modak_why='no record can be written'
  ! (: >"$modak_dir/record") 2>/dev/null || modak_why=$(modak_allowed)
  modak_note "begin budget=$modak_budget count=$modak_count"
  [ -z "$modak_wall" ] || modak_wall_left=$((modak_wall - $(modak_elapsed)))
  if [ -n "$modak_why" ]; then modak_ends "$modak_why"; else modak_search "$@"; fi
  if [ -n "$modak_stop" ]; then
    modak_clean
    modak_note 'end spent= reason=the job was ended during its trials'
    trap - EXIT
    exit 143
  fi
else # another task of the array tries, or has tried: what it has decided by now holds
  modak_winner=$(sed -n 's/^decided index=\([0-9]*\) .*/\1/p' "$modak_dir/record" 2>/dev/null | head -n 1)
  [ -z "$modak_only" ] || exit 0
  unset modak_pattern
  modak_run "${modak_winner:-0}" "$@"
fi
unset modak_pattern
modak_become "$modak_winner" "$@"
