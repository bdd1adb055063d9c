#!/usr/bin/env bash
# Sets up a small cluster in namespaces, each host with its own network, processes, name and mounts: a client with a
# user on it, a login node without any Python, a head node with slurmctld, and two compute nodes.
# README.md beside this file says how to use it.
set -euo pipefail
NAME=cluster
HOSTS="switch client login head c1 c2"
PROGRAMS="munged slurmctld slurmd sbatch scontrol scancel sshd ssh ssh-keygen ip nsenter unshare setpriv mmdebstrap mpicc.mpich gcc"
PACKAGES=(munge slurm-wlm slurm-client openssh-server openssh-client iproute2 util-linux mmdebstrap mpich libmpich-dev gcc libc6-dev)
ACCOUNTING=${MODAK_REAL_ACCOUNTING:+yes} # slurmdbd, with a MariaDB behind it
if [ -n "$ACCOUNTING" ]; then
  PROGRAMS="$PROGRAMS slurmdbd mariadbd mariadb-install-db"
  PACKAGES+=(slurmdbd mariadb-server)
fi
# shellcheck source=tests/real/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd / # where every host can go

LINK=$BUILD/cluster
MIN_JOB_AGE=${MODAK_REAL_MIN_JOB_AGE:-15}
PYTHON=${MODAK_CLIENT_PYTHON:-$TOP/.venv/bin/python}
SYSTEMS=$BASE/modak-login-systems # outlives 'down': the login node's files, the same for all checkouts
LOGIN_PACKAGES=slurm-client,slurm-wlm-torque,openssh-server

# --- what belongs to this checkout -------------------------------------------------------------------------------

DIR=
USER_NAME=
recall() { # sets DIR and USER_NAME when this checkout has a cluster
  DIR=$(readlink "$LINK" 2>/dev/null) && [ -d "$DIR" ] && USER_NAME=$(cat "$DIR/etc/user" 2>/dev/null)
}

# The login node's files: Slurm's commands, its wrappers for Torque's, a shell and sshd. Of the machine's own release,
# so that they speak with its slurmctld.
make_login_system() {
  local release site new
  release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
  SYSTEM=$SYSTEMS/$release-$(printf %s "$LOGIN_PACKAGES" | cksum | cut -d' ' -f1)
  [ ! -d "$SYSTEM" ] || return 0
  site=$(mirror 'debian|ubuntu')
  if [ -z "$release" ] || [ -z "$site" ]; then cannot "the login node's files come from a Debian mirror, and apt here has none"; fi
  say "making the login node's files in $SYSTEM"
  as_root mkdir -p "$SYSTEMS"
  new=$(as_root mktemp -d "$SYSTEMS/new.XXXXXX")
  logged mmdebstrap-login as_root mmdebstrap --variant=minbase "--include=$LOGIN_PACKAGES" --aptopt='APT::Install-Recommends "false"' \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' --components=main,universe "$release" "$new" "$site"
  as_root mkdir -p "$new/etc/slurm" "$new/usr/local/bin"
  as_root touch "$new/etc/hosts"
  as_root chmod 755 "$new"
  as_root mv "$new" "$SYSTEM"
}

address_of() { case $1 in client) echo 10.77.0.10 ;; login) echo 10.77.0.11 ;; head) echo 10.77.0.12 ;; c1) echo 10.77.0.13 ;; c2) echo 10.77.0.14 ;; esac; }

fill_in() { # TEMPLATE
  sed -e "s|@DIR@|$DIR|g" -e "s|@USER@|$USER_NAME|g" -e "s|@MIN_JOB_AGE@|$MIN_JOB_AGE|g" \
    -e "s|@ACCOUNTING@|${ACCOUNTING:+slurmdbd}|g;s|accounting_storage/\$|accounting_storage/none|" -e "s|@TRACKING@|$TRACKING|g" -e "s|@TASKS@|$TASKS|g" -e "s|@SUDO@|$SUDO${SUDO:+ --preserve-env}|g" "$HERE/templates/cluster/$1.in"
}

