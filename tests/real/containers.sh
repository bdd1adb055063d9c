#!/usr/bin/env bash
# Sets up real container parts for an unprivileged user: Apptainer, podman with runc, Charliecloud, and two registries
# on loopback (plain http, and https with a password). README.md beside this file says how to use it.
set -euo pipefail
NAME=containers
PROGRAMS="podman runc docker-registry ch-run ch-convert ch-image mksquashfs squashfuse_ll newuidmap fakeroot mmdebstrap patchelf"
PACKAGES=(podman runc docker-registry charliecloud-runtime charliecloud-builders squashfs-tools squashfuse uidmap
  fakeroot mmdebstrap patchelf openssl ca-certificates)
# shellcheck source=tests/real/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

LINK=$BUILD/containers
TOOLS=$BASE/modak-container-tools # outlives 'down': Apptainer and the base system, the same for all checkouts
KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg

# --- programs ----------------------------------------------------------------------------------------------------

# Debian has Apptainer in its unstable branch only, built for a newer C library. So the package and that library are
# unpacked side by side into a folder of their own; nothing of the system is touched. apt checks the signatures.
install_apptainer() {
  local work site lib tree=$TOOLS/apptainer
  ! "$tree/usr/bin/apptainer" version >/dev/null 2>&1 || return 0
  site=$(mirror debian)
  if [ -z "$site" ] || [ ! -e "$KEYRING" ]; then cannot "Apptainer comes from a Debian mirror, and apt here has none"; fi
  say "unpacking Apptainer into $tree"
  work=$(as_root mktemp -d "$BASE/modak-apptainer.XXXXXX")
  as_root chmod 755 "$work"
  as_root mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/debs" "$work/lib" "$work/tree"
  echo "deb [signed-by=$KEYRING] $site sid main" | as_root tee "$work/sources.list" >/dev/null
  local apt=(apt-get -q -o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$work/lists"
    -o "Dir::Cache=$work/cache" -o APT::Sandbox::User=root)
  (logged apt-sid as_root "${apt[@]}" update) || cannot "the packages of Debian's unstable branch cannot be fetched"
  (cd "$work/debs" && logged apt-apptainer as_root "${apt[@]}" download apptainer libc6 libseccomp2 libsqlite3-0) ||
    cannot "Apptainer cannot be fetched from Debian's unstable branch"
  as_root dpkg -x "$work"/debs/apptainer_*.deb "$work/tree"
  for package in libc6 libseccomp2 libsqlite3-0; do as_root dpkg -x "$work/debs/${package}"_*.deb "$work/lib"; done
  as_root mkdir -p "$work/tree/libc" "$work/tree/usr/var/lib/apptainer/mnt/session"
  as_root cp -a "$work"/lib/usr/lib/*-linux-gnu/. "$work/tree/libc/"
  # Moved from /usr, the program looks for its configuration beside itself, the starter one folder further down.
  as_root ln -s ../etc "$work/tree/usr/etc"
  as_root ln -s ../../etc "$work/tree/usr/lib/etc"
  as_root ln -s ../var "$work/tree/usr/lib/var"
  lib=$(as_root find "$work/tree/libc" -maxdepth 1 -name 'ld-linux*.so.*')
  for program in "$work/tree/usr/bin/apptainer" "$work"/tree/usr/lib/*/apptainer/bin/starter; do
    as_root patchelf --force-rpath --set-rpath "$tree/libc" --set-interpreter "$tree/libc/${lib##*/}" "$program"
  done
  as_root mkdir -p "$TOOLS"
  as_root rm -rf "$tree"
  as_root mv "$work/tree" "$tree"
  as_root rm -rf "$work"
  "$tree/usr/bin/apptainer" version >/dev/null || cannot "the Apptainer of today's unstable branch does not start from $tree"
}

# What a site would pull as debian:12; the tests' registries have nothing else to start from.
make_base() {
  local site
  [ ! -e "$TOOLS/debian12.tar" ] || return 0
  site=$(mirror debian)
  [ -n "$site" ] || cannot "the base system comes from a Debian mirror, and apt here has none"
  say "making a base system of Debian 12"
  as_root mkdir -p "$TOOLS"
  logged mmdebstrap as_root mmdebstrap --variant=minbase --include=ca-certificates "--keyring=$KEYRING" \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' bookworm "$TOOLS/debian12.part.tar" "$site"
  as_root chmod 644 "$TOOLS/debian12.part.tar"
  as_root mv "$TOOLS/debian12.part.tar" "$TOOLS/debian12.tar"
}

install_all() {
  install_packages
  install_apptainer
  make_base
  # udev gives everybody the FUSE device; machines without udev have it for root alone.
  [ -e /dev/fuse ] || cannot "this kernel has no /dev/fuse, by which users mount images"
  as_root chmod 666 /dev/fuse
}

# --- what belongs to this checkout -------------------------------------------------------------------------------

DIR=
USER_NAME=
recall() { # sets DIR and USER_NAME when this checkout has a set-up
  DIR=$(readlink "$LINK" 2>/dev/null) && [ -d "$DIR" ] && USER_NAME=$(cat "$DIR/user" 2>/dev/null)
}

claim_slot() { # a user and two ports of our own: thirty checkouts may run side by side
  local slot base reasons=
  for slot in {0..29}; do
    base=$((18000 + 10 * slot))
    if claim_user containers "modakc$slot" $base $((base + 1)); then
      grep -q "^$USER_NAME:" /etc/subuid || as_root usermod --add-subuids $((600000 + 65536 * slot))-$((665535 + 65536 * slot)) \
        --add-subgids $((600000 + 65536 * slot))-$((665535 + 65536 * slot)) "$USER_NAME"
      PORT=$base
      return
    fi
    reasons+="; $REASON"
  done
  fail "no user with two ports between 18000 and 18291: ${reasons#; }"
}

