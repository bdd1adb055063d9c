#!/bin/bash
# Moto and the Ansible collections of cloud providers, in a folder of their own that stays: cloud.sh up | down
# MODAK_CLOUD_VENV names another folder than /var/tmp/modak-cloud. Moto is started by the tests themselves.
set -eu
VENV=${MODAK_CLOUD_VENV:-/var/tmp/modak-cloud}
ANSIBLE=12.3.0 # the package on PyPI, from which the collections are taken: Galaxy need not be reachable

up() {
    [ ! -e "$VENV/complete" ] || return 0
    command -v ip >/dev/null && command -v sshd >/dev/null || apt-get install -y --no-install-recommends iproute2 openssh-server
    /usr/bin/python3 -m venv "$VENV"
    "$VENV/bin/pip" install -q 'moto[server,ec2]' boto3 pyyaml
    mkdir -p "$VENV/download" "$VENV/collections"
    "$VENV/bin/pip" download -q --no-deps -d "$VENV/download" "ansible==$ANSIBLE"
    "$VENV/bin/python" - "$VENV" "$ANSIBLE" <<'PY'
import sys
import zipfile

venv, version = sys.argv[1:]
with zipfile.ZipFile(f"{venv}/download/ansible-{version}-py3-none-any.whl") as wheel:
    names = [name for name in wheel.namelist() if name.startswith("ansible_collections/amazon/aws/")]
    wheel.extractall(f"{venv}/collections", names)
PY
    rm -r "$VENV/download"
    touch "$VENV/complete"
}

case "${1:-}" in
up) up ;;
down) ;;
*)
    echo "usage: $0 up|down" >&2
    exit 2
    ;;
esac
