#!/bin/bash
# The parts of Kubernetes 1.20.2 from Debian's source package, kubectl and etcd: build.sh CACHE MIRROR [fetch]
# Nothing is installed: the packages are unpacked below CACHE. Each step leaves a mark and is not done again.
set -eu
CACHE=$(mkdir -p "$1" && cd "$1" && pwd)
MIRROR=$2
KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg
export GOROOT=$CACHE/root/usr/lib/go-1.19 GOPATH=$CACHE/go GOCACHE=$CACHE/gocache GO111MODULE=off CGO_ENABLED=0 GOFLAGS=-p=2
export GOMAXPROCS=${GOMAXPROCS:-2} LC_ALL=C.UTF-8
SOURCE=$GOPATH/src/k8s.io/kubernetes
mkdir -p "$CACHE/bin" "$CACHE/apt/lists/partial" "$CACHE/apt/archives/partial" "$CACHE/download"

own_apt() { # sources and package lists of its own: the machine's are left alone
  local action=$1
  shift
  "$action" -o "Dir::Etc::sourcelist=$CACHE/apt/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$CACHE/apt/lists" \
    -o "Dir::Cache=$CACHE/apt" -o APT::Sandbox::User=root "$@"
}

if [ ! -e "$CACHE/unpacked" ]; then
  {
    echo "deb [signed-by=$KEYRING] $MIRROR bookworm main"
    echo "deb-src [signed-by=$KEYRING] $MIRROR bookworm main"
  } >"$CACHE/apt/sources.list"
  own_apt apt-get -q update
  cd "$CACHE/download"
  own_apt apt-get -q download golang-1.19-go golang-1.19-src etcd-server kubernetes-client \
    golang-github-modern-go-reflect2-dev
  own_apt apt-get -q --download-only source kubernetes
  for package in *.deb; do dpkg-deb --extract "$package" "$CACHE/root"; done
  rm -rf "$SOURCE"
  mkdir -p "${SOURCE%/*}"
  dpkg-source --extract kubernetes_*.dsc "$SOURCE"
  # reflect2 1.0.1 of the source calls mapiterinit as Go had it before 1.18 (golang/go#46293), and crashes; 1.0.2 does not.
  rm "$SOURCE"/vendor/github.com/modern-go/reflect2/*.go "$SOURCE"/vendor/github.com/modern-go/reflect2/*.s
  cp "$CACHE"/root/usr/share/gocode/src/github.com/modern-go/reflect2/*.{go,s} "$SOURCE/vendor/github.com/modern-go/reflect2"
  cp "$CACHE/root/usr/bin/etcd" "$CACHE/root/usr/bin/kubectl" "$CACHE/bin"
  touch "$CACHE/unpacked"
fi
[ "${3:-}" != fetch ] || exit 0

cd "$SOURCE"
PATH=$GOROOT/bin:$PATH
if [ ! -e "$CACHE/generated" ]; then # the tarball lacks what openapi-gen makes
  go build -o "$CACHE/bin/openapi-gen" k8s.io/kubernetes/vendor/k8s.io/kube-openapi/cmd/openapi-gen
  inputs=$(grep -Rl '^// +k8s:openapi-gen=true' --include=*.go vendor/k8s.io pkg staging 2>/dev/null | xargs -n 1 dirname | sort -u)
  packages=
  for folder in $inputs; do
    case $folder in
    *testdata* | *_examples* | *sample-* | staging/* | *kube-openapi* | *code-generator*) ;;
    vendor/*) packages=$packages,${folder#vendor/} ;;
    *) packages=$packages,k8s.io/kubernetes/$folder ;;
    esac
  done
  mkdir -p pkg/generated/openapi
  "$CACHE/bin/openapi-gen" --logtostderr -O zz_generated.openapi -h hack/boilerplate/boilerplate.generatego.txt \
    --output-base "$GOPATH/src" -p k8s.io/kubernetes/pkg/generated/openapi -r /dev/null -i "${packages#,}"
  touch "$CACHE/generated"
fi
for program in kube-apiserver kube-controller-manager kube-scheduler; do
  [ -x "$CACHE/bin/$program" ] || go build -ldflags="-s -w" -o "$CACHE/bin/$program" "k8s.io/kubernetes/cmd/$program"
done
touch "$CACHE/complete"
