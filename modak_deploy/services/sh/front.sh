# shellcheck shell=sh
# front WORKSPACE NAME REVISION TOKEN HAPROXY FOLDER: have HAProxy, which the job in the folder of that name has started, use
# the configuration on standard input. It is checked before it is put in place. HAProxy's master starts a new worker with
# it on SIGUSR2, hands the open sockets to that, and lets the old one complete its requests (management.txt of 2.6, 4).
#
# The answer has one of the parts
#   changed    the record has another revision; nothing was done
#   invalid    HAProxy refuses the configuration; nothing was done
#   placed     it is in place for a HAProxy that does not run yet
#   loaded     it is in use already
#   switched   it is in use from now on, in place of another one
#   reloaded   it is in use from now on; it was in place before, but whether in use is not known, as after a new start
#   stays      HAProxy goes on with the one before, which is in its place again for when HAProxy is started anew

service_open "$1" "$2"
token=$4 haproxy=$5 folder=$6
service_there "$3"
service_lock "$dir/lock"
service_check "$3"

answer() { # NAME
  part "$1"
  part end
  exit 0
}

stays() { # which configuration is in use is not known from now on: one that is late may be loaded yet
  rm -f loaded
  [ -z "$differs" ] || [ ! -f haproxy.cfg.before ] || mv -f haproxy.cfg.before haproxy.cfg
  answer stays
}

mkdir -p "$dir/front" && cd "$dir/front" || fail "the folder $dir/front cannot be made"
cat >"haproxy.cfg.$token" || fail "nothing can be written to $dir/front: is the disk full?"
if ! problem=$("$haproxy" -c -f "haproxy.cfg.$token" 2>&1 </dev/null); then
  rm -f "haproxy.cfg.$token"
  part invalid
  printf '%s' "$problem" | head -c 4000
  part end
  exit 0
fi
digest=$(sum_of "haproxy.cfg.$token") differs=
if [ -f haproxy.cfg ] && cmp -s "haproxy.cfg.$token" haproxy.cfg; then
  rm -f "haproxy.cfg.$token"
else
  differs=1
  rm -f haproxy.cfg.before
  [ ! -f haproxy.cfg ] || ln haproxy.cfg haproxy.cfg.before 2>/dev/null || cp haproxy.cfg haproxy.cfg.before
  durable "haproxy.cfg.$token" && mv -f "haproxy.cfg.$token" haproxy.cfg && durable . ||
    fail "$dir/front/haproxy.cfg cannot be written: is the disk full?"
fi
master=$(child_of "$folder") || answer placed
used=
[ ! -f loaded ] || used=$(cat loaded)
[ "$used" != "$master ${digest%% *}" ] || answer loaded
outcome=reloaded
[ -z "$differs" ] && [ "${used%% *}" != "$master" ] || outcome=switched
before=" $(workers_of "${master%%.*}")"
kill -s USR2 "${master%%.*}" || stays
tries=0
while [ "$tries" -lt 50 ]; do
  nap 0.2
  tries=$((tries + 1))
  for worker in $(workers_of "${master%%.*}"); do
    case $before in *" $worker "*) continue ;; esac
    nap 0.5
    kill -0 "$worker" 2>/dev/null || continue
    printf '%s %s\n' "$master" "${digest%% *}" >"loaded.$token" && mv -f "loaded.$token" loaded
    answer "$outcome"
  done
done
stays
