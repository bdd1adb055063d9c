# shellcheck shell=sh
# submit DIR TOKEN EXPECTED MODE TASKS WAIT LIMIT FIND SUBMIT: submit the job unless it has been submitted, in one step.
#
# EXPECTED is the token of the attempt that the caller knows of, empty for none: where the record holds another one,
# nothing is done, for another controller has been here. MODE says what to do:
#   ask      submit, unless the scheduler knows a job with this tag
#   sure     submit; the caller has looked at the jobs with this tag
#   id:ID    write down that the scheduler's answer to an earlier attempt was ID
#   again:ID,ID... put the attempt aside, whose jobs have these ids and have ended, and submit nothing; see again.sh
# TASKS are the suffixes of the records of an array's tasks as ranges (0-9:1,20-20:1), empty for a job that is none.
# WAIT is for how many seconds another controller that has the lock is waited for, LIMIT how many the scheduler may take.
#
# Before the scheduler is called all that the job's records need is on disk: the attempt in state/intent with what FIND
# printed, and room for the scheduler's answer, for the job's start and for its end. The scheduler writes its answer
# to the file that later is state/id, so that it is not lost where this shell is killed and what it started is not; the
# lock stays with that (see lock.sh). Killed in between, the step leaves an intent without id, and the next one finds
# the answer, the job's own records, or the job by its tag.

dir=$1 token=$2 expected=$3 mode=$4 tasks=$5 wait=$6 limit=$7 find=$8 submit=$9
cd "$dir/state" || fail "$dir/state is not there"

found='' found_code='' code='' current=

answer() { # OUTCOME
  lock_drop
  part outcome
  printf '%s' "$1"
  [ -z "$found_code" ] || { part found && printf '%s\n' "$found" && part found_code && printf '%s' "$found_code"; }
  for piece in out err; do # of this attempt, or of an earlier one that left no id
    [ ! -f "$piece.$current" ] || { part "$piece" && sed 's/ *$//' "$piece.$current"; }
  done
  [ -z "$code" ] || { part code && printf '%d' "$code"; }
  records "$dir"
  part end
  exit 0
}

settled() { [ -s id ] || begun "$dir"; }

# SIGKILL: what has not answered by then must be gone for certain.
bounded=
! command -v timeout >/dev/null 2>&1 || bounded="timeout -s KILL $limit"

ask() { # what does the scheduler know of this tag?
  # shellcheck disable=SC2086 # words or none
  found=$($bounded sh -c "$find" </dev/null 9>&-)
  found_code=$?
}

trap lock_drop EXIT
lock_open "$dir/state/lock"
waits=0
until lock_try; do
  ! settled || [ "$mode" != ask ] || answer known
  waits=$((waits + 1))
  [ "$waits" -le $((wait * lock_naps)) ] || answer busy
  lock_wait
done

if settled && { [ "$mode" = ask ] || [ "$mode" = sure ]; }; then answer known; fi
# One that is empty tells of no attempt: then the scheduler's word counts.
[ ! -f intent ] || read -r current rest <intent || [ -n "$current" ] || [ ! -s intent ] ||
  fail "$dir/state/intent cannot be read"
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
  if [ -n "$found" ] || [ "$found_code" != 0 ]; then answer found; fi
  ;;
sure) ask ;;
id:*)
  new=out.$current # room that was reserved for it
  [ -f "$new" ] && ! has_text "$new" || new=id.$token
  (fill "$new" "${mode#id:}") 2>/dev/null && durable "$new" && mv -f "$new" id && durable . ||
    fail "$dir/state/id cannot be written"
  rm -f "out.$current" "err.$current" "reserved.refused"
  answer known
  ;;
esac

room() { # keeps room on disk for all records of this attempt
  set -- "out.$token" "err.$token" reserved.refused
  if [ -z "$tasks" ]; then
    set -- "$@" reserved.start reserved.run reserved.exit
  fi
  ranges=$tasks
  while [ -n "$ranges" ]; do
    range=${ranges%%,*}
    case $ranges in *,*) ranges=${ranges#*,} ;; *) ranges='' ;; esac
    step=${range##*:} range=${range%:*}
    task=${range%-*} last=${range#*-}
    while [ "$task" -le "$last" ]; do
      set -- "$@" "reserved.start.$task" "reserved.run.$task" "reserved.exit.$task"
      task=$((task + step))
    done
  done
  { read -r node </proc/sys/kernel/hostname; } 2>/dev/null || node=$(uname -n)
  { reserve "$@" && printf '%s %s %s\n%s\n' "$token" "$(date +%s)" "$node" "$found" >"intent.$token" &&
    durable "$@" "intent.$token"; } 2>/dev/null || {
    rm -f "$@" "intent.$token"
    fail "there is no room for the records of the job in $dir/state, which take $((4 * ($# + 1))) KiB: the disk is full" \
      "or a quota is used up; nothing was submitted"
  }
}

# From here to the record of the answer the step must not die of a closed terminal or a lost connection.
trap 'signalled=yes' HUP INT TERM PIPE
room
lock_child
mv -f "intent.$token" intent && durable . "$dir" || fail "$dir/state/intent cannot be written"
[ -z "$current" ] || rm -f "out.$current" "err.$current"
current=$token
lock_held || answer busy # another controller took this one for gone
# shellcheck disable=SC2086 # words or none
(cd "$dir" && exec $bounded sh -c "$submit") 1<>"out.$token" 2<>"err.$token" </dev/null &
child=$!
lock_child "$child"
while :; do # a signal ends wait early
  signalled=
  wait "$child"
  code=$?
  [ -n "$signalled" ] || break
done
if [ "$code" = 0 ] && has_text "out.$token"; then
  durable "out.$token"
  mv -f "out.$token" id && durable . || fail "$dir/state/id cannot be written"
  rm -f "err.$token" reserved.refused
  answer submitted
fi
# It may be there all the same: ask again before anything is said.
case $code in
129 | 130 | 137 | 143) ;; # a command that was killed has refused nothing
*) (fill reserved.refused "$token $code") 2>/dev/null && mv -f reserved.refused refused && durable . ;;
esac
sleep 1
ask
answer refused
