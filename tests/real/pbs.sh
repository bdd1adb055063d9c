#!/usr/bin/env bash
# Sets up real Torque and OpenPBS from their published sources and Grid Engine from Debian's packages, each on three hosts
# in namespaces: a server, which is the login node too, and two nodes. README.md beside this file says how to use it.
set -euo pipefail
NAME=pbs
PROGRAMS="sshd ssh ssh-keygen ip nsenter unshare setpriv git gcc g++ make autoconf automake libtoolize bison flex swig python3-config psql pg_config"
PACKAGES=(build-essential libboost-dev libxml2-dev libssl-dev libtool libtool-bin automake autoconf bison flex
  libedit-dev libhwloc-dev libical-dev swig python3-dev postgresql libpq-dev tcl-dev tk-dev libexpat1-dev zlib1g-dev
  openssh-server openssh-client iproute2 util-linux git)
# shellcheck source=tests/real/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd / # where every host can go

LINK=$BUILD/pbs
BUILT=${MODAK_PBS_BUILT:-/opt/modak-pbs} # outlives "down": the same for all checkouts. Not below /var/tmp: the daemons refuse that
SYSTEMS=gridengine # Debian has packages of it; of torque and openpbs those whose sources are there
[ -z "${MODAK_TORQUE_SOURCE:-}" ] || SYSTEMS="$SYSTEMS torque"
[ -z "${MODAK_OPENPBS_SOURCE:-}" ] || SYSTEMS="$SYSTEMS openpbs"
[ -z "${MODAK_PBS_ONLY:-}" ] || SYSTEMS=$MODAK_PBS_ONLY

source_of() { case $1 in gridengine) echo debian ;; torque) echo "$MODAK_TORQUE_SOURCE" ;; openpbs) echo "$MODAK_OPENPBS_SOURCE" ;; esac; }
state_of() { case $1 in gridengine) echo state ;; torque) echo spool ;; openpbs) echo home ;; esac; } # below the prefix, each host's own
hosts_of() { case $1 in gridengine) echo ges ge1 ge2 ;; torque) echo tqs tq1 tq2 ;; openpbs) echo obs ob1 ob2 ;; esac; }
system_of() { case $1 in ge*) echo gridengine ;; tq*) echo torque ;; ob*) echo openpbs ;; esac; }
address_of() {
  case $1 in
    tqs) echo 10.78.0.10 ;; tq1) echo 10.78.0.11 ;; tq2) echo 10.78.0.12 ;;
    ges) echo 10.78.0.30 ;; ge1) echo 10.78.0.31 ;; ge2) echo 10.78.0.32 ;;
    obs) echo 10.78.0.20 ;; ob1) echo 10.78.0.21 ;; ob2) echo 10.78.0.22 ;; # OpenPBS refuses 127.x
  esac
}

# --- what is built once -------------------------------------------------------------------------------------------

check_sources() {
  local system source
  for system in $SYSTEMS; do
    [ "$system" != gridengine ] || continue
    source=$(source_of "$system")
    [ -e "$source/configure.ac" ] || cannot "$source holds no sources of $system"
  done
}

prefix_of() { # SYSTEM: where it is installed, by what it is made from and with
  local source sum
  source=$(source_of "$1")
  if [ "$1" = gridengine ]; then
    sum=$(apt-cache policy gridengine-master | sed -n 's/^ *Candidate: //p')
  elif [ -e "$source/.git" ]; then
    sum=$(git -C "$source" -c safe.directory='*' rev-parse 'HEAD^{tree}')
  else
    sum=$(cd "$source" && find . -type f -print0 | LC_ALL=C sort -z | xargs -0 cat | cksum)
  fi
  sum=$({ echo "$sum" && cat "$HERE/pbs/build.sh" && sed -n 's/^\(ID\|VERSION_ID\)=//p' /etc/os-release; uname -m; } | sha256sum)
  echo "$BUILT/$1-${sum:0:12}"
}

