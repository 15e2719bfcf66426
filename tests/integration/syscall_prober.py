"""Makes the system calls that seccomp profile ``strict`` is about and prints, as JSON, what became of each.

Runs inside a box, where there is nothing but Python's standard library: its text is piped to an interpreter. Numbers
are those of x86_64. Arguments are such that a call that reaches the kernel does no harm; where the kernel looks at
arguments before rights it complains about them, so that EPERM is the filter's word.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import socket
import sys

BAD = ctypes.c_void_p(1)  # an address that nothing lies at
SELF = os.getpid()
NEW_USER, SIGNAL_CHILD, EMPTY_PATH = 0x10000000, 17, 0x1000
PR_SET_NAME, PR_SET_SECCOMP, SECCOMP_SET_FILTER, SECCOMP_ACTION_KNOWN = 15, 22, 1, 2
CUT_TO_32_BITS = ctypes.c_ulong((1 << 32) | PR_SET_SECCOMP)
NETLINK_ROUTE, NETLINK_UEVENT, AF_ALG, AF_BLUETOOTH, AF_VSOCK = 0, 15, 38, 31, 40

CALLS = {
    "memfd_create": (319, b"x", 0),
    "ptrace": (101, 0, 0, 0, 0),
    "bpf": (321, 0, BAD, 4096),
    "process_vm_readv": (310, SELF, 0, 0, 0, 0, 0),
    "process_vm_writev": (311, SELF, 0, 0, 0, 0, 0),
    "pidfd_open": (434, SELF, 0),
    "pidfd_getfd": (438, -1, 0, 0),
    "pidfd_send_signal": (424, -1, 0, 0, 0),
    "io_uring_setup": (425, 1, BAD),
    "io_uring_enter": (426, -1, 0, 0, 0, 0, 0),
    "io_uring_register": (427, -1, 0, 0, 0),
    "mount": (165, BAD, BAD, BAD, 0, 0),
    "mount_setattr": (442, -1, BAD, 0, 0, 0),
    "umount2": (166, BAD, 0),
    "fsopen": (430, BAD, 0),
    "fsconfig": (431, -1, 0, 0, 0, 0),
    "fsmount": (432, -1, 0, 0),
    "fspick": (433, -1, BAD, 0),
    "move_mount": (429, -1, BAD, -1, BAD, 0),
    "open_tree": (428, -1, BAD, 0),
    "pivot_root": (155, BAD, BAD),
    "setns": (308, -1, 0),
    "unshare of users": (272, NEW_USER),
    "clone of users": (56, NEW_USER | SIGNAL_CHILD, 0, 0, 0, 0),
    "clone3": (435, 0, 0),
    "userfaultfd": (323, 1),
    "perf_event_open": (298, BAD, 0, -1, -1, 0),
    "kexec_load": (246, 0, 0, 0, 0),
    "kexec_file_load": (320, -1, -1, 0, 0, 0),
    "init_module": (175, BAD, 0, BAD),
    "finit_module": (313, -1, BAD, 0),
    "delete_module": (176, BAD, 0),
    "add_key": (248, BAD, BAD, 0, 0, 0),
    "request_key": (249, BAD, BAD, 0, 0),
    "keyctl": (250, 0, 0, 0, 0, 0),
    "personality without randomness": (135, 0x40000),
    "execveat of an empty path": (322, -1, b"", 0, 0, EMPTY_PATH),
    "seccomp filter": (317, SECCOMP_SET_FILTER, 0, BAD),
    "seccomp filter by prctl": (157, PR_SET_SECCOMP, 2, BAD, 0, 0),
    "seccomp filter by an operation that is cut": (157, CUT_TO_32_BITS, 2, BAD, 0, 0),
    "packet socket": (41, socket.AF_PACKET, socket.SOCK_RAW, 0),
    "bluetooth socket": (41, AF_BLUETOOTH, socket.SOCK_RAW, 0),
    "vsock socket": (41, AF_VSOCK, socket.SOCK_STREAM, 0),
    "algorithm socket": (41, AF_ALG, socket.SOCK_SEQPACKET, 0),
    "netlink of devices": (41, socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_UEVENT),
    "netlink of routes": (41, socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_ROUTE),
    "IPv4 socket": (41, socket.AF_INET, socket.SOCK_STREAM, 0),
    "unix socket": (41, socket.AF_UNIX, socket.SOCK_STREAM, 0),
    "name of a process": (157, PR_SET_NAME, b"prober", 0, 0, 0),
    "question about seccomp": (317, SECCOMP_ACTION_KNOWN, 0, ctypes.byref(ctypes.c_uint32(0x7FFF0000))),
}


def outcome(number: int, *arguments: object) -> str:
    """``ok``, or the name of the error."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    given = [ctypes.c_long(item) if isinstance(item, int) else item for item in arguments]
    found = libc.syscall(ctypes.c_long(number), *given)
    if number == CALLS["clone of users"][0] and found == 0:
        os._exit(0)  # the child that should not be
    return "ok" if found >= 0 else errno.errorcode[ctypes.get_errno()]


json.dump({name: outcome(*call) for name, call in CALLS.items()}, sys.stdout)
