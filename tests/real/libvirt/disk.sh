#!/bin/sh
# A disk from a root folder: a FAT partition with syslinux, the kernel and its initrd, and a root partition: disk.sh ROOT DISK
set -eu
root=$1 disk=$2 parts=$(dirname "$2")
boot=$parts/boot.fat ext=$parts/root.ext4 raw=$parts/disk.raw
truncate -s 64M "$boot"
mkfs.vfat -n BOOT "$boot"
cat >"$parts/syslinux.cfg" <<CFG
DEFAULT linux
PROMPT 0
LABEL linux
 KERNEL vmlinuz
 INITRD initrd.img
 APPEND root=/dev/vda2 rw console=ttyS0 mitigations=off net.ifnames=0 quiet
CFG
mcopy -i "$boot" "$root"/boot/vmlinuz-* ::vmlinuz
mcopy -i "$boot" "$root"/boot/initrd.img-* ::initrd.img
mcopy -i "$boot" "$parts/syslinux.cfg" ::syslinux.cfg
syslinux --install "$boot"
truncate -s 1600M "$ext"
mke2fs -q -t ext4 -F -L root -d "$root" "$ext"
truncate -s 1700M "$raw"
printf 'label: dos\nstart=2048,size=131072,type=c,bootable\nstart=133120,size=3276800,type=83\n' | sfdisk -q "$raw"
dd if=/usr/lib/syslinux/mbr/mbr.bin of="$raw" bs=440 count=1 conv=notrunc status=none
dd if="$boot" of="$raw" bs=1M seek=1 conv=notrunc,sparse status=none
dd if="$ext" of="$raw" bs=1M seek=65 conv=notrunc,sparse status=none
qemu-img convert -q -f raw -O qcow2 "$raw" "$disk"
rm -f "$boot" "$ext" "$raw"
