#!/bin/sh
# What the machine image has besides its packages: image.sh ROOT
set -eu
root=$1
cat >"$root/etc/cloud/cloud.cfg.d/99_rig.cfg" <<CFG
datasource_list: [NoCloud, None]
apt_preserve_sources_list: true
manage_etc_hosts: true
CFG
echo "/dev/vda2 / ext4 rw,errors=remount-ro 0 1" >"$root/etc/fstab"
chroot "$root" systemctl enable systemd-networkd ssh
chroot "$root" systemctl mask apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer \
  e2scrub_reap.service fstrim.timer systemd-networkd-wait-online.service
rm -f "$root"/etc/ssh/ssh_host_* # each instance gets its own by cloud-init
: >"$root/etc/machine-id"
