#!/usr/bin/env bash
# The first process of a host, in the host's own namespaces: gives it its name and its files, and then buries its dead.
#
#   host.sh DIR HOST PREFIX STATE
#
# STATE is the folder below PREFIX that holds what the scheduler's daemons keep: it is each host's own.
set -eu
dir=$1 host=$2 prefix=$3 state=$4
read -r number _ </proc/self/stat # /proc still is the machine's: this is its number for this process

mount --make-rprivate /
hostname "$host"
mount -t proc proc /proc

over() { # FOLDER: what is written there stays with this host; what PREFIX has of it is there, too
  local upper=$dir/hosts/$host/upper$1 work=$dir/hosts/$host/work$1 lower=$1
  mkdir -p "$upper" "$work"
  [ ! -d "$prefix$1" ] || lower=$prefix$1:$1
  mount -t overlay overlay -o "lowerdir=$lower,upperdir=$upper,workdir=$work" "$1"
}

if [ "$prefix" != none ]; then
  mkdir -p "$dir/hosts/$host"
  mount -t tmpfs -o mode=755 tmpfs "$dir/hosts/$host" # gone with the host
  over /etc
  over /usr # pbs_postinstall puts files of OpenPBS there, and Debian's packages of Grid Engine lie below their prefix
  # A machine that has Slurm for other tests: these hosts have none, nor its wrappers for Torque's commands.
  rm -f /usr/bin/{sbatch,sinfo,squeue,srun,scontrol,scancel,sacct}
  [ -d "$prefix/usr" ] || rm -f /usr/bin/{qsub,qstat,qdel,qhold,qrls,qalter,pbsnodes}
  cp "$dir/etc/hosts" /etc/hosts
  echo "$host" >/etc/hostname
  mount -t tmpfs -o mode=755 tmpfs /run
  mkdir -p /run/sshd /run/lock
  case $dir in /tmp/*) ;; *) mount -t tmpfs -o mode=1777 tmpfs /tmp ;; esac
  mount --bind "$dir/spool/$host" "$prefix/$state"
  # shellcheck disable=SC2016 # the variable is the profile's
  printf 'PATH=%s/bin:%s/sbin:$PATH\n' "$prefix" "$prefix" >/etc/profile.d/pbs-of-the-tests.sh
fi

echo "$number" >"$dir/run/$host.new"
mv "$dir/run/$host.new" "$dir/run/$host.host"
trap : TERM INT HUP
while :; do sleep infinity & wait "$!" || true; done # a new sleep where one was ended: without a child, wait would spin
