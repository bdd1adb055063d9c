"""User data for cloud-init: who may log in, the host key, the lease, the container runtime."""

import re
from collections.abc import Sequence

import yaml

_LEASE = """#!/bin/sh
# Ends this instance when its lease is over, whoever still knows of it. The end is kept, so that a reboot does not
# lengthen the lease; where the clock is set back, the seconds slept count.
set -u
record=${MODAK_LEASE_RECORD:-/var/lib/modak-lease}
if [ ! -s "$record" ]; then
    echo $(($(date +%s) + LEASE)) >"$record.new" && sync && mv "$record.new" "$record"
fi
read -r end <"$record" || end=$(($(date +%s) + LEASE))
left=LEASE
while [ "$left" -gt 0 ] && [ "$(date +%s)" -lt "$end" ]; do
    if [ "$left" -lt 10 ]; then pause=$left; else pause=10; fi
    sleep "$pause"
    left=$((left - pause))
done
exec ${MODAK_LEASE_END:-systemctl poweroff}
"""
_UNIT = """[Unit]
Description=End of this instance when its lease is over
[Service]
ExecStart=/usr/local/sbin/modak-lease
Restart=on-failure
[Install]
WantedBy=multi-user.target
"""
_KEY = re.compile(r"ssh-ed25519 [A-Za-z0-9+/=]{40,200}")
READY = "/run/modak-ready"
"""File that cloud-init makes at its end."""


def lease_script(seconds: int) -> str:
    """Return the program that ends the instance after ``seconds``."""
    return _LEASE.replace("LEASE)", f"{seconds})").replace("left=LEASE", f"left={seconds}")


def user_data(*, public_key: str, host_key: str, host_public_key: str, lease: int, packages: Sequence[str] = ()) -> str:
    """Return the user data of an instance; it holds the private half of the host key, and is a secret."""
    content = {
        "ssh_deletekeys": True,
        "ssh_genkeytypes": [],
        "ssh_keys": {"ed25519_private": host_key, "ed25519_public": host_public_key},
        "ssh_authorized_keys": [public_key],
        "ssh_pwauth": False,
        "disable_root": True,
        "write_files": [
            {"path": "/usr/local/sbin/modak-lease", "permissions": "0755", "content": lease_script(lease)},
            {"path": "/etc/systemd/system/modak-lease.service", "permissions": "0644", "content": _UNIT},
        ],
        # Before the packages, which may hang: cloud-init installs them after bootcmd and write_files, and runs runcmd
        # last (cloud.cfg.tmpl of cloud-init 22.4), so that they are installed here in its place.
        "runcmd": [
            ["systemctl", "daemon-reload"],
            ["systemctl", "enable", "--now", "modak-lease.service"],
            *(["sh", "-c", _install(package)] for package in packages),
            ["touch", READY],
        ],
    }
    return "#cloud-config\n" + yaml.safe_dump(content, sort_keys=False, width=1000)


def _install(package: str) -> str:
    managers = [
        f"apt-get update && DEBIAN_FRONTEND=noninteractive apt-get -y install {package}",
        f"dnf -y install {package}",
        f"zypper -n install {package}",
    ]
    return f"command -v {package} || " + " || ".join(f"{{ {manager}; }}" for manager in managers)


def host_key_in(text: str) -> str | None:
    """Return the public host key in user data that modak wrote; None where there is none.

    Nothing but one regular expression looks at it: whoever may change user data could make a parser work for ever.
    """
    match = _KEY.search(text.partition("ed25519_public:")[2][:400])
    return match.group(0) if match else None
