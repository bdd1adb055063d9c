#!/usr/bin/env bash
# Sets up a real Swift on loopback without authentication, one replica, in a folder of its own: up | status | down.
# 'up' prints its folder, which has 'endpoint' and 'packages' with openstacksdk. README.md says what the exit codes mean.
set -euo pipefail
NAME=swift
PROGRAMS="swift-proxy-server swift-account-server swift-container-server swift-object-server swift-ring-builder"
PACKAGES=(swift-proxy swift-account swift-container swift-object)
# shellcheck source=tests/real/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
LINK=$BUILD/swift
KINDS=(account container object)

folder() { readlink "$LINK" 2>/dev/null || true; }
running() {
  local pid
  [ -s "$LINK/pids" ] || return 1
  while read -r pid; do [ -d "/proc/$pid" ] || return 1; done <"$LINK/pids"
}

free_ports() { # the first of four ports that nobody listens on
  local first
  for first in $(seq 18400 4 18596); do
    if ! ss -Hltn | grep -qE "127\.0\.0\.1:($first|$((first + 1))|$((first + 2))|$((first + 3))) "; then
      echo "$first"
      return
    fi
  done
  fail "no four free ports from 18400 on"
}

common() { # FOLDER PORT
  printf '[DEFAULT]\nbind_ip = 127.0.0.1\nbind_port = %s\nuser = %s\nswift_dir = %s\nworkers = 0\nlog_address = /nonexistent\n' \
    "$2" "$(id -un)" "$1/etc"
}

configure() { # FOLDER PORT
  local kind port=$2
  mkdir -p "$1/etc" "$1/node/d1"
  for kind in "${KINDS[@]}"; do
    port=$((port + 1))
    (
      cd "$1/etc"
      swift-ring-builder "$kind.builder" create 4 1 0
      swift-ring-builder "$kind.builder" add "r1z1-127.0.0.1:$port/d1" 1
      swift-ring-builder "$kind.builder" rebalance
    )
    {
      common "$1" "$port"
      printf 'devices = %s\nmount_check = false\n[pipeline:main]\npipeline = %s-server\n' "$1/node" "$kind"
      printf '[app:%s-server]\nuse = egg:swift#%s\n' "$kind" "$kind"
    } >"$1/etc/$kind-server.conf"
  done
  {
    common "$1" "$2"
    printf '[pipeline:main]\npipeline = catch_errors listing_formats slo dlo proxy-server\n'
    printf '[app:proxy-server]\nuse = egg:swift#proxy\naccount_autocreate = true\n'
    for kind in catch_errors listing_formats slo dlo; do printf '[filter:%s]\nuse = egg:swift#%s\n' "$kind" "$kind"; done
  } >"$1/etc/proxy-server.conf"
}

answers() { python3 -c 'import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=5)' "$1" 2>/dev/null; }

up() {
  local dir port kind
  if running; then folder; return; fi
  need_root
  install_packages
  down
  dir=$(mktemp -d "$BASE/modak-swift.XXXXXX")
  mkdir -p "$BUILD"
  ln -sfn "$dir" "$LINK"
  port=$(free_ports)
  logged swift-rings configure "$dir" "$port"
  logged swift-sdk "$TOP/.venv/bin/python" -m pip install -q --target "$dir/packages" 'openstacksdk<4.8'
  for kind in "${KINDS[@]}" proxy; do
    setsid "swift-$kind-server" "$dir/etc/$kind-server.conf" >"$dir/$kind.log" 2>&1 </dev/null &
    echo $! >>"$dir/pids"
  done
  echo "http://127.0.0.1:$port/v1/AUTH_modak" >"$dir/endpoint"
  for _ in $(seq 60); do
    if answers "$(cat "$dir/endpoint")"; then echo "$dir"; return; fi
    sleep 1
  done
  tail -n 5 "$dir"/*.log >&2
  fail "Swift does not answer"
}

down() {
  local dir pid
  dir=$(folder)
  [ -n "$dir" ] || return 0
  if [ -s "$dir/pids" ]; then
    while read -r pid; do kill -- "-$pid" 2>/dev/null || kill "$pid" 2>/dev/null || true; done <"$dir/pids"
  fi
  rm -rf "$dir"
  rm -f "$LINK"
}

case "${1:-}" in
  up) up ;;
  status) if running; then folder; else exit 3; fi ;;
  down) down ;;
  *) fail "usage: swift.sh up | status | down" ;;
esac
