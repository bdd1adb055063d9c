#!/usr/bin/env bash
# Grid Engine's daemons on one host, as root in the host's own namespaces.
#
#   gridengine.sh prepare|start|settings HOST PREFIX
#
# The programs are Debian's packages unpacked into PREFIX, which host.sh puts over /usr.
set -eu
what=$1 host=$2 prefix=$3
export SGE_ROOT=/var/lib/gridengine SGE_CELL=default

prepare() {
  getent passwd sgeadmin >/dev/null || useradd --system --no-create-home --home-dir "$SGE_ROOT" --shell /bin/sh sgeadmin
  mkdir -p "$SGE_ROOT" /run/gridengine /var/spool/gridengine
  mount -t tmpfs -o mode=755 tmpfs /var/spool/gridengine
  mount -t tmpfs -o mode=755 tmpfs "$SGE_ROOT"
  cp -a "$prefix"/var/lib/gridengine/. "$SGE_ROOT/"
  mkdir -p "$SGE_ROOT/default/common" /var/spool/gridengine/{qmaster/job_scripts,execd,spooldb}
  echo ges >"$SGE_ROOT/default/common/act_qmaster"
  cp /usr/share/gridengine/default-bootstrap "$SGE_ROOT/default/common/bootstrap"
  chown -R sgeadmin: /var/spool/gridengine "$SGE_ROOT/default" /run/gridengine
  [ "$host" = ges ] || return 0
  # The base of Debian's own script, which its package runs when it is installed.
  su -s /bin/sh -c "/usr/share/gridengine/scripts/init_cluster $SGE_ROOT $SGE_CELL /var/spool/gridengine/spooldb sgeadmin" sgeadmin
}

start() {
  if [ "$host" = ges ]; then
    pidof -q sge_qmaster || /usr/lib/gridengine/sge_qmaster
    until qconf -sh >/dev/null 2>&1; do sleep 0.2; done
  else
    pidof -q sge_execd || /usr/lib/gridengine/sge_execd
  fi
}

environment() { # NAME ALLOCATION_RULE
  printf '%s\n' "pe_name $1" "slots 999" "user_lists NONE" "xuser_lists NONE" "start_proc_args NONE" \
    "stop_proc_args NONE" "allocation_rule $2" "control_slaves TRUE" "job_is_first_task FALSE" "urgency_slots min" \
    "accounting_summary FALSE" "qsort_args NONE"
}

settings() {
  local folder
  folder=$(mktemp -d)
  cd "$folder"
  su -s /bin/sh -c 'qconf -am root; qconf -as ges; qconf -ah ge1; qconf -ah ge2' sgeadmin
  # shellcheck disable=SC2016 # Grid Engine's own words
  { environment mpi '$round_robin' >mpi; environment smp '$pe_slots' >smp; environment two 2 >two; }
  for name in mpi smp two; do qconf -Ap "$name"; done
  printf 'group_name @hosts\nhostlist ge1 ge2\n' >group
  qconf -Ahgrp group
  qconf -sq | sed -e 's/^qname .*/qname all.q/; s/^hostlist .*/hostlist @hosts/; s/^slots .*/slots 4/' \
    -e 's/^pe_list .*/pe_list mpi smp two/; s|^shell .*|shell /bin/sh|; s/^load_thresholds .*/load_thresholds NONE/' \
    -e 's/^notify .*/notify 0:0:10/' >queue
  qconf -Aq queue
  # A site's scheduler looks every 15 s; tests would wait for it.
  qconf -ssconf | sed 's/^schedule_interval .*/schedule_interval 0:0:2/; s/^\(flush_[a-z]*_sec\) .*/\1 1/' >schedule
  qconf -Msconf schedule
  cd /
  rm -rf "$folder"
}

cd /
"$what"
