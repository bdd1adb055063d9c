"""Bring up this network's loopback device: there is no ip command here."""

import fcntl
import socket
import struct

SIOCSIFFLAGS, IFF_UP, IFF_LOOPBACK, IFF_RUNNING = 0x8914, 0x1, 0x8, 0x40
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
    request = struct.pack("16sh14x", b"lo", IFF_UP | IFF_LOOPBACK | IFF_RUNNING)
    fcntl.ioctl(control, SIOCSIFFLAGS, request)