# Slurm limits memory by control groups of the first version; for the second it wants systemd.
choose_limits() {
  local controller folder why=
  for controller in memory freezer; do
    folder=/sys/fs/cgroup/$controller
    if [ ! -e "$folder/release_agent" ]; then
      why="there is no hierarchy of control groups, version 1, in $folder"
    elif ! as_root mkdir "$folder/modak.$$" 2>/dev/null || ! as_root rmdir "$folder/modak.$$"; then
      why="no control group can be made in $folder"
    fi
  done
  if [ -z "$why" ]; then TRACKING=cgroup TASKS=cgroup; else TRACKING=linuxproc TASKS=none; fi
  [ -z "$why" ] || echo "$why" | as_root tee "$DIR/etc/no-memory-limits" >/dev/null
}

make_folder() {
  local host device
  new_folder cluster
  claim_any cluster modakn
  as_root mkdir -p "$DIR"/{dev,etc/slurm,keys,log,run,home/.ssh,laptop/.ssh,work,bin,root} "$DIR"/spool/{slurmctld,c1,c2}
  as_root mkdir -p /etc/slurm /run/sshd # where a host's own are put, and where sshd confines its unprivileged half
  for device in gpu0 gpu1; do as_root mknod "$DIR/dev/$device" c 1 3; done # as good as /dev/null
  choose_limits
  echo "$USER_NAME" | as_root tee "$DIR/etc/user" >/dev/null
  for host in $HOSTS; do
    [ -z "$(address_of "$host")" ] || echo "$(address_of "$host") $host"
  done | cat <(echo '127.0.0.1 localhost') - | as_root tee "$DIR/etc/hosts" >/dev/null
  [ -z "$ACCOUNTING" ] || fill_in slurmdbd.conf | as_root install -m 600 /dev/stdin "$DIR/etc/slurm/slurmdbd.conf"
  for file in slurm.conf cgroup.conf gres.conf; do fill_in $file | as_root tee "$DIR/etc/slurm/$file" >/dev/null; done
  fill_in sshd_config | as_root tee "$DIR/etc/sshd_config" >/dev/null
  fill_in inventory.yml | as_root tee "$DIR/inventory.yml" >/dev/null
  fill_in enter | as_root tee "$DIR/enter" >/dev/null
  as_root chmod 755 "$DIR/enter"
  # On the client the user has another home: what is there is not on the cluster.
  sed "s|:$DIR/home:|:$DIR/laptop:|" /etc/passwd | as_root tee "$DIR/etc/passwd.client" >/dev/null
  make_keys
  as_root chown -R "$USER_NAME:" "$DIR/home" "$DIR/laptop"
  as_root chmod 700 "$DIR/home/.ssh" "$DIR/laptop/.ssh"
  as_root chmod 1777 "$DIR/work" "$DIR/bin"
}

make_keys() {
  local host
  as_root chmod 700 "$DIR/keys"
  as_root dd if=/dev/urandom of="$DIR/keys/munge.key" bs=128 count=1 2>/dev/null
  as_root chmod 600 "$DIR/keys/munge.key"
  for host in login head c1 c2; do
    as_root ssh-keygen -q -t ed25519 -N '' -C "$host" -f "$DIR/keys/$host"
    echo "$host,$(address_of $host) $(as_root cut -d' ' -f1,2 "$DIR/keys/$host.pub")"
  done | as_root tee "$DIR/laptop/.ssh/known_hosts" >/dev/null
  as_root ssh-keygen -q -t ed25519 -N '' -C 'modak test user' -f "$DIR/laptop/.ssh/id_ed25519"
  as_root cp "$DIR/laptop/.ssh/id_ed25519.pub" "$DIR/home/.ssh/authorized_keys"
}

# --- hosts -------------------------------------------------------------------------------------------------------

pid_of() { # HOST: the machine's number for its first process, when that is alive and ours
  local pid
  pid=$(cat "$DIR/run/$1.host" 2>/dev/null) || return 1
  as_root grep -qsz "^MODAK_CLUSTER_HOST=$DIR/$1\$" "/proc/$pid/environ" && echo "$pid"
}

inside() { # HOST COMMAND...
  local pid
  pid=$(pid_of "$1") || fail "the host $1 is not there"
  shift
  as_root nsenter --target "$pid" --mount --uts --ipc --net --pid -- "$@"
}

start_host() { # HOST: becomes the host's first process
  # shellcheck disable=SC2016 # for the inner shell
  exec $SUDO sh -c 'exec >"$1" 2>&1 && shift && exec "$@"' sh "$DIR/log/host.$1" \
    env -i PATH="$PATH" MODAK_CLUSTER_HOST="$DIR/$1" \
    setsid unshare --net --uts --ipc --mount --pid --fork --kill-child -- \
    "$HERE/cluster/host.sh" "$DIR" "$1" "$SYSTEM" "${REACH[@]}" </dev/null >/dev/null 2>&1
}

