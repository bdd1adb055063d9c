# shellcheck shell=sh
# restart_rank.sh DIR CANDIDATE WORD...: become the program (WORD...) on one rank, with what a candidate exports. DIR is
# the job's folder as it is seen here. CANDIDATE is its number; in a trial NUMBER:TRIAL:SECONDS, where DIR/restart/TRIAL
# is there as long as the trial lasts, which is for so many seconds at most.
#
# The runner cannot reach processes on other nodes: each rank has a watch beside it, which ends what is left of the trial
# on its node. Launchers end their ranks themselves; srun that is killed without notice leaves them behind.
modak_job=$1 modak_candidate=$2
shift 2
modak_dir=$modak_job/restart modak_number=${modak_candidate%%:*}
case $modak_number in '' | 0 | *[!0-9]*) ;; *)
  # shellcheck disable=SC1090
  . "$modak_dir/$modak_number.sh"
  # shellcheck disable=SC1090
  [ ! -e "$modak_dir/$modak_number.words" ] || . "$modak_dir/$modak_number.words" ;;
esac
# Not all that the runner exports comes here: an mpirun need not hand it on to other nodes, and no container takes it in.
case $modak_candidate in
*:*:*) modak_config=$modak_dir/$modak_number.trial.json ;;
0) modak_config='' ;;
*) modak_config=$modak_dir/$modak_number.json ;;
esac
[ ! -e "$modak_config" ] || export MODAK_LAUNCH_CONFIG="$modak_config"
case $modak_candidate in *:*:*) ;; *) exec "$@" ;; esac
cd "$modak_dir/work" || exit 125 # a container starts in the job's working directory, wherever its launcher is
modak_left=${modak_candidate##*:} modak_trial=${modak_candidate#*:}
modak_trial=${modak_trial%:*}
(: >"$modak_dir/$modak_trial.ran") 2>/dev/null
# Started twice, it is no child of the program, which may wait for all of its own. It ends with the rank: MPICH's Hydra
# (4.0) hands pipes and sockets on, by numbers that dash cannot close, and mpirun ends when nobody holds them any more.
(
  (
    trap '' HUP INT TERM
    cd / || exit
    modak_left=$((modak_left * 5))
    while [ -e "$modak_dir/$modak_trial" ] && [ "$modak_left" -gt 0 ]; do
      sleep 0.2 2>/dev/null || { sleep 1; modak_left=$((modak_left - 4)); }
      { read -r modak_line <"/proc/$$/stat"; } 2>/dev/null || exit
      case ${modak_line##*\) } in [ZX]*) exit ;; esac # its launcher waits for it once the pipes are closed
      modak_left=$((modak_left - 1))
    done
    # shellcheck disable=SC2013 # names of /proc
    for modak_file in $(grep -lsF -e "MODAK_TRIAL=$modak_job.$modak_trial" /proc/[0-9]*/environ 2>/dev/null); do
      modak_file=${modak_file#/proc/}
      kill -s KILL "${modak_file%/environ}" 2>/dev/null
    done
  ) </dev/null >/dev/null 2>&1 &
)
export MODAK_TRIAL="$modak_job.$modak_trial"
if [ -e "$modak_dir/pattern" ]; then
  export PYTHONUNBUFFERED=1
  ! command -v stdbuf >/dev/null 2>&1 || set -- stdbuf -oL "$@"
fi
exec "$@"
