# shellcheck shell=sh
# Comes before submit.sh, for its mode 'again': puts the attempt that has ended aside as DIR/attempts/NUMBER, so that
# the job can be submitted anew. Standard input: the inputs, one path below DIR a line, that stay where they are.
#
# It is called with the lock, in DIR/state, and can be cut at any point: the id goes last, and while it is there nobody
# submits. The caller looks again, finds an ended job, and calls this again.

kept_attempts=5 # with their records and logs; what the application wrote is kept of the last one

put_aside() { # DIR ID,ID...
  if [ ! -s id ]; then # another run has done it, or the scheduler's answer was lost and the job's records tell of it
    begun "$1" || return 0
    printf 'modak-id %s\n' "${2%%,*}" >"id.$token" && durable "id.$token" && mv -f "id.$token" id && durable . ||
      fail "$1/state/id cannot be written"
  fi
  end_leftover "$1"
  number=1
  [ ! -f attempt ] || read -r number <attempt || fail "$1/state/attempt cannot be read"
  case $number in '' | *[!0-9]* | ???????*) fail "$1/state/attempt holds no number" ;; esac
  # The id goes last: where the attempt before has this job and no id, this was cut off once the number had been raised.
  is_counted='' before=../attempts/$((number - 1))
  if [ -d "$before" ] && [ ! -e "$before/id" ] && [ "$(tail -n 1 attempt)" = "${2##*,}" ]; then
    is_counted=yes number=$((number - 1))
  fi
  old=../attempts/$number
  mkdir -p ../attempts && chmod 700 ../attempts && mkdir -p "$old" ||
    fail "the folder $1/attempts/$number cannot be created"
  for file in intent refused start start.* exit exit.* run run.* timeout timeout.* stop stop.* launcher launcher.* \
    reserved.* claim* out.* err.* pid ../output.log* ../error.log* ../scheduler.log*; do
    # Links that lead nowhere and FIFOs too: a record of whatever kind says that a job has begun.
    { [ ! -e "$file" ] && [ ! -h "$file" ]; } || mv -f "$file" "$old/${file##*/}" || fail "$file cannot be moved to $1/attempts/$number"
  done
  if [ ! -e "$old/work" ]; then mv ../work "$old/work" || fail "$1/work cannot be moved to $1/attempts/$number"; fi
  # The launcher reads there what was being tried when this attempt ended.
  if [ -d ../launch/record ] && [ ! -e "$old/record" ]; then
    mv ../launch/record "$old/record" || fail "$1/launch/record cannot be moved to $1/attempts/$number"
  fi
  rm -f ../launch/trials
  # The next attempt reads there whether this one ended during its trials.
  if [ -f ../restart/record ] && [ ! -e "$old/restart.record" ]; then
    mv ../restart/record "$old/restart.record" || fail "$1/restart/record cannot be moved to $1/attempts/$number"
  fi
  chmod -R u+rwx ../restart/work 2>/dev/null
  rm -rf ../restart/work ../restart/progress ../restart/claim ../restart/code
  mkdir -p ../work || fail "the folder $1/work cannot be created"
  while IFS= read -r path; do
    [ -f "$old/$path" ] && [ ! -h "$old/$path" ] && [ ! -e "../$path" ] || continue
    mkdir -p "../${path%/*}" && mv "$old/$path" "../$path" || fail "$1/$path cannot be kept"
  done
  if [ -z "$is_counted" ]; then
    {
      printf '%d\n' "$((number + 1))"
      [ ! -f attempt ] || sed 1d attempt | tail -n 19
      printf '%s\n' "$2" | tr , '\n' # their scripts may write their ends late
    } >"attempt.$token" && mv -f "attempt.$token" attempt ||
      fail "$1/state/attempt cannot be written"
  fi
  durable attempt . .. ../attempts "$old" || fail "$1/attempts/$number cannot be written"
  mv -f id "$old/id" || fail "$1/state/id cannot be moved to $1/attempts/$number"
  durable . "$old" || fail "$1/attempts/$number cannot be written" # nobody may submit before this is on disk
  for file in ../attempts/*; do
    case ${file##*/} in *[!0-9]*) continue ;; esac
    [ "${file##*/}" = "$number" ] || erase "$file/work"
    [ "${file##*/}" -gt "$((number - kept_attempts))" ] || erase "$file"
  done
}
