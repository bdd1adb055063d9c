#!/usr/bin/env bash
# OpenPBS's daemons on one host, as root in the host's own namespaces.
#
#   openpbs.sh prepare|start|settings HOST PREFIX
set -eu
what=$1 host=$2 prefix=$3
home=$prefix/home
export PATH=/usr/sbin:/usr/bin:/sbin:/bin:$prefix/bin

prepare() {
  local server=0 node=1 kind=execution
  if [ "$host" = obs ]; then server=1 node=0 kind=server; fi
  cat >/etc/pbs.conf <<CONF
PBS_SERVER=obs
PBS_EXEC=$prefix
PBS_HOME=$home
PBS_START_SERVER=$server
PBS_START_SCHED=$server
PBS_START_COMM=$server
PBS_START_MOM=$node
PBS_CORE_LIMIT=0
PBS_SCP=/usr/bin/scp
CONF
  if [ "$host" = obs ]; then install -d -o postgres -g postgres /run/postgresql; fi # where its PostgreSQL puts a socket
  "$prefix/libexec/pbs_postinstall" "$kind" 23.06.06 "$prefix" "$home" '' sameconf
  # Without $usecp pbs_mom would copy a job's files to the common home by scp; without $enforce it lets a job take all
  # the memory there is.
  # shellcheck disable=SC2016 # pbs_mom's variables
  [ "$host" = obs ] || printf '$clienthost obs\n$usecp *:/ /\n$enforce mem\n' >"$home/mom_priv/config"
}

start() { "$prefix/libexec/pbs_init.d" start; }

settings() { # once, when all daemons run
  qmgr <<QMGR
create node ob1
create node ob2
set node ob1 resources_available.ncpus=4
set node ob2 resources_available.ncpus=4
create queue closed queue_type=execution
set queue workq resources_max.walltime=10:00:00
set server scheduling=true
set server flatuid=true
set server scheduler_iteration=5
QMGR
}

cd /
"$what"
