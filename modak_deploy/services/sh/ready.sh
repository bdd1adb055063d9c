# shellcheck shell=sh
# ready WORKSPACE NAME HEALTH SECONDS TIMES [ADDRESS PORT USER FOLDER]...: wait for at most SECONDS until each of these, which the
# jobs in the folders of these names have started, was ready TIMES times in a row, without a new start in between.
# HEALTH is the path of an HTTP request, or tcp. Where USER is "own", only what a process of this user listens on is ready:
# another user may have taken the port of a program that has ended. "any" is for containers, whose users have other numbers.

service_open "$1" "$2"
health=$3 seconds=$4 times=$5
shift 5
me=$(id -u)
case $(wget --version 2>/dev/null) in # BusyBox has few of its options
*"GNU Wget"*) wget_once='-t 1 --max-redirect=0' ;;
*) wget_once='' ;;
esac

get() { # ADDRESS PORT: is the answer's status one of 200 to 299?
  case $1 in *:*) host="[$1]" ;; *) host=$1 ;; esac
  if command -v curl >/dev/null 2>&1; then
    code=$(curl -q -s -g -o /dev/null -w '%{http_code}' --max-time 5 --noproxy '*' "http://$host:$2$health" 2>/dev/null)
  elif command -v wget >/dev/null 2>&1; then
    # shellcheck disable=SC2086 # one word for each option
    wget -q -O /dev/null -T 5 $wget_once "http://$host:$2$health" >/dev/null 2>&1 && code=200 || code=0
  else
    # shellcheck disable=SC2016 # for bash
    code=$(bash -c 'exec 3<>"/dev/tcp/$0/$1" && printf "GET %s HTTP/1.0\r\nHost: %s\r\n\r\n" "$2" "$0" >&3 &&
      read -r -t 5 _ code _ <&3 && printf %s "$code"' "$1" "$2" "$health" 2>/dev/null)
  fi
  case $code in 2[0-9][0-9]) ;; *) return 1 ;; esac
}

is_ready() { # ADDRESS PORT USER FOLDER: sets child
  child=$(child_of "$4") && job_lives "$4" || return 1
  case $3 in own) listens "$2" "$me" ;; *) listens "$2" ;; esac || return 1
  [ "$health" = tcp ] || get "$1" "$2"
}

check() { # ADDRESS PORT USER FOLDER...: sets all to whether all of them were ready often enough
  all=yes number=0
  while [ "$#" -gt 0 ]; do
    [ "$(date +%s)" -le "$latest" ] || { all='' && break; } # an answer may take 5 seconds, of each of many
    eval "before=\${child_$number-} row=\${row_$number:-0}"
    if is_ready "$1" "$2" "$3" "$4"; then
      [ "$child" = "$before" ] || row=0
      row=$((row + 1))
    else
      row=0
    fi
    eval "child_$number=\$child row_$number=$row"
    [ "$row" -ge "$times" ] || all=
    number=$((number + 1))
    shift 4
  done
}

end=$(($(date +%s) + seconds))
latest=$((end + 200)) # each is looked at once, within the time that a step may take
while check "$@" && [ -z "$all" ] && [ "$(date +%s)" -lt "$end" ]; do
  latest=$end
  nap 0.4
done
number=0
while [ "$#" -gt 0 ]; do
  part "replica$number"
  eval "row=\${row_$number:-0}"
  [ "$row" -lt "$times" ] || part ready
  ! job_lives "$4" || part runs
  [ ! -f "$workspace/runs/$4/supervise/restarts" ] || { part restarts && head -c 64 "$workspace/runs/$4/supervise/restarts"; }
  ! listens "$2" || {
    part listens
    [ "$3" != own ] || listens "$2" "$me" || part foreign
  }
  number=$((number + 1))
  shift 4
done
part end