build() {
  local system prefix
  for system in $SYSTEMS; do
    prefix=$(prefix_of "$system")
    [ ! -e "$prefix/complete" ] || continue
    say "building $system in $prefix; this takes 5 to 20 minutes, once"
    as_root mkdir -p "$BUILT"
    as_root chmod 755 "$BUILT"
    logged "build-$system" as_root flock "$BUILT" "$HERE/pbs/build.sh" "$system" "$(source_of "$system")" "$prefix"
  done
}

# --- what belongs to this checkout --------------------------------------------------------------------------------

DIR=
USER_NAME=
recall() { # sets DIR, USER_NAME and SYSTEMS when this checkout has one
  DIR=$(readlink "$LINK" 2>/dev/null) && [ -d "$DIR" ] && USER_NAME=$(cat "$DIR/etc/user" 2>/dev/null) &&
    UP=$(cat "$DIR/etc/systems" 2>/dev/null)
}

prefix_up() { cat "$DIR/etc/prefix.$1"; } # SYSTEM

fill_in() { # TEMPLATE
  sed -e "s|@DIR@|$DIR|g" -e "s|@USER@|$USER_NAME|g" -e "s|@SUDO@|$SUDO|g" "$HERE/templates/pbs/$1.in"
}

make_folder() {
  local system host
  new_folder pbs
  claim_any pbs modakq
  as_root mkdir -p "$DIR"/{etc,keys,log,run,hosts,spool,home/.ssh,client}
  echo "$USER_NAME" | as_root tee "$DIR/etc/user" >/dev/null
  echo "$SYSTEMS" | as_root tee "$DIR/etc/systems" >/dev/null
  {
    echo 127.0.0.1 localhost
    for host in tqs tq1 tq2 obs ob1 ob2 ges ge1 ge2; do echo "$(address_of $host) $host"; done
  } | as_root tee "$DIR/etc/hosts" >/dev/null
  fill_in sshd_config | as_root tee "$DIR/etc/sshd_config" >/dev/null
  fill_in enter | as_root tee "$DIR/enter" >/dev/null
  as_root chmod 755 "$DIR/enter"
  fill_in ssh_config | as_root tee "$DIR/client/ssh_config" >/dev/null
  fill_in inventory.yml | as_root tee "$DIR/client/inventory.yml" >/dev/null
  for system in $SYSTEMS; do
    prefix_of "$system" | as_root tee "$DIR/etc/prefix.$system" >/dev/null
    for host in $(hosts_of "$system"); do as_root cp -a "$(prefix_up "$system")/$(state_of "$system")" "$DIR/spool/$host"; done
  done
  as_root chmod 700 "$DIR/keys"
  for host in tqs obs ges; do
    as_root ssh-keygen -q -t ed25519 -N '' -C "$host" -f "$DIR/keys/$host"
    echo "$host $(as_root cut -d' ' -f1,2 "$DIR/keys/$host.pub")"
  done | as_root tee "$DIR/client/known_hosts" >/dev/null
  as_root ssh-keygen -q -t ed25519 -N '' -C 'modak test user' -f "$DIR/client/id_ed25519"
  as_root cp "$DIR/client/id_ed25519.pub" "$DIR/home/.ssh/authorized_keys"
  as_root chown -R "$USER_NAME:" "$DIR/home"
  as_root chown -R "$(id -un):" "$DIR/client" # who runs the tests logs in with them
  as_root chmod 700 "$DIR/home/.ssh"
}

# --- hosts --------------------------------------------------------------------------------------------------------

pid_of() { # HOST: the machine's number for its first process, when that is alive and ours
  local pid
  pid=$(cat "$DIR/run/$1.host" 2>/dev/null) || return 1
  as_root grep -qsz "^MODAK_PBS_HOST=$DIR/$1\$" "/proc/$pid/environ" && echo "$pid"
}

