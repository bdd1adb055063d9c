#!/usr/bin/env bash
# Sets up a real PostgreSQL on loopback, with a password, in a folder of its own: up | status | down.
# 'up' prints the address of an empty database. README.md beside this file says what the exit codes mean.
set -euo pipefail
PATH=$PATH:$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -n 1) # Debian keeps initdb off the path
NAME=postgresql
PROGRAMS="initdb pg_ctl"
PACKAGES=(postgresql)
# shellcheck source=tests/real/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
LINK=$BUILD/postgresql

as_server() { as_root runuser -u postgres -- env "PATH=$PATH" "$@"; }
folder() { readlink "$LINK" 2>/dev/null || true; }
running() { [ -n "$(folder)" ] && as_server pg_ctl -D "$(folder)/data" status >/dev/null 2>&1; }

start() { # FOLDER: tries ports until one is free
  local port
  for port in $(seq 17900 17999); do
    if as_server pg_ctl -D "$1/data" -w -t 60 -l "$1/log" -o "-p $port -h 127.0.0.1 -k $1" start >/dev/null 2>&1; then
      echo "$port"
      return
    fi
  done
  as_root tail -n 20 "$1/log" >&2
  fail "the server does not start"
}

up() {
  local dir port word
  if running; then cat "$BUILD/postgresql.address"; return; fi
  need_root
  install_packages
  down
  dir=$(as_root mktemp -d "$BASE/modak-postgresql.XXXXXX")
  as_root chown postgres "$dir"
  mkdir -p "$BUILD"
  ln -sfn "$dir" "$LINK"
  word=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
  printf '%s' "$word" | as_root tee "$dir/word" >/dev/null
  as_root chown postgres "$dir/word"
  logged initdb as_server initdb -D "$dir/data" -U modak -A scram-sha-256 --pwfile="$dir/word" -E UTF8 --no-locale -N
  as_root rm -f "$dir/word"
  port=$(start "$dir")
  (umask 077; echo "postgresql://modak:$word@127.0.0.1:$port/postgres" >"$BUILD/postgresql.address")
  cat "$BUILD/postgresql.address"
}

down() {
  local dir
  dir=$(folder)
  [ -n "$dir" ] || return 0
  need_root
  if running; then as_server pg_ctl -D "$dir/data" -m immediate stop >/dev/null; fi
  as_root rm -rf "$dir"
  rm -f "$LINK" "$BUILD/postgresql.address"
}

case "${1:-}" in
  up) up ;;
  status) if running; then echo "running in $(folder)"; else exit 3; fi ;;
  down) down ;;
  *) fail "usage: postgresql.sh up | status | down" ;;
esac