fill_in() { # TEMPLATE
  sed -e "s|@DIR@|$DIR|g" -e "s|@PORT@|$PORT|g" -e "s|@TLS_PORT@|$((PORT + 1))|g" -e "s|@USER@|$USER_NAME|g" \
    -e "s|@TOOLS@|$TOOLS|g" "$HERE/templates/$1.in"
}

as_user() { as_root runuser -u "$USER_NAME" -- "$DIR/enter" "$@"; }

make_folder() {
  mkdir -p "$BUILD"
  new_folder containers
  claim_slot
  as_root mkdir -p "$DIR"/{home,log,run,registry,keys,client}
  as_root chmod 700 "$DIR/run"
  echo "$USER_NAME" | as_root tee "$DIR/user" >/dev/null
  for file in containers.conf registry.yml registry-tls.yml enter settings.yml; do
    fill_in "containers/$file" | as_root tee "$DIR/$file" >/dev/null
  done
  as_root chmod 755 "$DIR/enter"
  make_secrets
  as_root chown -R "$USER_NAME:" "$DIR"/{home,log,run,registry,keys}
  as_root chown -R "$(id -u):$(id -g)" "$DIR/client"
}

make_secrets() { # a certificate of our own, and a password that is new each time
  local password hash
  as_root openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=localhost -addext 'subjectAltName=DNS:localhost,IP:127.0.0.1' \
    -keyout "$DIR/keys/registry.key" -out "$DIR/client/registry.crt" 2>/dev/null
  password=$(openssl rand -hex 16)
  # shellcheck disable=SC2016 # perl's variables
  hash=$(printf '%s' "$password" | perl -e '$p = <STDIN>; print crypt($p, "\$2y\$05\$abcdefghijklmnopqrstuu")')
  printf 'reader:%s\n' "$hash" | as_root tee "$DIR/keys/htpasswd" >/dev/null
  printf '%s' "$password" | as_root tee "$DIR/client/password" >/dev/null
  as_root chmod 600 "$DIR/client/password"
  as_root chmod 644 "$DIR/client/registry.crt"
}

# --- daemons -----------------------------------------------------------------------------------------------------

pid_of() { # NAME: its process id, when that process is alive and is the registry that we started
  local pid
  pid=$(as_root cat "$DIR/run/$1.pid" 2>/dev/null) || return 1
  [ -n "$pid" ] && as_root grep -qz "^$DIR/$1.yml\$" "/proc/$pid/cmdline" 2>/dev/null && echo "$pid"
}

start_registry() { # NAME PORT
  # shellcheck disable=SC2016 # for the inner shell
  as_user sh -c 'setsid docker-registry serve "$1/$2.yml" >>"$1/log/$2.log" 2>&1 </dev/null & echo $! >"$1/run/$2.pid"' sh "$DIR" "$1"
  for _ in $(seq 100); do
    port_is_free "$2" || return 0
    sleep 0.1
  done
  as_root tail -n 5 "$DIR/log/$1.log" >&2
  fail "the registry did not answer within 10 s; its log is $DIR/log/$1.log"
}

port_of() { sed -n "s/^$1: *//p" "$DIR/settings.yml"; }

is_whole() { recall && pid_of registry >/dev/null && pid_of registry-tls >/dev/null; }

fill_registry() { # the base system as an image, for everything that is built
  as_user podman import -q -c 'LABEL org.opencontainers.image.title=debian12' "$TOOLS/debian12.tar" localhost/debian:12 >/dev/null
  as_user podman push -q --tls-verify=false localhost/debian:12 "docker://127.0.0.1:$PORT/library/debian:12"
}

up() {
  need_root
  install_all
  if ! is_whole; then
    stop
    make_folder
    start_registry registry "$PORT"
    start_registry registry-tls $((PORT + 1))
    logged fill-registry fill_registry
  fi
  echo "$DIR"
}

registry() { # start | stop: a test takes the plain registry away in the middle
  need_root
  recall || fail "start it first: $0 up"
  case $1 in
    stop) end_processes "$(pid_of registry || echo 0)" ;;
    start) pid_of registry >/dev/null || start_registry registry "$(port_of port)" ;;
  esac
}

# --- the end -----------------------------------------------------------------------------------------------------

stop() {
  recall || { rm -f "$LINK"; return 0; }
  case $DIR in "$BASE"/modak-containers.*) ;; *) fail "$LINK points to $DIR, which is not a folder made by this script" ;; esac
  # shellcheck disable=SC2046 # numbers only
  end_processes $(pid_of registry || true) $(pid_of registry-tls || true)
  if [ -n "$USER_NAME" ]; then
    # shellcheck disable=SC2046
    end_processes $(ps -o pid= -u "$USER_NAME" 2>/dev/null || true)
    as_root userdel "$USER_NAME" 2>/dev/null || true
  fi
  # Charliecloud mounts images there, and the next user of that name is another one.
  as_root rm -rf "$DIR" "/var/tmp/$USER_NAME.ch"
  rm -f "$LINK"
}

status() {
  need_root
  if ! recall; then echo "down"; exit 3; fi
  for daemon in registry registry-tls; do echo "$daemon $(pid_of "$daemon" || echo down)"; done
  is_whole || exit 3
}

mkdir -p "$BUILD"
exec 9>"$BUILD/containers.lock"
case ${1:-} in
  up) flock 9; up 9>&- ;;
  down) flock 9; need_root; stop 9>&- ;;
  status) status 9>&- ;;
  install) flock 9; need_root; install_all 9>&- ;;
  registry) flock 9; registry "${2:-}" 9>&- ;;
  *) echo "usage: $0 up | down | status | install | registry start|stop" >&2; exit 2 ;;
esac