start_hosts() {
  local host why deadline=$((SECONDS + 20))
  for host in $HOSTS; do start_host "$host" & done
  for host in $HOSTS; do
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
  for host in client login head c1 c2; do
    inside "$host" ip link set lo up
    as_root ip link add eth0 netns "$(pid_of "$host")" type veth peer name "$host" netns "$(pid_of switch)"
    inside switch ip link set "$host" master br0 up
    inside "$host" ip addr add "$(address_of "$host")/24" dev eth0
    inside "$host" ip link set eth0 up
  done
}

# --- daemons -----------------------------------------------------------------------------------------------------

DAEMONS="munged:head ${ACCOUNTING:+mariadbd:head slurmdbd:head }slurmctld:head slurmd:c1 slurmd:c2 sshd:login sshd:head sshd:c1 sshd:c2"

daemon_runs() { # DAEMON:HOST
  # shellcheck disable=SC2016 # for the inner shell
  pid_of "${1#*:}" >/dev/null && inside "${1#*:}" sh -c '
    pid=$(cat "$1") && [ "$(cat "/proc/$pid/comm")" = "$2" ]' sh "$DIR/run/${1%:*}.${1#*:}.pid" "${1%:*}" 2>/dev/null
}

start_daemon() { # DAEMON:HOST
  local daemon=${1%:*} host=${1#*:} change=()
  case $daemon in
    munged)
      inside head munged --key-file="$DIR/keys/munge.key" --socket="$DIR/run/munge.socket" --pid-file="$DIR/run/munged.head.pid" \
        --log-file="$DIR/log/munged.log" --seed-file="$DIR/run/munged.seed" --num-threads=2 ;;
    mariadbd) # nobody but the head node's own processes reaches it
      as_root mkdir -p "$DIR/database"
      logged mariadb-install-db inside head mariadb-install-db --no-defaults --user=root --datadir="$DIR/database" --skip-test-db
      # shellcheck disable=SC2016 # for the inner shell
      inside head sh -c '
        setsid mariadbd --no-defaults --user=root --datadir="$1/database" --bind-address=127.0.0.1 --skip-grant-tables \
          --socket="$1/run/mariadbd.socket" --pid-file="$1/run/mariadbd.head.pid" --skip-log-bin >"$1/log/mariadbd.log" 2>&1 </dev/null &
        until [ -S "$1/run/mariadbd.socket" ] || ! kill -0 "$!"; do sleep 0.1; done' sh "$DIR" ;;
    slurmdbd)
      inside head slurmdbd
      for _ in $(seq 100); do ! inside head sacctmgr -i add cluster namespaces >/dev/null 2>&1 || return 0; sleep 0.1; done
      fail "slurmdbd takes no cluster; its log is $DIR/log/slurmdbd.log" ;;
    slurmctld) inside head slurmctld ;;
    slurmd) inside "$host" slurmd -N "$host" ;;
    sshd)
      [ "$host" != login ] || change=(chroot "$DIR/root")
      inside "$host" "${change[@]}" /usr/sbin/sshd -f "$DIR/etc/sshd_config" -E "$DIR/log/sshd.$host.log" -h "$DIR/keys/$host" \
        -o "PidFile=$DIR/run/sshd.$host.pid" ;;
  esac
}

nodes_in() { inside head sinfo -h -N -o '%N %t' 2>/dev/null | sort -u | grep -Ec " ($1)\$" || true; }

