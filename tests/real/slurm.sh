#!/usr/bin/env bash
# Sets up a real Slurm on loopback (munge, slurmctld, four slurmd) and an sshd for an unprivileged user.
# README.md beside this file says how to use it.
set -euo pipefail
shopt -s inherit_errexit
NAME=slurm
NODES="n1 n2 n3 n4"
PROGRAMS="munged slurmctld slurmd sbatch squeue sinfo scontrol scancel srun sshd ssh ssh-keygen ps mpicc.mpich gcc rsync haproxy curl"
LIBRARIES=libjemalloc.so.2 # for the lever of this name, which the tutorials' outputs show
PACKAGES=(munge slurm-wlm slurm-client openssh-server openssh-client procps mpich libmpich-dev gcc libc6-dev rsync libjemalloc2 haproxy curl)
# shellcheck source=tests/real/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

LINK=$BUILD/real${PYTEST_XDIST_WORKER:+-$PYTEST_XDIST_WORKER} # each worker of pytest-xdist has a rig of its own
MIN_JOB_AGE=${MODAK_REAL_MIN_JOB_AGE:-30}

# --- what belongs to this checkout -------------------------------------------------------------------------------

DIR=
USER_NAME=
recall() { # sets DIR and USER_NAME when this checkout has a rig
  DIR=$(readlink "$LINK" 2>/dev/null) && [ -d "$DIR" ] && USER_NAME=$(cat "$DIR/etc/user" 2>/dev/null)
}

claim_slot() { # a user and a block of ports of our own: thirty checkouts may run their rigs side by side
  local slot base reasons=
  for slot in {0..29}; do
    base=$((17000 + 30 * slot))
    if claim_user real "modakt${slot#0}" $base $((base + 1)) $((base + 2)) $((base + 3)) $((base + 4)) $((base + 22)); then
      PORT_BASE=$base
      return
    fi
    reasons+="; $REASON"
  done
  fail "no user with ports between 17000 and 17892: ${reasons#; }"
}

fill_in() { # TEMPLATE
  sed -e "s|@DIR@|$DIR|g" -e "s|@USER@|$USER_NAME|g" -e "s|@HOST@|$(hostname -s)|g" -e "s|@MIN_JOB_AGE@|$MIN_JOB_AGE|g" \
    -e "s|@CONTROLLER_PORT@|$PORT_BASE|g" -e "s|@FIRST_NODE_PORT@|$((PORT_BASE + 1))|g" \
    -e "s|@LAST_NODE_PORT@|$((PORT_BASE + 4))|g" -e "s|@SSH_PORT@|$((PORT_BASE + 22))|g" "$HERE/templates/$1.in"
}

make_folder() {
  mkdir -p "$BUILD"
  new_folder real
  claim_slot
  as_root mkdir -p "$DIR"/{dev,etc,keys,log,run,mpi,home/.ssh,client} "$DIR"/spool/slurmctld
  for program in mpicc mpiexec mpirun; do # no links: Hydra looks for its proxy beside the name it was called by
    printf '#!/bin/sh\nexec /usr/bin/%s.mpich "$@"\n' $program | as_root tee "$DIR/mpi/$program" >/dev/null
    as_root chmod 755 "$DIR/mpi/$program"
  done
  for node in $NODES; do as_root mkdir -p "$DIR/spool/$node"; done
  as_root chown "$(id -u):$(id -g)" "$DIR/client"
  as_root touch "$DIR/dev/gpu0" "$DIR/dev/gpu1"
  echo "$USER_NAME" | as_root tee "$DIR/etc/user" >/dev/null
  for file in slurm.conf gres.conf sshd_config; do fill_in $file | as_root tee "$DIR/etc/$file" >/dev/null; done
  for file in ssh_config inventory.yml; do fill_in $file >"$DIR/client/$file"; done
  as_root dd if=/dev/urandom of="$DIR/keys/munge.key" bs=128 count=1 2>/dev/null
  as_root chmod 600 "$DIR/keys/munge.key"
  as_root ssh-keygen -q -t ed25519 -N '' -C 'modak test host' -f "$DIR/keys/host_ed25519"
  ssh-keygen -q -t ed25519 -N '' -C 'modak test user' -f "$DIR/client/id_ed25519"
  echo "[127.0.0.1]:$((PORT_BASE + 22)) $(cut -d' ' -f1,2 "$DIR/keys/host_ed25519.pub")" >"$DIR/client/known_hosts"
  as_root cp "$DIR/client/id_ed25519.pub" "$DIR/home/.ssh/authorized_keys"
  # srun and sbatch with --export=NONE take what a login shell has, which sshd's SetEnv does not reach.
  echo "PATH=$DIR/mpi:\$PATH" | as_root tee "$DIR/home/.profile" >/dev/null
  as_root chown -R "$USER_NAME:" "$DIR/home"
  as_root chmod 700 "$DIR/home/.ssh"
}

