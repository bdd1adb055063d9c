# shellcheck shell=sh
# Comes before submit.sh, for its mode 'again': puts the attempt that has ended aside as DIR/attempts/NUMBER, so that
# the job can be submitted anew. Standard input: the inputs, one path below DIR a line, that stay where they are.
#
# It is called with the lock, in DIR/state, and can be cut at any point: the id goes last, and while it is there nobody
# submits. The caller looks again, finds an ended job, and calls this again.

kept_attempts=5 # with their records and logs; what the application wrote is kept of the last one

# A plain machine: what was left of the job when its script was killed. Its processes carry its folder's name.
leftover() { # DIR
  for file in $(grep -lsF -e "MODAK_DIRECTORY=$1" /proc/[0-9]*/environ 2>/dev/null); do
    tr '\0' '\n' 2>/dev/null <"$file" | grep -Fqx -e "MODAK_DIRECTORY=$1" || continue
    [ -n "$(find "${file%/environ}" -prune -user "$(id -u)" 2>/dev/null)" ] || continue
    file=${file#/proc/}
    printf '%s ' "${file%/environ}"
  done
}

end_leftover() { # DIR
  signal=TERM tries=0
  while pids=$(leftover "$1") && [ -n "$pids" ]; do
    [ "$tries" -lt 10 ] || signal=KILL
    [ "$tries" -lt 15 ] || fail "the job has ended, but its process ${pids%% *} does not: no new attempt can be made"
    # shellcheck disable=SC2086 # process ids
    kill -s "$signal" $pids 2>/dev/null
    tries=$((tries + 1))
    sleep 1
  done
}

# A plain machine whose files another one shares knows nothing of the processes there: only a recorded end is certain.
# After a restart it knows that the job's processes are gone, but the record of their end may have been lost with them.
seen_here() { # DIR
  [ -f start ] && [ ! -f exit ] && grep -q '^boot=' start || return 0
  host=$(sed -n 's/^host=//p' start)
  [ "$host" = "$(uname -n)" ] || fail "the job was started on $host and has not written down its end; this is $(uname -n)," \
    "which cannot tell whether it still runs: deploy on $host, or remove $1 once it does not run any more"
  boot=$(cat /proc/sys/kernel/random/boot_id 2>/dev/null)
  [ "$(sed -n 's/^boot=//p' start)" = "$boot" ] || fail "the job was lost when $host was restarted, and it may have completed" \
    "before: look at $1/work, and deploy with force=true to run it again"
}

put_aside() { # DIR ID,ID...
  if [ ! -s id ]; then # another run has done it, or the scheduler's answer was lost and the job's records tell of it
    begun "$1" || return 0
    printf 'modak-id %s\n' "${2%%,*}" >"id.$token" && durable "id.$token" && mv -f "id.$token" id && durable . ||
      fail "$1/state/id cannot be written"
  fi
  seen_here "$1"
  end_leftover "$1"
  number=1
  [ ! -f attempt ] || read -r number <attempt || fail "$1/state/attempt cannot be read"
  case $number in '' | *[!0-9]* | ???????*) fail "$1/state/attempt holds no number" ;; esac
  old=../attempts/$number
  mkdir -p ../attempts && chmod 700 ../attempts && mkdir -p "$old" ||
    fail "the folder $1/attempts/$number cannot be created"
  for file in intent refused start start.* exit exit.* run run.* timeout timeout.* stop stop.* launcher launcher.* \
    reserved.* claim* out.* err.* pid ../output.log* ../error.log* ../scheduler.log*; do
    [ ! -f "$file" ] || mv -f "$file" "$old/${file##*/}" || fail "$file cannot be moved to $1/attempts/$number"
  done
  if [ ! -e "$old/work" ]; then mv ../work "$old/work" || fail "$1/work cannot be moved to $1/attempts/$number"; fi
  # The launcher reads there what was being tried when this attempt ended.
  if [ -d ../launch/record ] && [ ! -e "$old/record" ]; then
    mv ../launch/record "$old/record" || fail "$1/launch/record cannot be moved to $1/attempts/$number"
  fi
  rm -f ../launch/trials
  mkdir -p ../work || fail "the folder $1/work cannot be created"
  while IFS= read -r path; do
    [ -f "$old/$path" ] && [ ! -h "$old/$path" ] && [ ! -e "../$path" ] || continue
    mkdir -p "../${path%/*}" && mv "$old/$path" "../$path" || fail "$1/$path cannot be kept"
  done
  {
    printf '%d\n' "$((number + 1))"
    [ ! -f attempt ] || sed 1d attempt | tail -n 19
    printf '%s\n' "$2" | tr , '\n' # their scripts may write their ends late
  } >"attempt.$token" && mv -f "attempt.$token" attempt ||
    fail "$1/state/attempt cannot be written"
  durable attempt . .. ../attempts "$old" || fail "$1/attempts/$number cannot be written"
  mv -f id "$old/id" || fail "$1/state/id cannot be moved to $1/attempts/$number"
  durable . "$old" || fail "$1/attempts/$number cannot be written" # nobody may submit before this is on disk
  for file in ../attempts/*; do
    case ${file##*/} in *[!0-9]*) continue ;; esac
    [ "${file##*/}" = "$number" ] || rm -rf "$file/work"
    [ "${file##*/}" -gt "$((number - kept_attempts))" ] || rm -rf "$file"
  done
}
