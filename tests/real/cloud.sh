#!/bin/bash
# Moto and the Ansible collections of cloud providers, in a folder of their own that stays: cloud.sh up | down
# MODAK_CLOUD_VENV names another folder than /var/tmp/modak-cloud. Moto is started by the tests themselves.
set -eu
VENV=${MODAK_CLOUD_VENV:-/var/tmp/modak-cloud}

up() {
    [ ! -e "$VENV/complete" ] || return 0
    command -v ip >/dev/null && command -v sshd >/dev/null || apt-get install -y --no-install-recommends iproute2 openssh-server
    /usr/bin/python3 -m venv "$VENV"
    "$VENV/bin/pip" install -q 'moto[server,ec2]' boto3 pyyaml
    "$VENV/bin/python" "$(dirname "$0")/take_collection.py" "$VENV" amazon/aws
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