# --- daemons -----------------------------------------------------------------------------------------------------

slurm() { as_root env SLURM_CONF="$DIR/etc/slurm.conf" "$@"; }

pid_of() { # NAME: its process id, when that process is alive and is the daemon that we started
  local pid
  pid=$(as_root cat "$DIR/run/$1.pid" 2>/dev/null) || return 1
  [ -n "$pid" ] && [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = "${1%%.*}" ] && echo "$pid"
}

daemons() { echo sshd; for node in $NODES; do echo "slurmd.$node"; done; echo slurmctld munged; }

start_daemons() {
  as_root munged --key-file="$DIR/keys/munge.key" --socket="$DIR/run/munge.socket" --pid-file="$DIR/run/munged.pid" \
    --log-file="$DIR/log/munged.log" --seed-file="$DIR/run/munged.seed" --num-threads=2
  slurm slurmctld -c -f "$DIR/etc/slurm.conf"
  for node in $NODES; do slurm slurmd -N "$node" -f "$DIR/etc/slurm.conf"; done
  as_root mkdir -p /run/sshd # where sshd confines its unprivileged half
  as_root "$(command -v sshd)" -f "$DIR/etc/sshd_config" -E "$DIR/log/sshd.log"
}

nodes_in() { slurm sinfo -h -N -o '%N %t' 2>/dev/null | sort -u | grep -Ec " ($1)\$" || true; }

