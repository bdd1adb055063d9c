# shellcheck shell=sh
# several TOKEN SECONDS ITEMS PHASES PREPARE: carry out the steps of several jobs. Standard input is a tar archive with
# the scripts: ITEM.PHASE for each step, and what it gets by standard input as ITEM.PHASE.in. A phase begins when the one
# before has been carried out for all jobs; a job whose step fails takes no part in the next. After SECONDS no more
# steps are begun, except for the first job.
#
# Before the last phase the command PREPARE, where it is not empty, is run, and what it prints is named by
# $modak_listing for the steps that follow; where it fails the variable stays empty.

token=$1 seconds=$2 items=$3 phases=$4 prepare=$5
umask 077
parent=${TMPDIR:-/tmp}
new=$parent/modak-$token # nobody can guess the name, and mkdir fails where there is something
# What a call that was killed left behind a day ago or earlier.
find "$parent"/modak-???????????????? -prune -type d -user "$(id -u)" -mtime +0 -exec rm -rf {} + 2>/dev/null
mkdir "$new" 2>/dev/null || fail "no folder can be created in $parent"
trap 'cd / && rm -rf "$new"' EXIT
trap 'exit 1' HUP INT TERM PIPE
cd "$new" && tar -xof - || fail "the steps cannot be unpacked in $new"
over=$(($(date +%s) + seconds))
sync_files # once for all steps
modak_sync_kind=$sync_kind
export modak_sync_kind
modak_listing=
export modak_listing
phase=1
while [ "$phase" -le "$phases" ]; do
  if [ "$phase" = "$phases" ] && [ -n "$prepare" ] && sh -c "$prepare" >listing 2>/dev/null </dev/null; then
    modak_listing=$new/listing
  fi
  item=0
  while [ "$item" -lt "$items" ]; do
    step=$item.$phase
    # A clock that is set makes the rest wait for the next call, and nothing else.
    if [ -f "$step" ] && [ ! -e "failed.$item" ] && { [ "$item" = 0 ] || [ "$(date +%s)" -lt "$over" ]; }; then
      [ -f "$step.in" ] || : >"$step.in"
      part "step.$step"
      sh "./$step" <"$step.in" 2>error
      code=$?
      part step_code
      printf '%d' "$code"
      part step_said
      [ ! -s error ] || dd bs=65536 count=1 <error 2>/dev/null
      [ "$code" = 0 ] || : >"failed.$item"
    elif [ -f "$step" ]; then
      : >"failed.$item" # it has its turn in the next call
    fi
    item=$((item + 1))
  done
  phase=$((phase + 1))
done
part end
