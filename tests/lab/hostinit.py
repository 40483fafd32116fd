"""PID 1 of a lab host: makes the host's view of the file system, runs its daemons.

Run by /usr/bin/python3 in fresh mount, UTS, IPC and PID namespaces, with its
settings as JSON on standard input. Stands alone: imports nothing of the lab.

It ends with REBOOT after SIGHUP and with POWEROFF after SIGTERM; with it
everything on the host ends, because it is PID 1.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time

REBOOT = 66
POWEROFF = 67

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND = 32, 4096

ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
    "SHELL": "/bin/sh",
    "USER": "root",
}
DAEMONS = {"libvirtd": ["/usr/sbin/libvirtd", "--listen"], "sshd": ["/usr/sbin/sshd", "-D", "-e"]}
SIGNALS = {signal.SIGCHLD, signal.SIGHUP, signal.SIGTERM}

_libc = ctypes.CDLL(None, use_errno=True)


def mount(source: str, target: str, kind: str | None, flags: int, data: str = "") -> None:
    done = _libc.mount(
        source.encode(), target.encode(), kind.encode() if kind else None, ctypes.c_ulong(flags), data.encode() or None
    )
    if done != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"mount {source} on {target}: {os.strerror(error)}")


def bind_all(binds: list[list]) -> None:
    """Bind folders. Sources are opened first: a later mount may hide their path."""
    opened = [
        (os.open(source, os.O_PATH), target, readonly) for source, target, readonly in binds if os.path.exists(source)
    ]
    for fd, target, readonly in opened:
        mount(f"/proc/self/fd/{fd}", target, None, MS_BIND)
        if readonly:
            mount("none", target, None, MS_REMOUNT | MS_BIND | MS_RDONLY)
        os.close(fd)


def private_view(settings: dict) -> None:
    """Everything that a host must not share with the machine or with its peers."""
    tool = os.open(settings["tool"], os.O_PATH)
    tree = os.open(settings["tree"], os.O_PATH)
    bind_all(settings["binds"])
    mount("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    mount("tmpfs", "/run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755")
    private_dev()
    for folder in ("/run/sshd", "/run/lock", "/run/libvirt"):
        os.mkdir(folder)
    boot_id = "/run/virtops-lab-host"
    with open(boot_id, "w", encoding="ascii") as handle:
        handle.write(settings["boot_id"] + "\n")
    mount(boot_id, "/proc/sys/kernel/random/boot_id", None, MS_BIND)
    # A write to it would reach the machine.
    if os.path.exists("/proc/sysrq-trigger"):
        mount("/dev/null", "/proc/sysrq-trigger", None, MS_BIND)
    for path in settings["replace"]:
        if os.path.exists(path):
            mount(f"/proc/self/fd/{tool}", path, None, MS_BIND)
    os.close(tool)
    mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777")
    show(tree, settings["tree"])
    if os.path.isdir(settings["hide"]):
        mount("tmpfs", settings["hide"], "tmpfs", MS_RDONLY, "mode=700")


def show(tree: int, path: str) -> None:
    """The project's tree is where it was, also if it lies in a folder that is private by now."""
    try:
        hidden = not os.path.samestat(os.stat(path), os.fstat(tree))
    except FileNotFoundError:
        os.makedirs(path)
        hidden = True
    if hidden:
        mount(f"/proc/self/fd/{tree}", path, None, MS_BIND)
    os.close(tree)


DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "net", "fuse")


def private_dev() -> None:
    """A /dev with what a host needs. Without /dev/kvm: where that is there and QEMU cannot use
    it, libvirt takes its cache of QEMU's capabilities for outdated and probes QEMU again at
    every use, half a second each (virQEMUCapsIsValid)."""
    opened = {name: os.open(f"/dev/{name}", os.O_PATH) for name in DEVICES if os.path.exists(f"/dev/{name}")}
    folders = {name for name in opened if os.path.isdir(f"/dev/{name}")}
    mount("tmpfs", "/dev", "tmpfs", MS_NOSUID, "mode=755")
    for name, fd in opened.items():
        if name in folders:
            os.mkdir(f"/dev/{name}")
        else:
            os.close(os.open(f"/dev/{name}", os.O_CREAT | os.O_WRONLY, 0o666))
        mount(f"/proc/self/fd/{fd}", f"/dev/{name}", None, MS_BIND)
        os.close(fd)
    for link, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        os.symlink(f"/proc/self/fd{target}", f"/dev/{link}")
    os.mkdir("/dev/pts")
    mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "ptmxmode=0666,mode=620")
    os.symlink("pts/ptmx", "/dev/ptmx")
    os.mkdir("/dev/shm")
    mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777")


def unblock() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def launch(name: str) -> int:
    with open(f"/var/log/{name}.out", "ab") as log:
        child = subprocess.Popen(
            DAEMONS[name],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=ENVIRONMENT,
            cwd="/",
            preexec_fn=unblock,  # noqa: PLW1509 - one thread
            start_new_session=True,
        )
    # We reap by ourselves; Popen must not wait for it as well.
    child.returncode = 0
    return child.pid


def reap() -> set[int]:
    gone = set()
    while True:
        try:
            pid, _status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return gone
        if pid == 0:
            return gone
        gone.add(pid)


def serve() -> int:
    """Keep the daemons running until the host is told to end."""
    running: dict[str, int] = {}
    again = dict.fromkeys(DAEMONS, 0.0)
    while True:
        for name, when in again.items():
            if name not in running and time.monotonic() >= when:
                running[name] = launch(name)
        got = signal.sigtimedwait(SIGNALS, 0.5 if len(running) < len(DAEMONS) else 60)
        if got is not None and got.si_signo == signal.SIGHUP:
            return REBOOT
        if got is not None and got.si_signo == signal.SIGTERM:
            return POWEROFF
        gone = reap()
        for name in [name for name, pid in running.items() if pid in gone]:
            del running[name]
            again[name] = time.monotonic() + 1


def main() -> int:
    settings = json.load(sys.stdin)
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    os.umask(0o022)
    socket.sethostname(settings["name"])
    private_view(settings)
    os.chdir("/")
    return serve()


if __name__ == "__main__":
    # Not sys.exit: nothing may stand between the word and the end of the host.
    os._exit(main())