wait_until_ready() {
  local deadline=$((SECONDS + 60))
  until [ "$(nodes_in "$1")" = 4 ]; do
    if [ $SECONDS -ge $deadline ]; then
      as_root tail -n 5 "$DIR"/log/*.log >&2
      fail "the nodes did not come up within 60 s; the logs are in $DIR/log"
    fi
    sleep 0.2
  done
  until ssh -F "$DIR/client/ssh_config" slurm-login sinfo -h >/dev/null 2>"$DIR/client/ssh.err"; do
    [ $SECONDS -lt $deadline ] || fail "no login over ssh within 60 s: $(cat "$DIR/client/ssh.err")"
    sleep 0.2
  done
}

is_whole() {
  recall || return 1
  for daemon in $(daemons); do pid_of "$daemon" >/dev/null || return 1; done
}

up() {
  need_root
  install_packages
  if is_whole; then
    wait_until_ready 'idle|mix|alloc|comp'
  else
    stop
    make_folder
    start_daemons
    wait_until_ready idle
  fi
  echo "$DIR"
}

# --- the end -----------------------------------------------------------------------------------------------------

left_over() { # processes of the rig's own user, and step daemons of its cluster
  local pid
  [ -z "$USER_NAME" ] || ps -o pid= -u "$USER_NAME" 2>/dev/null || true
  for pid in $(ps -C slurmstepd -o pid= 2>/dev/null); do
    as_root grep -qsz "^SLURM_CONF=$DIR/etc/slurm.conf\$" "/proc/$pid/environ" && echo "$pid"
  done
  return 0
}

stop() {
  recall || { rm -f "$LINK"; return 0; }
  case $DIR in "$BASE"/modak-real.*) ;; *) fail "$LINK points to $DIR, which is not a folder made by this script" ;; esac
  if pid_of slurmctld >/dev/null; then
    slurm timeout 10 scancel --user "$USER_NAME" 2>/dev/null || true
    for _ in $(seq 80); do [ -n "$(slurm timeout 10 squeue -h 2>/dev/null)" ] || break; sleep 0.1; done
  fi
  # shellcheck disable=SC2046 # numbers only
  end_processes $(for daemon in $(daemons); do pid_of "$daemon" || true; done)
  # shellcheck disable=SC2046
  end_processes $(left_over)
  [ -z "$USER_NAME" ] || as_root userdel "$USER_NAME" 2>/dev/null || true
  as_root rm -rf "$DIR"
  rm -f "$LINK"
}

stop_all() { # this rig, and where no worker of pytest-xdist asks also those that such workers have left behind
  local own=$LINK
  if [ -z "${PYTEST_XDIST_WORKER:-}" ]; then
    for LINK in "$BUILD"/real-gw*; do
      [ ! -L "$LINK" ] || stop
    done
    LINK=$own
  fi
  stop
}

status() {
  need_root
  if ! recall; then echo "down"; exit 3; fi
  local daemon
  for daemon in $(daemons); do echo "$daemon $(pid_of "$daemon" || echo down)"; done
  slurm sinfo -N -o '%N %P %t'
  is_whole || exit 3
}

# --- the application's Python ------------------------------------------------------------------------------------

has_keras() { # PYTHON: can the user run it, and are the packages of the digits example there?
  as_root runuser -u "$USER_NAME" -- env -i "$1" -c '
import sys
from importlib.util import find_spec
sys.exit(not all(map(find_spec, ("keras", "tensorflow", "sklearn"))))' 2>/dev/null
}

application_python() {
  need_root
  is_whole || fail "start it first: $0 up"
  local python requirements
  for python in ${MODAK_APP_PYTHON:-} "$TOP/.venv/bin/python" "$DIR/venv/bin/python"; do
    if has_keras "$python"; then echo "$python"; return; fi
  done
  python=/usr/bin/python3
  as_root runuser -u "$USER_NAME" -- "$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
    cannot "$USER_NAME can run neither $TOP/.venv nor a Python 3.11 or newer with venv as $python"
  say "$USER_NAME cannot run $TOP/.venv: making $DIR/venv for the jobs"
  mkdir -p "$BUILD/logs"
  requirements=$("$python" -c '
import sys, tomllib
print("\n".join(tomllib.load(open(sys.argv[1], "rb"))["project"]["optional-dependencies"]["digits"]))' "$TOP/pyproject.toml")
  as_root "$python" -m venv "$DIR/venv"
  as_root chown -R "$(id -u):$(id -g)" "$DIR/venv" # so that pip uses this user's cache
  # shellcheck disable=SC2086 # one requirement a line, none with a blank in it
  "$DIR/venv/bin/python" -m pip install --quiet $requirements >"$BUILD/logs/application-venv.log" 2>&1 ||
    fail "pip could not fill $DIR/venv; see $BUILD/logs/application-venv.log"
  has_keras "$DIR/venv/bin/python" || fail "$USER_NAME cannot run $DIR/venv"
  echo "$DIR/venv/bin/python"
}

describe_site() { # what the inventory tells of the host as a target
  local python
  is_whole || fail "start it first: $0 up"
  python=$(application_python)
  mkdir -p "$DIR/client/host_vars"
  printf -- '---\nmodak_site:\n  type: slurm\n  python: %s\n' "$python" >"$DIR/client/host_vars/slurm-login.yml"
  echo "$python"
}

torque_commands() { # Slurm's wrappers for Torque's commands, apart: this machine's own users have none
  local folder file
  need_root
  is_whole || fail "start it first: $0 up"
  folder=$DIR/torque
  if [ ! -x "$folder/usr/bin/qsub" ]; then
    command -v apt-get >/dev/null || cannot "no apt-get to fetch slurm-wlm-torque with"
    as_root mkdir -p "$folder"
    (cd "$folder" && logged apt-torque as_root apt-get -q download slurm-wlm-torque libslurm-perl)
    for file in "$folder"/*.deb; do as_root dpkg -x "$file" "$folder"; done
  fi
  echo "$folder"
}

mkdir -p "$BUILD"
exec 9>"$BUILD/real.lock"
case ${1:-} in
  up) flock 9; up 9>&- ;;
  down) flock 9; need_root; stop_all 9>&- ;;
  status) status 9>&- ;;
  install) flock 9; need_root; install_packages 9>&- ;;
  python) flock 9; describe_site 9>&- ;;
  torque) flock 9; torque_commands 9>&- ;;
  *) echo "usage: $0 up | down | status | install | python | torque" >&2; exit 2 ;;
esac
