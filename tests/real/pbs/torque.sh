#!/usr/bin/env bash
# Torque's daemons on one host, as root in the host's own namespaces.
#
#   torque.sh prepare|start HOST PREFIX
set -eu
what=$1 host=$2 prefix=$3
spool=$prefix/spool
export PATH=$PATH:$prefix/bin:$prefix/sbin

prepare() {
  echo tqs >"$spool/server_name"
  if [ "$host" != tqs ]; then
    # Without $usecp pbs_mom would copy a job's files to the common home by scp; without $check_poll_time it looks at the
    # limits of a job every 45 s.
    # shellcheck disable=SC2016 # pbs_mom's variables
    printf '$pbsserver tqs\n$logevent 255\n$usecp *:/ /\n$check_poll_time 5\n' >"$spool/mom_priv/config"
    return
  fi
  trqauthd
  echo y | pbs_server -t create
  until qmgr -c 'print server' >/dev/null 2>&1; do sleep 0.2; done
  qmgr <<QMGR
set server managers += root@tqs
set server operators += root@tqs
create queue batch queue_type=execution
set queue batch enabled=true
set queue batch started=true
set queue batch resources_default.nodes=1
set queue batch resources_default.walltime=01:00:00
set queue batch resources_max.walltime=10:00:00
create queue closed queue_type=execution
set server default_queue=batch
set server scheduling=true
set server scheduler_iteration=5
set server keep_completed=300
QMGR
  # Only after -t create, which empties it, and read only at the next start.
  printf 'tq1 np=4\ntq2 np=4\n' >"$spool/server_priv/nodes"
  qterm
  while pidof -q pbs_server; do sleep 0.2; done
}

start() {
  if [ "$host" = tqs ]; then
    # A command of a user asks trqauthd who that is.
    pidof -q trqauthd || trqauthd
    pidof -q pbs_server || pbs_server
    pidof -q pbs_sched || pbs_sched
  else
    pidof -q pbs_mom || pbs_mom
  fi
}

cd /
"$what"