inside() { # HOST COMMAND...
  pid_of "$1" >/dev/null || fail "the host $1 is not there"
  "$DIR/enter" "$@"
}

start_host() { # HOST: becomes the host's first process
  local system prefix=none state=none
  system=$(system_of "$1")
  [ -z "$system" ] || prefix=$(prefix_up "$system") state=$(state_of "$system")
  # shellcheck disable=SC2016 # for the inner shell
  exec $SUDO sh -c 'exec >"$1" 2>&1 && shift && exec "$@"' sh "$DIR/log/host.$1" \
    env -i PATH="$PATH" MODAK_PBS_HOST="$DIR/$1" \
    setsid unshare --net --uts --ipc --mount --pid --fork --kill-child -- \
    "$HERE/pbs/host.sh" "$DIR" "$1" "$prefix" "$state" </dev/null >/dev/null 2>&1
}

hosts() { # all of those that are up, the switch between them first
  local system
  echo switch
  for system in $UP; do hosts_of "$system"; done
}

start_hosts() {
  local host why deadline=$((SECONDS + 20))
  for host in $(hosts); do start_host "$host" & done
  for host in $(hosts); do
    until pid_of "$host" >/dev/null; do
      if [ -s "$DIR/log/host.$host" ] || [ $SECONDS -ge $deadline ]; then
        why=$(head -n 1 "$DIR/log/host.$host")
        stop
        cannot "the namespaces of the host $host cannot be made: $why"
      fi
      sleep 0.05
    done
  done
  inside switch ip link add br0 type bridge
  inside switch ip link set br0 up
  for host in $(hosts); do
    [ "$host" != switch ] || continue
    inside "$host" ip link set lo up
    as_root ip link add eth0 netns "$(pid_of "$host")" type veth peer name "$host" netns "$(pid_of switch)"
    inside switch ip link set "$host" master br0 up
    inside "$host" ip addr add "$(address_of "$host")/24" dev eth0
    inside "$host" ip link set eth0 up
  done
}

# --- daemons ------------------------------------------------------------------------------------------------------

daemons_of() {
  case $1 in
    torque) echo trqauthd:tqs pbs_server:tqs pbs_sched:tqs pbs_mom:tq1 pbs_mom:tq2 ;;
    gridengine) echo sge_qmaster:ges sge_execd:ge1 sge_execd:ge2 ;;
    openpbs) echo pbs_comm:obs pbs_server.bin:obs pbs_sched:obs pbs_mom:ob1 pbs_mom:ob2 ;;
  esac
}

daemon_runs() { pid_of "${1#*:}" >/dev/null && inside "${1#*:}" pidof -q "${1%:*}"; } # DAEMON:HOST

manage() { # WHAT HOST: its daemons
  local system
  system=$(system_of "$2")
  # What stays open would keep whoever reads the output waiting for the daemons' end.
  inside "$2" "$HERE/pbs/$system.sh" "$1" "$2" "$(prefix_up "$system")" </dev/null >>"$BUILD/logs/pbs-$2.log" 2>&1 ||
    { tail -n 5 "$BUILD/logs/pbs-$2.log" >&2; fail "'$1' failed on $2; the log is $BUILD/logs/pbs-$2.log"; }
}

start_daemons() { # SYSTEM
  local host
  for host in $(hosts_of "$1"); do
    : >"$BUILD/logs/pbs-$host.log"
    manage prepare "$host"
  done
  for host in $(hosts_of "$1"); do manage start "$host"; done
  case $1 in openpbs) manage settings obs ;; gridengine) manage settings ges ;; esac
}

free_nodes() { # SYSTEM
  local host
  if [ "$1" = gridengine ]; then
    inside ges qhost 2>/dev/null | grep -Ec '^ge[12] +[^ ]+ +[0-9]+ .* [0-9.]+[MG] ' || true
    return
  fi
  read -r host _ <<<"$(hosts_of "$1")"
  inside "$host" "$(prefix_up "$1")/bin/pbsnodes" -a 2>/dev/null | grep -c '^ *state = free$' || true
}

