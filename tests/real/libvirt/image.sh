#!/bin/sh
# What the machine image has besides its packages: image.sh ROOT
set -eu
root=$1
# The modules of cloud-init that an image needs for user data, keys and host keys; each more takes seconds where the
# processor is emulated.
cat >"$root/etc/cloud/cloud.cfg.d/99_rig.cfg" <<CFG
datasource_list: [NoCloud, None]
manage_etc_hosts: true
cloud_init_modules: [seed_random, bootcmd, write-files, set_hostname, update_hostname, update_etc_hosts, users-groups, ssh]
cloud_config_modules: [set-passwords, runcmd]
cloud_final_modules: [scripts-user, final-message]
CFG
echo "/dev/vda2 / ext4 rw,errors=remount-ro 0 1" >"$root/etc/fstab"
chroot "$root" systemctl enable systemd-networkd ssh
chroot "$root" systemctl mask apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer \
  e2scrub_reap.service fstrim.timer systemd-networkd-wait-online.service systemd-binfmt.service
rm -f "$root"/etc/ssh/ssh_host_* # each instance gets its own by cloud-init
: >"$root/etc/machine-id"