wait_until_ready() {
  local deadline=$((SECONDS + 60))
  until [ "$(nodes_in "$1")" = 2 ]; do
    if [ $SECONDS -ge $deadline ]; then
      as_root tail -n 5 "$DIR"/log/*.log >&2
      fail "the nodes did not come up within 60 s; the logs are in $DIR/log"
    fi
    sleep 0.1
  done
  until "$DIR/enter" ssh -o BatchMode=yes login sinfo -h >/dev/null 2>"$BUILD/logs/cluster-ssh.log"; do
    [ $SECONDS -lt $deadline ] || fail "no login over ssh within 60 s: $(cat "$BUILD/logs/cluster-ssh.log")"
    sleep 0.1
  done
}

is_whole() {
  recall || return 1
  for daemon in $DAEMONS; do daemon_runs "$daemon" || return 1; done
}

# The Python that runs Ansible on the client may lie where only its owner can go, as may the checkout. host.sh makes such
# folders reachable at the same path, on the client alone.
REACH=()
find_python() {
  [ -x "$PYTHON" ] || fail "$PYTHON is not there: run 'make setup', or name a Python with this checkout's packages in MODAK_CLIENT_PYTHON"
  mapfile -t REACH < <(printf '%s\n' "$TOP"; "$PYTHON" -c 'import sys; print(sys.prefix, sys.base_prefix, sep="\n")')
}

python_works() { "$DIR/enter" "$PYTHON" -c 'import ansible, pydantic' 2>/dev/null && "$DIR/enter" test -r "$TOP/galaxy.yml"; }

up() {
  need_root
  install_packages
  find_python
  make_login_system
  if is_whole && python_works; then
    wait_until_ready 'idle|mix|alloc|comp'
  else
    stop
    make_folder
    start_hosts
    for daemon in $DAEMONS; do start_daemon "$daemon"; done
    wait_until_ready idle
    python_works || fail "$USER_NAME cannot run $PYTHON on the client"
  fi
  echo "$DIR"
}

daemon() { # stop|start DAEMON:HOST: a test takes it away in the middle
  need_root
  recall || fail "start it first: $0 up"
  case " $DAEMONS " in *" ${2:-} "*) ;; *) fail "the second word is one of $DAEMONS" ;; esac
  case $1 in
    stop)
      # shellcheck disable=SC2016 # for the inner shell
      ! daemon_runs "$2" || inside "${2#*:}" sh -c '
        pid=$(cat "$1") && kill "$pid" && while kill -0 "$pid" 2>/dev/null; do sleep 0.05; done' sh "$DIR/run/${2%:*}.${2#*:}.pid" ;;
    start) daemon_runs "$2" || start_daemon "$2" ;;
    *) fail "a daemon can be told 'stop' or 'start'" ;;
  esac
}

# --- the end -----------------------------------------------------------------------------------------------------

stop() {
  recall || { rm -f "$LINK"; return 0; }
  case $DIR in "$BASE"/modak-cluster.*) ;; *) fail "$LINK points to $DIR, which is not a folder made by this script" ;; esac
  local host pid left
  if daemon_runs slurmctld:head; then
    inside head timeout 10 scancel --user "$USER_NAME" 2>/dev/null || true
    for _ in $(seq 80); do [ -n "$(inside head timeout 10 squeue -h 2>/dev/null)" ] || break; sleep 0.1; done
    for host in c1 c2; do # so that slurmd removes its control groups
      # shellcheck disable=SC2016 # for the inner shell
      inside "$host" timeout 10 sh -c 'kill "$(cat "$1")" && while pidof slurmd >/dev/null; do sleep 0.05; done' sh "$DIR/run/slurmd.$host.pid" || true
    done
  fi
  # With its first process the kernel ends all others of a host, and with them its namespaces and mounts.
  for host in $HOSTS; do
    ! pid=$(pid_of "$host") || as_root kill -9 "$pid"
  done
  for host in $HOSTS; do while pid_of "$host" >/dev/null; do sleep 0.02; done; done
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
  need_root
  if ! recall; then echo "down"; exit 3; fi
  for daemon in $DAEMONS; do daemon_runs "$daemon" && echo "$daemon runs" || echo "$daemon down"; done
  ! daemon_runs slurmctld:head || inside head sinfo -N -o '%N %P %t'
  is_whole || exit 3
}

mkdir -p "$BUILD/logs"
exec 9>"$BUILD/cluster.lock"
case ${1:-} in
  up) flock 9; up 9>&- ;;
  down) flock 9; need_root; stop 9>&- ;;
  status) status 9>&- ;;
  install) flock 9; need_root; { install_packages; make_login_system; } 9>&- ;;
  daemon) shift; daemon "$@" 9>&- ;;
  run) shift; need_root; recall || fail "start it first: $0 up"; inside "$@" 9>&- ;;
  *) echo "usage: $0 up | down | status | install | daemon stop|start NAME:HOST | run HOST COMMAND..." >&2; exit 2 ;;
esac
