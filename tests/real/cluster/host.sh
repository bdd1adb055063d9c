#!/usr/bin/env bash
# The first process of a host of the cluster, in the host's own namespaces: gives it its name, its files and what else
# makes it a machine of its own, and then buries its dead.
#
#   host.sh DIR HOST SYSTEM [FOLDER...]
#
# SYSTEM holds the login node's files; FOLDERs are to be reached by every user of the client.
set -eu
dir=$1 host=$2 system=$3
shift 3
read -r number _ </proc/self/stat # /proc still is the machine's: this is its number for this process

mount --make-rprivate /
hostname "$host"
mount -t proc proc /proc

own_files() { # a copy of /etc: a mount on one of its files would vanish when the machine replaces that file
  local etc=$dir/run/etc.$host
  cp -a /etc "$etc"
  cp "$dir/etc/hosts" "$etc/hosts"
  [ ! -e "$dir/etc/passwd.$host" ] || cp "$dir/etc/passwd.$host" "$etc/passwd"
  mount --bind "$etc" /etc
  mount --bind "$dir/etc/slurm" /etc/slurm
}

own_tmp() { # what lies in /tmp is seen on this host alone
  case $dir in /tmp/*) ;; *) mount -t tmpfs -o mode=1777 tmpfs /tmp ;; esac
}

login_files() { # a root folder of its own, read-only: the machine's programs, Python above all, are not there
  local root=$dir/root
  mkdir -p "$system${dir%/*}"
  mount --bind "$system" "$root"
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  mount --bind /etc/passwd "$root/etc/passwd"
  mount --bind /etc/group "$root/etc/group"
  mount --bind "$dir/etc/hosts" "$root/etc/hosts"
  mount --bind "$dir/etc/slurm" "$root/etc/slurm"
  mount --bind "$dir/bin" "$root/usr/local/bin"
  for folder in /run /tmp /var/tmp "${dir%/*}"; do mount -t tmpfs -o mode=1777 tmpfs "$root$folder"; done
  mkdir -p "$root/run/sshd" "$root$dir"
  mount --bind "$dir" "$root$dir"
  mount -o remount,bind,ro "$root"
}

closed() { case $(stat -L -c %A "$1") in *[xt]) return 1 ;; esac; } # FOLDER: may others not enter it?

closed_above() { # FOLDER: the topmost folder, itself included, that others cannot enter
  local path=
  IFS=/ read -ra parts <<<"${1#/}"
  for part in "${parts[@]}"; do
    path=$path/$part
    if closed "$path"; then echo "$path" && return; fi
  done
}

make_reachable() { # FOLDER...: an empty open folder hides a closed one, and what is asked for is put into it
  local folder number=0 above=() kept entry
  for folder in "$@"; do
    kept=$dir/run/reach/$((number += 1))
    mkdir -p "$kept"
    mount --bind "$folder" "$kept"
    above+=("$(closed_above "$folder")")
  done
  printf '%s\n' "${above[@]}" | sort -u | while read -r folder; do
    [ -z "$folder" ] || mount -t tmpfs -o mode=755 tmpfs "$folder"
  done
  number=0
  for folder in "$@"; do
    kept=$dir/run/reach/$((number += 1))
    [ -n "${above[number - 1]}" ] || continue
    mkdir -p "$folder"
    if ! closed "$kept"; then
      mount --bind "$kept" "$folder"
    else
      for entry in "$kept"/* "$kept"/.[!.]*; do
        if [ -d "$entry" ]; then mkdir -p "$folder/${entry##*/}"; elif [ -e "$entry" ]; then : >"$folder/${entry##*/}"; else continue; fi
        mount --bind "$entry" "$folder/${entry##*/}"
      done
    fi
  done
}

case $host in
  switch) ;;
  login) login_files ;;
  client)
    own_files
    make_reachable "$@"
    ;;
  *)
    own_files
    own_tmp
    ;;
esac

echo "$number" >"$dir/run/$host.new"
mv "$dir/run/$host.new" "$dir/run/$host.host"
trap : TERM INT HUP
while :; do sleep infinity & wait "$!" || true; done # a new sleep where one was ended: without a child, wait would spin