wait_until_ready() { # SYSTEM
  local deadline=$((SECONDS + 90))
  until [ "$(free_nodes "$1")" = 2 ]; do
    [ $SECONDS -lt $deadline ] || fail "the nodes of $1 did not come up within 90 s; the logs are in $DIR/spool"
    sleep 0.2
  done
  ssh -F "$DIR/client/ssh_config" "$1" true || fail "no login over ssh"
}

is_whole() {
  local system daemon
  recall || return 1
  [ "$UP" = "$SYSTEMS" ] || [ -z "$SYSTEMS" ] || return 1
  for system in $UP; do
    for daemon in $(daemons_of "$system"); do daemon_runs "$daemon" || return 1; done
  done
}

up() {
  local system
  need_root
  check_sources
  if ! is_whole; then # what runs stays, also when the sources are others by now
    stop
    install_packages
    build
    make_folder
    UP=$SYSTEMS
    start_hosts
    for system in $SYSTEMS; do start_daemons "$system"; done
    for system in $SYSTEMS; do wait_until_ready "$system"; done
  fi
  echo "$DIR"
}

daemon() { # stop|start DAEMON:HOST: a test takes it away in the middle
  need_root
  recall || fail "start it first: $0 up"
  case $1 in
    stop)
      # shellcheck disable=SC2016 # for the inner shell
      ! daemon_runs "$2" || inside "${2#*:}" sh -c 'kill -s "$2" $(pidof "$1"); while pidof -q "$1"; do sleep 0.05; done' sh "${2%:*}" "${3:-TERM}" ;;
    start) daemon_runs "$2" || manage start "${2#*:}" ;;
    *) fail "a daemon can be told 'stop' or 'start'" ;;
  esac
}

# --- the end ------------------------------------------------------------------------------------------------------

stop() {
  recall || { rm -f "$LINK"; return 0; }
  case $DIR in "$BASE"/modak-pbs.*) ;; *) fail "$LINK points to $DIR, which is not a folder made by this script" ;; esac
  local host pid left
  # With its first process the kernel ends all others of a host, and with them its namespaces and mounts.
  for host in $(hosts); do ! pid=$(pid_of "$host") || as_root kill -9 "$pid"; done
  for host in $(hosts); do while pid_of "$host" >/dev/null; do sleep 0.02; done; done
  if [ -n "$USER_NAME" ]; then
    left=$(ps -o pid= -u "$USER_NAME" 2>/dev/null || true)
    # shellcheck disable=SC2086 # numbers only
    end_processes $left
    as_root userdel "$USER_NAME" 2>/dev/null || true
  fi
  as_root rm -rf "$DIR"
  rm -f "$LINK"
}

status() {
  local system daemon
  need_root
  if ! recall; then echo "down"; exit 3; fi
  for system in $UP; do
    for daemon in $(daemons_of "$system"); do daemon_runs "$daemon" && echo "$daemon runs" || echo "$daemon down"; done
    echo "$system: $(free_nodes "$system") free nodes"
  done
  is_whole || exit 3
}

mkdir -p "$BUILD/logs"
exec 9>"$BUILD/pbs.lock"
case ${1:-} in
  up) flock 9; up 9>&- ;;
  down) flock 9; need_root; stop 9>&- ;;
  status) status 9>&- ;;
  build) flock 9; need_root; check_sources; { install_packages; build; } 9>&- ;;
  daemon) shift; daemon "$@" 9>&- ;;
  run) shift; need_root; recall || fail "start it first: $0 up"; inside "$@" 9>&- ;;
  *) echo "usage: $0 up | down | status | build | daemon stop|start NAME:HOST [SIGNAL] | run HOST COMMAND..." >&2; exit 2 ;;
esac
