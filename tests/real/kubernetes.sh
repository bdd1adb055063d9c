#!/bin/bash
# A cluster of Kubernetes 1.20: API server, controller manager and scheduler from Debian's source package, Debian's etcd,
# and a kubelet that is played: kubernetes.sh up | down | folder
# MODAK_KUBERNETES_CACHE names another folder for the programs than /var/tmp/modak-kubernetes. Building takes 6 minutes once.
set -eu
NAME=kubernetes
PROGRAMS="curl openssl python3 dpkg-deb dpkg-source"
PACKAGES=(curl openssl python3 dpkg dpkg-dev)
# shellcheck source=tests/real/common.sh
. "$(dirname "$0")/common.sh"
CACHE=${MODAK_KUBERNETES_CACHE:-/var/tmp/modak-kubernetes}
MARK=$BUILD/kubernetes.folder # where this checkout's cluster lies

free_ports() { # COUNT: ports that nobody listens on now
  python3 - "$1" <<'PY'
import socket
import sys

sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(int(sys.argv[1]))]
print(*(each.getsockname()[1] for each in sockets))
PY
}

started() { # NAME COMMAND...: in the background, its pid kept
  local name=$1
  shift
  "$@" >"$FOLDER/$name.log" 2>&1 </dev/null &
  echo $! >"$FOLDER/$name.pid"
}

until_true() { # SECONDS WHAT COMMAND...
  local end=$((SECONDS + $1)) what=$2
  shift 2
  until "$@" >/dev/null 2>&1; do
    [ "$SECONDS" -lt "$end" ] || fail "$what is not ready; its log is in $FOLDER"
    sleep 0.3
  done
}

alive() { # is this checkout's cluster up?
  [ -s "$MARK" ] || return 1
  FOLDER=$(cat "$MARK")
  local name
  for name in etcd apiserver controllers scheduler kubelet; do
    [ -s "$FOLDER/$name.pid" ] && runs "$(cat "$FOLDER/$name.pid")" || return 1
  done
}

start_kubelet() {
  started kubelet python3 "$HERE/kubelet.py" "https://127.0.0.1:$API" "$FOLDER/token" node-1 "$FOLDER/pods" "$KUBELET" \
    "$FOLDER/kubelet.crt" "$FOLDER/kubelet.key"
}

settings() { # the files of a new cluster
  openssl rand -hex 24 >"$FOLDER/token"
  echo "$(cat "$FOLDER/token"),admin,admin,system:masters" >"$FOLDER/tokens.csv"
  openssl genrsa -out "$FOLDER/sa.key" 2048 2>/dev/null
  openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=node-1 -days 30 -keyout "$FOLDER/kubelet.key" \
    -out "$FOLDER/kubelet.crt" 2>/dev/null
  cat >"$FOLDER/kubeconfig" <<CONFIG
apiVersion: v1
kind: Config
current-context: test
clusters: [{name: test, cluster: {server: "https://127.0.0.1:$API", certificate-authority: "$FOLDER/certs/apiserver.crt"}}]
users: [{name: admin, user: {token: "$(cat "$FOLDER/token")"}}]
contexts: [{name: test, context: {cluster: test, user: admin}}]
CONFIG
}

build() {
  local site
  [ ! -e "$CACHE/complete" ] || return 0
  site=$(mirror debian)
  if [ -z "$site" ]; then cannot "Kubernetes is built from Debian's source package, and apt here has no mirror of Debian"; fi
  say "building Kubernetes in $CACHE"
  (logged kubernetes-fetch "$HERE/kubernetes/build.sh" "$CACHE" "$site" fetch) || cannot "its source package cannot be fetched"
  logged kubernetes-build "$HERE/kubernetes/build.sh" "$CACHE" "$site"
}

up() {
  install_packages
  build
  ! alive || return 0
  down
  mkdir -p "$BUILD"
  FOLDER=$(umask 077 && mktemp -d "$BASE/modak-kubernetes-run.XXXXXX")
  echo "$FOLDER" >"$MARK"
  read -r ETCD PEER API KUBELET <<<"$(free_ports 4)"
  echo "API=$API KUBELET=$KUBELET" >"$FOLDER/ports"
  umask 077
  ln -s "$CACHE/bin" "$FOLDER/bin"
  settings
  started etcd "$CACHE/bin/etcd" --data-dir "$FOLDER/etcd" --listen-client-urls "http://127.0.0.1:$ETCD" --advertise-client-urls \
    "http://127.0.0.1:$ETCD" --listen-peer-urls "http://127.0.0.1:$PEER" --unsafe-no-fsync
  until_true 30 etcd curl -sf "http://127.0.0.1:$ETCD/health"
  # ServiceAccount: its tokens are of no use to pods here.
  started apiserver "$CACHE/bin/kube-apiserver" "--etcd-servers=http://127.0.0.1:$ETCD" --bind-address=127.0.0.1 \
    "--secure-port=$API" "--cert-dir=$FOLDER/certs" "--token-auth-file=$FOLDER/tokens.csv" --authorization-mode=RBAC \
    --service-cluster-ip-range=10.96.0.0/24 "--service-account-key-file=$FOLDER/sa.key" \
    "--service-account-signing-key-file=$FOLDER/sa.key" --service-account-issuer=https://kubernetes.default.svc \
    --disable-admission-plugins=ServiceAccount --advertise-address=127.0.0.1 --endpoint-reconciler-type=none
  until_true 90 "the API server" curl -sfk -H "Authorization: Bearer $(cat "$FOLDER/token")" "https://127.0.0.1:$API/readyz"
  # 8 s without a heartbeat instead of 40 make a node lost: tests wait for it.
  started controllers "$CACHE/bin/kube-controller-manager" "--kubeconfig=$FOLDER/kubeconfig" --leader-elect=false --port=0 \
    --secure-port=0 --node-monitor-period=1s --node-monitor-grace-period=8s "--service-account-private-key-file=$FOLDER/sa.key"
  started scheduler "$CACHE/bin/kube-scheduler" "--kubeconfig=$FOLDER/kubeconfig" --leader-elect=false --port=0 --secure-port=0
  start_kubelet
  until_true 60 "the node" curl -sfk -H "Authorization: Bearer $(cat "$FOLDER/token")" \
    "https://127.0.0.1:$API/api/v1/nodes/node-1"
  until_true 60 "the namespace" curl -sfk -H "Authorization: Bearer $(cat "$FOLDER/token")" \
    "https://127.0.0.1:$API/api/v1/namespaces/default"
}

down() {
  [ -s "$MARK" ] || return 0
  FOLDER=$(cat "$MARK")
  local name pids=()
  for name in kubelet scheduler controllers apiserver etcd; do
    [ ! -s "$FOLDER/$name.pid" ] || pids+=("$(cat "$FOLDER/$name.pid")")
  done
  [ ${#pids[@]} = 0 ] || end_processes "${pids[@]}"
  rm -rf "$FOLDER" "$MARK"
}

kubelet() { # start it anew, after a test has killed it
  alive || FOLDER=$(cat "$MARK")
  # shellcheck source=/dev/null
  . "$FOLDER/ports"
  start_kubelet
}

case "${1:-}" in
up | down | kubelet) "$1" ;;
folder) cat "$MARK" ;;
*)
  echo "usage: $0 up|down|folder|kubelet" >&2
  exit 2
  ;;
esac
