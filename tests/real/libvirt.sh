#!/bin/bash
# A real libvirt with QEMU in namespaces of its own (network, processes, mounts), and a Debian with cloud-init as the
# machine image of its instances: libvirt.sh up | down | status | folder | run
# MODAK_LIBVIRT_CACHE names another folder than /var/tmp/modak-libvirt for the machine image, and for a Python with the
# Ansible collection.
set -euo pipefail
NAME=libvirt
PROGRAMS="mmdebstrap unshare nsenter python3 ip ssh-keygen libvirtd virsh qemu-system-x86_64 qemu-img dnsmasq syslinux mcopy mkfs.vfat sfdisk mke2fs"
PACKAGES=(mmdebstrap util-linux python3 python3-venv iproute2 openssh-client libvirt-daemon libvirt-daemon-driver-qemu libvirt-clients
  python3-libvirt python3-lxml qemu-system-x86 qemu-utils dnsmasq-base iptables syslinux syslinux-common mtools dosfstools fdisk e2fsprogs)
# shellcheck source=tests/real/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
CACHE=${MODAK_LIBVIRT_CACHE:-/var/tmp/modak-libvirt}
MARK=$BUILD/libvirt.folder # where this checkout's rig lies
IMAGE=$CACHE/debian-12.qcow2
INCLUDED=linux-image-cloud-amd64,initramfs-tools,lz4,systemd-sysv,cloud-init,openssh-server,python3-minimal,python3-apt-,sudo
INCLUDED=$INCLUDED,iproute2,netplan.io,dbus,kmod,udev,busybox-static

make_image() { # a disk with a boot loader, as a user has it: nothing here needs a loop device
  local site new
  [ ! -e "$IMAGE" ] || return 0
  site=$(mirror debian)
  if [ -z "$site" ]; then cannot "the machine image is made of Debian's packages, and apt here has no mirror of Debian"; fi
  say "making a machine image in $CACHE: 500 MB, two minutes"
  new=$CACHE/new.$$
  rm -rf "$new"
  mkdir -p "$new"
  # What takes long to boot where the processor is emulated is left out: no recommended packages, a small initrd.
  # shellcheck disable=SC2016 # mmdebstrap's shell
  logged libvirt-debian mmdebstrap --variant=minbase "--include=$INCLUDED" --aptopt='APT::Install-Recommends "false"' \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
    --essential-hook='mkdir -p "$1/etc/initramfs-tools/conf.d"; printf "MODULES=list\nCOMPRESS=lz4\n" >"$1/etc/initramfs-tools/conf.d/small"
      printf "virtio_pci\nvirtio_blk\nvirtio_net\next4\ncrc32c_generic\n" >"$1/etc/initramfs-tools/modules"' \
    --customize-hook="$SCRIPTS/image.sh \"\$1\"" bookworm "$new/root" "$site"
  logged libvirt-disk "$SCRIPTS/disk.sh" "$new/root" "$new/disk.qcow2"
  mv "$new/disk.qcow2" "$IMAGE"
  rm -rf "$new"
}

make_client() { # a Python with what the collection needs: libvirt's own module is the system's
  local venv=$CACHE/venv
  [ ! -e "$venv/complete" ] || return 0
  say "making a Python with the collection in $venv"
  /usr/bin/python3 -m venv --system-site-packages "$venv"
  logged libvirt-python "$venv/bin/pip" install -q pycdlib pyyaml
  logged libvirt-collection "$venv/bin/python" "$HERE/take_collection.py" "$venv" community/libvirt
  touch "$venv/complete"
}

alive() { # is this checkout's rig up?
  [ -s "$MARK" ] || return 1
  FOLDER=$(cat "$MARK")
  [ -s "$FOLDER/pid" ] && [ -e "$FOLDER/ready" ] && runs "$(cat "$FOLDER/pid")"
}

up() {
  if [ "$(id -u)" != 0 ]; then cannot "it takes root"; fi
  install_packages
  mkdir -p "$CACHE" "$BUILD"
  make_image
  make_client
  if alive; then
    echo "$FOLDER"
    return 0
  fi
  down
  FOLDER=$(umask 077 && mktemp -d "$BASE/modak-libvirt-run.XXXXXX")
  echo "$FOLDER" >"$MARK"
  mkdir "$FOLDER/images"
  ln "$IMAGE" "$FOLDER/images/debian-12.qcow2" 2>/dev/null || cp "$IMAGE" "$FOLDER/images/debian-12.qcow2"
  # The first process in there ends with its parent, and everything else with it, guests among them.
  unshare --net --mount --uts --ipc --pid --fork --kill-child bash "$SCRIPTS/start.sh" "$FOLDER" >"$FOLDER/log" 2>&1 </dev/null &
  echo $! >"$FOLDER/pid"
  local end=$((SECONDS + 120))
  until [ -e "$FOLDER/ready" ]; do
    runs "$(cat "$FOLDER/pid")" || { tail -n 5 "$FOLDER/log" "$FOLDER/libvirtd.log" >&2; fail "it ended; its logs are in $FOLDER"; }
    [ "$SECONDS" -lt "$end" ] || fail "it is not ready; its logs are in $FOLDER"
    sleep 0.2
  done
  echo "$FOLDER"
}

down() {
  [ -s "$MARK" ] || return 0
  FOLDER=$(cat "$MARK")
  if [ -s "$FOLDER/pid" ]; then end_processes "$(cat "$FOLDER/pid")"; fi
  rm -rf "$FOLDER" "$MARK"
}

status() {
  alive || return 3
  echo "$FOLDER, process $(cat "$FOLDER/pid")"
}

run() { # COMMAND...: in its network
  alive || fail "it is not up"
  local first
  first=$(pgrep -P "$(cat "$FOLDER/pid")" | head -n 1)
  exec env "LIBVIRT_DEFAULT_URI=qemu:///system?socket=$FOLDER/sock/libvirt-sock" nsenter "--net=/proc/${first:?}/ns/net" "$@"
}

SCRIPTS=$HERE/libvirt
command=${1:-}
[ $# = 0 ] || shift
case "$command" in
up | down | status) "$command" ;;
run) run "$@" ;;
folder) cat "$MARK" ;;
*)
  echo "usage: $0 up|down|status|folder|run COMMAND" >&2
  exit 2
  ;;
esac
