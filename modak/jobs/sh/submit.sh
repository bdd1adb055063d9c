# shellcheck shell=sh
# submit DIR TOKEN EXPECTED MODE FIND SUBMIT: submit the job unless it has been submitted, in one step.
#
# EXPECTED is the token of the attempt that the caller knows of, empty for none: where the record holds another one,
# nothing is done, for another controller has been here. MODE says what to do:
#   ask      submit, unless the scheduler knows a job with this tag
#   sure     submit; the caller has looked at the jobs with this tag
#   id:ID    write down that the scheduler's answer to an earlier attempt was ID
#   again:ID put the attempt aside, the job ID that has ended, and submit nothing; see again.sh
# The attempt is written to state/intent before, with what FIND printed, and the scheduler's answer to state/id after.
# Killed in between, the step leaves an intent without id, and the next one finds the job by its tag.

dir=$1 token=$2 expected=$3 mode=$4 find=$5 submit=$6
limit=120 # seconds for the scheduler to take the job
stale=300 # seconds after which a lock made on another host is nobody's: longer than any step lives
cd "$dir/state" || fail "$dir/state is not there"
host=$(uname -n)
lock=0 locked=

answer() { # OUTCOME
  [ -z "$locked" ] || : >"free.$lock"
  part outcome
  printf '%s' "$1"
  part now
  date +%s
  for piece in found found_code found_err out code err; do
    [ ! -f "$piece.$token" ] || { part "$piece" && cat "$piece.$token"; }
  done
  rm -f "found.$token" "found_code.$token" "found_err.$token" "out.$token" "code.$token" "err.$token"
  records "$dir"
  part end
  exit 0
}

# A lock is a symbolic link whose target names its owner: made whole by one call, on NFS too. Locks are numbered and
# stay; the highest counts. So a lock that is nobody's any more can be followed, and is never removed by two at once.
held() { # whether lock number $lock is somebody's
  [ ! -e "free.$lock" ] || return 1
  owner=$(ls -ld "lock.$lock" 2>/dev/null)
  owner=${owner##* -> }
  since=${owner##*:} pid=${owner%:*}
  pid=${pid##*:}
  case $owner in
  "$host:"*) kill -0 "$pid" 2>/dev/null ;;
  *) [ $(($(date +%s) - since)) -lt "$stale" ] ;;
  esac
}

trap '[ -z "$locked" ] || : >"free.$lock"' EXIT
tries=0
while [ -z "$locked" ]; do
  [ ! -s id ] || [ "$mode" != ask ] || answer known
  while [ -h "lock.$((lock + 1))" ]; do lock=$((lock + 1)); done
  if [ "$lock" -gt 0 ] && held; then
    tries=$((tries + 1))
    [ "$tries" -le 3 ] || answer busy
    sleep 1
  elif ln -s "$host:$$:$(date +%s)" "lock.$((lock + 1))" 2>/dev/null; then
    lock=$((lock + 1)) locked=yes
  elif [ ! -h "lock.$((lock + 1))" ]; then
    fail "no lock can be made in $dir/state"
  fi
done

ask() { # what does the scheduler know of this tag?
  sh -c "$find" >"found.$token" 2>"found_err.$token" </dev/null
  printf '%d' "$?" >"found_code.$token"
}

current=
[ ! -f intent ] || read -r current rest <intent || [ -n "$current" ] || fail "$dir/state/intent cannot be read"
if [ -s id ] && [ "$mode" = ask ]; then answer known; fi
if [ "$current" != "$expected" ]; then
  ask
  answer changed
fi
case $mode in
again:*)
  put_aside "$dir" "${mode#again:}"
  answer again
  ;;
ask)
  ask
  if [ -s "found.$token" ] || [ "$(cat "found_code.$token")" != 0 ]; then answer found; fi
  ;;
sure)
  [ ! -s id ] || answer known
  ask
  ;;
id:*)
  printf '%s\n' "${mode#id:}" >"id.$token" && mv -f "id.$token" id || fail "$dir/state/id cannot be written"
  answer known
  ;;
esac

# From here to the record of the answer the step must not die of a closed terminal or a lost connection.
trap 'signalled=yes' HUP INT TERM PIPE
{ printf '%s %s %s\n' "$token" "$(date +%s)" "$host" && cat "found.$token"; } >"intent.$token" &&
  mv -f "intent.$token" intent || fail "$dir/state/intent cannot be written"
# A process group of its own, with an end: the scheduler's answer is never awaited for longer than a lock may live.
bounded=
! command -v timeout >/dev/null 2>&1 || bounded="timeout $limit"
# shellcheck disable=SC2086 # two words or none
(cd "$dir" && exec $bounded sh -c "$submit") >"out.$token" 2>"err.$token" </dev/null &
child=$!
while :; do # a signal ends wait early
  signalled=
  wait "$child"
  code=$?
  [ -n "$signalled" ] || break
done
printf '%d' "$code" >"code.$token"
if [ "$code" = 0 ] && [ -s "out.$token" ]; then
  cp "out.$token" "id.$token" && mv -f "id.$token" id || fail "$dir/state/id cannot be written"
  answer submitted
fi
# It may be there all the same: ask again before anything is said.
printf '%s %d\n' "$token" "$code" >"refused.$token" && mv -f "refused.$token" refused
sleep 1
ask
answer refused
