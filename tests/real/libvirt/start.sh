#!/bin/bash
# Inside the rig's own namespaces: libvirtd with its own configuration and state, the network and the storage pool of the
# tests. start.sh FOLDER: ends when libvirtd ends.
set -eu
FOLDER=$1
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
for folder in /etc/libvirt /var/lib/libvirt /var/cache/libvirt /var/log/libvirt; do
  mkdir -p "$folder" "$FOLDER/own$folder"
  mount --bind "$FOLDER/own$folder" "$folder"
done
# libvirtd of Debian looks for this user and group before it reads which ones it is to take.
for file in passwd group; do cp "/etc/$file" "$FOLDER/$file"; done
grep -q '^libvirt-qemu:' "$FOLDER/passwd" || echo 'libvirt-qemu:x:64055:64055::/nonexistent:/usr/sbin/nologin' >>"$FOLDER/passwd"
for group in libvirt-qemu:64055 kvm:64056; do
  grep -q "^${group%:*}:" "$FOLDER/group" || echo "${group%:*}:x:${group#*:}:" >>"$FOLDER/group"
done
for file in passwd group; do mount --bind "$FOLDER/$file" "/etc/$file"; done
# Without hardware virtualisation a device of that name is of no use, and libvirt would believe in it.
if [ -e /dev/kvm ] && ! grep -qwE 'vmx|svm' /proc/cpuinfo; then mount --bind /dev/null /dev/kvm; fi
ip link set lo up
cat >/etc/libvirt/libvirtd.conf <<CONF
unix_sock_dir = "$FOLDER/sock"
unix_sock_group = "root"
unix_sock_rw_perms = "0700"
auth_unix_ro = "none"
auth_unix_rw = "none"
log_outputs = "3:file:$FOLDER/libvirtd.log"
CONF
# No cgroup and no mount namespace of a guest: this kernel's are not those that libvirt wants.
cat >/etc/libvirt/qemu.conf <<CONF
user = "root"
group = "root"
security_driver = "none"
cgroup_controllers = [ ]
namespaces = [ ]
stdio_handler = "file"
dynamic_ownership = 0
remember_owner = 0
CONF
cat >"$FOLDER/network.xml" <<XML
<network>
  <name>inside</name>
  <forward mode='open'/>
  <bridge name='virbr-modak' stp='off' delay='0'/>
  <dns enable='no'/>
  <ip address='192.168.77.1' netmask='255.255.255.0'><dhcp><range start='192.168.77.10' end='192.168.77.99'/></dhcp></ip>
</network>
XML
cat >"$FOLDER/pool.xml" <<XML
<pool type='dir'><name>images</name><target><path>$FOLDER/images</path></target></pool>
XML
mkdir -p "$FOLDER/sock" "$FOLDER/images" /run/dbus
/usr/sbin/libvirtd -f /etc/libvirt/libvirtd.conf &
libvirtd=$!
export LIBVIRT_DEFAULT_URI="qemu:///system?socket=$FOLDER/sock/libvirt-sock"
until virsh -q list >/dev/null 2>&1; do
  kill -0 "$libvirtd" || exit 1
  sleep 0.2
done
virsh -q net-define "$FOLDER/network.xml"
virsh -q net-start inside
virsh -q pool-define "$FOLDER/pool.xml"
virsh -q pool-start images
touch "$FOLDER/ready"
wait "$libvirtd"
