"""Runs a program under ptrace(2) and stops it, and all that it starts, before each system call that names a path.

A seccomp filter picks those calls (PTRACE_O_TRACESECCOMP), so that everything else runs at full speed. Linux on x86-64.
The tracer is the thread that calls `Stepper.run`; waitpid(2) there takes every child of the process, so that a process
runs one Stepper and nothing else.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import struct
from collections.abc import Callable, Iterator

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long

_TRACEME, _CONT, _GETREGS, _SYSCALL, _SETOPTIONS = 0, 7, 12, 24, 0x4200
# TRACESYSGOOD, TRACEFORK, TRACEVFORK, TRACECLONE, TRACEEXEC, TRACESECCOMP, EXITKILL
_OPTIONS = 0x1 | 0x2 | 0x4 | 0x8 | 0x10 | 0x80 | 0x100000
_EVENT_SECCOMP = 7
_WALL = 0x40000000
_SYSCALL_STOP = signal.SIGTRAP | 0x80
_AT_FDCWD = -100
_MAX_PATH = 4096

# number -> (name, pairs of (argument with the folder's descriptor or -1, argument with the path))
CALLS: dict[int, tuple[str, tuple[tuple[int, int], ...]]] = {
    2: ("open", ((-1, 0),)),
    4: ("stat", ((-1, 0),)),
    6: ("lstat", ((-1, 0),)),
    21: ("access", ((-1, 0),)),
    42: ("connect", ()),
    49: ("bind", ()),
    59: ("execve", ((-1, 0),)),
    76: ("truncate", ((-1, 0),)),
    80: ("chdir", ((-1, 0),)),
    82: ("rename", ((-1, 0), (-1, 1))),
    83: ("mkdir", ((-1, 0),)),
    84: ("rmdir", ((-1, 0),)),
    85: ("creat", ((-1, 0),)),
    86: ("link", ((-1, 0), (-1, 1))),
    87: ("unlink", ((-1, 0),)),
    88: ("symlink", ((-1, 1),)),
    89: ("readlink", ((-1, 0),)),
    90: ("chmod", ((-1, 0),)),
    92: ("chown", ((-1, 0),)),
    94: ("lchown", ((-1, 0),)),
    165: ("mount", ((-1, 0), (-1, 1))),
    191: ("getxattr", ((-1, 0),)),
    257: ("openat", ((0, 1),)),
    258: ("mkdirat", ((0, 1),)),
    260: ("fchownat", ((0, 1),)),
    262: ("newfstatat", ((0, 1),)),
    263: ("unlinkat", ((0, 1),)),
    264: ("renameat", ((0, 1), (2, 3))),
    265: ("linkat", ((0, 1), (2, 3))),
    266: ("symlinkat", ((1, 2),)),
    267: ("readlinkat", ((0, 1),)),
    268: ("fchmodat", ((0, 1),)),
    269: ("faccessat", ((0, 1),)),
    316: ("renameat2", ((0, 1), (2, 3))),
    322: ("execveat", ((0, 1),)),
    332: ("statx", ((0, 1),)),
    437: ("openat2", ((0, 1),)),
    439: ("faccessat2", ((0, 1),)),
    452: ("fchmodat2", ((0, 1),)),
}

Undo = Callable[[], None]
# What happens before a call of a process: its id, the call's name and the full paths; what is to be done after it.
Before = Callable[[int, str, list[str]], Undo | None]


class _Registers(ctypes.Structure):
    _names = "r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss fs gs ds es f g"
    _fields_ = [(name, ctypes.c_ulonglong) for name in _names.split()]


class _Program(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def _filtered() -> ctypes.Array[ctypes.c_char]:
    """A BPF program: stop before these calls, allow all."""
    code = struct.pack("=HBBI", 0x20, 0, 0, 0)
    for number in CALLS:
        code += struct.pack("=HBBI", 0x15, 0, 1, number) + struct.pack("=HBBI", 0x06, 0, 0, 0x7FF00000)
    return ctypes.create_string_buffer(code + struct.pack("=HBBI", 0x06, 0, 0, 0x7FFF0000))


def _spawned(argv: list[str], env: dict[str, str], streams: tuple[int, int, int]) -> int:
    program = _filtered()
    bpf = _Program((len(program) - 1) // 8, ctypes.cast(program, ctypes.c_void_p))
    pid = os.fork()
    if pid:
        return pid
    try:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.setsid()
        os.chdir("/")
        libc.ptrace(_TRACEME, 0, None, None)
        os.kill(os.getpid(), signal.SIGSTOP)
        if libc.prctl(22, 2, ctypes.byref(bpf), 0, 0) != 0:  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
            os._exit(125)
        os.execve(argv[0], argv, env)
    finally:
        os._exit(126)


class Stepper:
    """One traced program. `stops` counts the calls that it and its children were stopped at."""

    def __init__(self, argv: list[str], env: dict[str, str], streams: tuple[int, int, int], before: Before) -> None:
        self._before = before
        self._undo: dict[int, Undo] = {}
        self._known: set[int] = set()
        self.stops = 0
        self.pid = _spawned(argv, env, streams)

    def run(self) -> None:
        """Until the program has ended; whatever it left behind is killed."""
        os.waitpid(self.pid, _WALL)
        self._known.add(self.pid)
        libc.ptrace(_SETOPTIONS, self.pid, None, _OPTIONS)
        self._go(_CONT, self.pid)
        while True:
            try:
                pid, status = os.waitpid(-1, _WALL)
            except ChildProcessError:
                return
            if os.WIFSTOPPED(status):
                self._stopped(pid, status)
            elif pid == self.pid:
                self._end_others()
            else:
                self._known.discard(pid)

    def kill(self) -> None:
        for pid in list(self._known):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)

    def _end_others(self) -> None:
        self._known.discard(self.pid)
        self.kill()

    def _go(self, how: int, pid: int, number: int = 0) -> None:
        libc.ptrace(how, pid, None, number)

    def _stopped(self, pid: int, status: int) -> None:
        number, event = os.WSTOPSIG(status), status >> 16
        if event == _EVENT_SECCOMP:
            self.stops += 1
            undo = self._tried(pid)
            if undo is not None:
                self._undo[pid] = undo
            self._go(_CONT if undo is None else _SYSCALL, pid)
        elif number == _SYSCALL_STOP:
            self._undo.pop(pid, lambda: None)()
            self._go(_CONT, pid)
        elif event or (number == signal.SIGSTOP and pid not in self._known):
            self._known.add(pid)
            self._go(_CONT, pid)
        else:
            self._go(_CONT, pid, number)

    def _tried(self, pid: int) -> Undo | None:
        registers = _Registers()
        if libc.ptrace(_GETREGS, pid, None, ctypes.addressof(registers)) != 0:
            return None
        name, pairs = CALLS[registers.orig_rax]
        values = (registers.rdi, registers.rsi, registers.rdx, registers.r10)
        with contextlib.suppress(OSError):
            paths = list(_socket(pid, values) if not pairs else _paths(pid, values, pairs))
            return self._before(pid, name, paths)
        return None


def _paths(pid: int, values: tuple[int, ...], pairs: tuple[tuple[int, int], ...]) -> Iterator[str]:
    for folder, path in pairs:
        text = _text(pid, values[path])
        if text.startswith("/"):
            yield text
        elif text:
            descriptor = ctypes.c_int(values[folder] & 0xFFFFFFFF).value if folder >= 0 else _AT_FDCWD
            where = "cwd" if descriptor == _AT_FDCWD else f"fd/{descriptor}"
            yield os.readlink(f"/proc/{pid}/{where}") + "/" + text


def _socket(pid: int, values: tuple[int, ...]) -> Iterator[str]:
    """The path in a sockaddr_un."""
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        memory.seek(values[1])
        data = memory.read(min(values[2] & 0xFFFFFFFF, 110))
    if len(data) > 3 and data[:2] == struct.pack("=H", 1) and data[2:3] == b"/":
        yield data[2:].split(b"\0", 1)[0].decode("utf-8", "replace")


def _text(pid: int, address: int) -> str:
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        memory.seek(address)
        # Memory may end before so many bytes do: page by page.
        data = b""
        while b"\0" not in data and len(data) < _MAX_PATH:
            part = memory.read(4096 - (address + len(data)) % 4096)
            if not part:
                break
            data += part
    return data.split(b"\0", 1)[0].decode("utf-8", "replace")
