"""Another kernel with this machine's files: a virtual machine for what this machine's own kernel cannot do.

    python -m tests.suites.perf.machine PACKAGE -- COMMAND...   PACKAGE: a linux-image-* package, packed or unpacked

As root, with the packages qemu-system-x86, busybox-static and kmod (Debian 12). The command finds the whole file system
of this machine, the tests and the built programs too, as they are; what it writes goes to memory and is lost. It runs
as root with two CPUs, emulated in software, and its exit code becomes this program's.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.support.process import tool

NEEDED = ("virtio_pci", "virtiofs", "overlay")
MEMORY = "4G"
INIT = """#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /lower /over /new
/bin/busybox mount -t proc proc /proc
for name in {modules}; do /bin/busybox insmod /modules/$name.ko || echo "no $name"; done
/bin/busybox mount -t virtiofs host /lower || exec /bin/busybox poweroff -f
/bin/busybox mount -t tmpfs over /over
/bin/busybox mkdir /over/upper /over/work
/bin/busybox mount -t overlay -o lowerdir=/lower,upperdir=/over/upper,workdir=/over/work overlay /new
for place in proc:/proc sysfs:/sys devtmpfs:/dev tmpfs:/dev/shm tmpfs:/run; do
  /bin/busybox mkdir -p /new${{place#*:}}
  /bin/busybox mount -t ${{place%%:*}} none /new${{place#*:}}
done
/bin/busybox mkdir -p /new/usr/lib/modules/{version}
/bin/busybox mount --bind /lower{folder} /new/usr/lib/modules/{version}
exec /bin/busybox switch_root /new /bin/sh -c {command}
"""
END = "paddock-machine-exit"


def main(arguments: list[str]) -> int:
    package, dashes, *command = arguments
    if dashes != "--" or not command:
        print(__doc__)
        return 2
    with tempfile.TemporaryDirectory(prefix="paddock-machine-") as place:
        return run(unpacked(Path(package).resolve(), Path(place)), command, Path(place))


def unpacked(package: Path, place: Path) -> Path:
    """The folder with boot/ and lib/modules/, its modules' dependencies listed."""
    if package.is_dir():
        kernel = package
    else:
        kernel = place / "kernel"
        subprocess.run([tool("dpkg-deb"), "-x", str(package), str(kernel)], check=True)
    subprocess.run([tool("depmod"), "-b", str(kernel), version(kernel)], check=True)
    return kernel


def version(kernel: Path) -> str:
    (image,) = (kernel / "boot").glob("vmlinuz-*")
    return image.name.removeprefix("vmlinuz-")


def modules(folder: Path) -> list[Path]:
    """What the first program needs to see the files, in the order of loading."""
    needs = dict(line.split(":", 1) for line in (folder / "modules.dep").read_text().splitlines())
    found: dict[str, None] = {}
    for name in NEEDED:
        path = next(path for path in needs if Path(path).name == f"{name}.ko")
        found.update(dict.fromkeys([*reversed(needs[path].split()), path]))
    return [folder / path for path in found]


def first_files(kernel: Path, command: list[str], place: Path) -> Path:
    """The initial file system: busybox, modules, and what it does."""
    root, folder = place / "initial", kernel / "lib" / "modules" / version(kernel)
    (root / "bin").mkdir(parents=True)
    (root / "modules").mkdir()
    shutil.copy2(tool("busybox"), root / "bin" / "busybox")
    loaded = modules(folder)
    for path in loaded:
        shutil.copy(path, root / "modules")
    here = shlex.quote(str(Path.cwd()))
    inner = f"cd {here}; ip link set lo up; modprobe tun; {shlex.join(command)}; echo {END} $?; sync"
    words = f"export PATH={shlex.quote(os.environ['PATH'])} HOME=/root; {inner}; /bin/busybox poweroff -f"
    names = " ".join(path.stem for path in loaded)
    text = INIT.format(modules=names, version=folder.name, folder=folder, command=shlex.quote(words))
    (root / "init").write_text(text)
    (root / "init").chmod(0o755)
    listed = b"\0".join(str(path.relative_to(root)).encode() for path in sorted(root.rglob("*")))
    archive = place / "initial.cpio"
    with archive.open("wb") as file:
        argv = [tool("busybox"), "cpio", "-o", "-H", "newc", "-0"]
        subprocess.run(argv, input=listed, stdout=file, stderr=subprocess.DEVNULL, cwd=root, check=True)
    return archive


def run(kernel: Path, command: list[str], place: Path) -> int:
    socket = place / "files.sock"
    argv = [
        "/usr/lib/qemu/virtiofsd",
        f"--socket-path={socket}",
        "-o",
        "source=/,cache=always,no_posix_lock,sandbox=chroot",
        "-f",
    ]
    with subprocess.Popen(argv, stderr=(place / "files.log").open("wb")) as files:
        try:
            while not socket.exists():
                assert files.poll() is None, (place / "files.log").read_text()
                time.sleep(0.02)
            return _booted(kernel, first_files(kernel, command, place), socket)
        finally:
            files.kill()


def _booted(kernel: Path, initial: Path, socket: Path) -> int:
    argv = [
        *(tool("qemu-system-x86_64"), "-machine", "q35", "-accel", "tcg,thread=multi", "-smp", "2", "-m", MEMORY),
        *("-cpu", "max", "-object", f"memory-backend-memfd,id=mem,size={MEMORY},share=on", "-numa", "node,memdev=mem"),
        *("-chardev", f"socket,id=files,path={socket}", "-device", "vhost-user-fs-pci,chardev=files,tag=host"),
        *("-kernel", str(kernel / "boot" / f"vmlinuz-{version(kernel)}"), "-initrd", str(initial)),
        *("-append", "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check", "-nic", "none"),
        *("-display", "none", "-serial", "stdio", "-monitor", "none", "-no-reboot"),
    ]
    print(f"A virtual machine with Linux {version(kernel)}", flush=True)
    code = 1
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace") as guest:
        assert guest.stdout is not None
        for line in guest.stdout:
            if line.startswith(END):
                code = int(line.split()[1])
            else:
                print(line.rstrip("\r\n"), flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
