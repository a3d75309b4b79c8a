#!/usr/bin/env python3
"""Start Chromium without access to netlink sockets.

Chromium watches the network interfaces of its computer through a netlink socket, and aborts connections that are
being opened whenever an address appears or goes (`net::ERR_NETWORK_CHANGED`). Other tests create hosts with network
interfaces at the same time. Without the socket Chromium assumes that it is online.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import socket
import sys

# Constants of seccomp.h, libseccomp 2.5.
ALLOW = 0x7FFF0000
ERRNO = 0x00050000
EQUAL = 4


class Comparison(ctypes.Structure):
    """`struct scmp_arg_cmp` of seccomp.h."""

    _fields_ = (("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64))


def refuse_netlink() -> None:
    """Let socket(AF_NETLINK, ...) fail in this process and its children."""
    library = ctypes.CDLL("libseccomp.so.2")
    library.seccomp_init.restype = ctypes.c_void_p
    rules = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(ALLOW)))
    failure = ctypes.c_uint32(ERRNO | errno.EAFNOSUPPORT)
    call = library.seccomp_syscall_resolve_name(b"socket")
    first = Comparison(0, EQUAL, socket.AF_NETLINK, 0)
    if library.seccomp_rule_add_array(rules, failure, call, 1, ctypes.byref(first)) or library.seccomp_load(rules):
        raise OSError("the filter of system calls was refused")


def main() -> None:
    program = shutil.which("chromium-headless-shell") or shutil.which("chromium")
    if program is None:
        sys.exit("Chromium is not installed")
    refuse_netlink()
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
