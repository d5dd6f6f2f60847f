"""Tries to get out of the sandbox, each for real: judged from outside, by what of the user's was read or changed."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools.sandbox.conftest import PYTHON, SECRET, SECRETS, STATE, World, was_called

pytestmark = [
    pytest.mark.usefixtures("walls"),
    pytest.mark.skipif(sys.platform != "linux", reason="these tries are made for Linux"),
]

KERNEL = ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sys/vm/swappiness")

# What would succeed without walls, and does no harm then: the table is tried on itself.
BITING = {
    **{f"read ~/{name}": f"cat ~/{name}" for name in SECRETS},
    **{f"read state {name}": f"cat ../{name}" for name in STATE},
    "read the workspace's .env": "cat .env",
    "read an .env further in": "cat app/.env.local",
    "read by a link in the workspace": "cat keys/id_ed25519",
    "read by a link that is made": "ln -s ../../.ssh/id_ed25519 x; cat x",
    "read by a hard link that is made": "ln ../../.ssh/id_ed25519 x; cat x",
    "read by a copy": "cp -r ../../.ssh x; cat x/*",
    "read by an absolute path": "cat {home}/.ssh/id_ed25519",
    "read by /proc/self/root": "cat /proc/self/root{home}/.ssh/id_ed25519",
    "read by /proc/self/cwd": "cat /proc/self/cwd/../../.ssh/id_ed25519",
    "read by a path with dots": "cat {outside}/../home/.ssh/../.ssh/id_ed25519",
    "read by tar": "tar -cf - -C {home} .ssh | cat",
    "read by a search": "grep -r s3cr3t {home} ..",
    "read by another shell": "env -i /bin/sh -c 'cat {home}/.netrc'",
    "read by python": "{python} -c 'print(open(\"{home}/.aws/credentials\").read())'",
    "read the environment of a process": "cat /proc/{victim}/environ | tr '\\0' '\\n'",
    "read all environments": "cat /proc/*/environ 2>/dev/null | grep -ao s3cr3t-of-the-user",
    "write beside the workspace": "echo x > {outside}/x",
    "write into the home": "echo x > ~/.bashrc",
    "write a key to log in with": "echo x >> ~/.ssh/authorized_keys",
    "write the settings": "echo 'approval: allow' >> ../config.yaml",
    "write a hook of the user": "echo x >> ../hooks/own/handler.py",
    "make a hook of the user": "mkdir -p ../hooks/new; echo x > ../hooks/new/handler.py",
    "write a hook of the workspace": "echo x >> hooks/mine/handler.py",
    "make a hook that is enabled by name": "mkdir -p hooks/later; echo x > hooks/later/handler.py",
    "write another agent's workspace": "echo x >> ../workspace-other/AGENTS.md",
    "make a file in the state folder": "echo x > ../schedule.json.new",
    "write by a link in the workspace": "echo x > keys/y",
    "write by a link that is made": "ln -s {outside} o; echo x > o/y",
    "write by dd": "dd if=/dev/zero of={outside}/open.txt count=1",
    "delete outside": "rm -rf {outside}/open.txt",
    "change the mode outside": "chmod 000 {outside}/open.txt; mv {outside}/open.txt {outside}/shut.txt",
    "rename the workspace": "mv {workspace} {workspace}.old",
    "write a hook of git": "echo x > .git/hooks/post-checkout",
    "change a hook of git": "echo x >> .git/hooks/pre-commit",
    "write git's configuration": "git config core.fsmonitor 'touch x'; echo x >> .git/config",
    "replace git's configuration": "echo x > c; mv c .git/config",
    "put another repository in its place": "mv .git g; mkdir -p .git/hooks; echo x > .git/hooks/pre-commit",
    "change instructions": "echo x >> AGENTS.md",
    "replace instructions": "echo x > x; mv x SOUL.md",
    "delete instructions": "rm AGENTS.md",
    "make instructions that were not there": "echo x > HEARTBEAT.md",
    "make instructions as a link": "echo x > y; ln -s y BOOT.md",
    "change the ritual": "echo x >> BOOTSTRAP.md",
    "change instructions by a hard link": "ln AGENTS.md x; echo x >> x",
    "empty the .env": ": > .env; rm .env",
    "call a server on the loopback": "{python} -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}))'",
    "call it by another address": "{python} -c 'import socket; socket.create_connection((\"0.0.0.0\", {port}))'",
    "call an abstract socket": "{python} -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"\\0{abstract}\")'",
    "call a socket in a folder": "{python} -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"{socket}\")'",
}  # fmt: skip

# What is not for a machine without walls, though each does nothing worse than to say that it worked.
OTHERS = {
    "call an IPv6 address": "{python} -c 'import socket; socket.create_connection((\"::1\", {port}))'",
    "ask for a name": "getent hosts example.org && {out}",
    "send a datagram": "{python} -c 'import socket; s = socket.socket(2, 2); s.sendto(b\"x\", (\"1.1.1.1\", 53))'",
    "open a raw socket": "{python} -c 'import socket; socket.socket(2, 3, 1)'",
    "list the host's addresses": "cat /proc/net/tcp /proc/net/unix | grep agent.sock && {out}",
    "kill a process outside": "kill -9 {victim}",
    "stop a group of processes outside": "kill -STOP -{victim}",
    "trace a process outside": "{python} -c '{trace} exit(c.ptrace(16, {victim}, 0, 0) + 1)' || {out}",
    "read the memory of a process outside": "cat /proc/{victim}/mem /proc/{victim}/maps && {out}",
    "enter the root of a process outside": "cat /proc/{victim}/root{home}/.ssh/id_ed25519",
    "enter the root of the first process": "cat /proc/1/root{home}/.ssh/id_ed25519; cat /proc/1/cwd/../../.netrc",
    "enter another's namespaces": "nsenter -t {victim} -m cat {home}/.netrc; nsenter -t 1 -a cat {home}/.netrc",
    "unmount what hides": "umount {home}/.ssh; umount -l {home}/.netrc; cat {home}/.netrc {home}/.ssh/*",
    "mount over it": "mount --bind / /mnt; mount -t tmpfs x {home}; cat /mnt{home}/.netrc",
    "make it writable": "mount -o remount,rw /; mount -o remount,bind,rw {outside}; echo x > {outside}/x",
    "make namespaces of one's own": "unshare -Urm sh -c 'umount -l {home}/.ssh; cat {home}/.ssh/*'",
    "make a user namespace": "unshare -Ur true && {out}",
    "use a sandbox in the sandbox": "bwrap --bind / / --dev-bind /dev /dev cat {home}/.netrc && {out}",
    "change the root": "chroot /proc/1/root cat {home}/.netrc",
    "gain privileges": "sudo -n cat {home}/.netrc; su -c 'cat {home}/.netrc'; pkexec cat {home}/.netrc",
    "make a program that gains them": "cp /bin/sh s; chmod 6755 s; ./s -p -c 'cat {home}/.netrc'",
    "have capabilities": "grep -E 'Cap(Prm|Eff|Bnd): *0*[1-9a-f]' /proc/self/status && {out}",
    "gain any by an exec": "grep 'NoNewPrivs:.*0' /proc/self/status && {out}",
    "write a core pattern": "f=/proc/sys/kernel/core_pattern; cat $f > x; cat x > $f && {out}",
    "write a setting of the kernel": "f=/proc/sys/vm/swappiness; cat $f > x; cat x > $f && {out}",
    "write any setting": "find /proc/[a-z]* -type f -perm -200 2>/dev/null | {try_all}",
    "press the magic key": "test -e /proc/sysrq-trigger && : >> /proc/sysrq-trigger && {out}",
    "write to /sys": "find /sys -type f -perm -200 2>/dev/null | {try_all}",
    "leave the control group": "ls /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/*/cgroup.procs | {try_all}",
    "let a control group run a program": "ls /sys/fs/cgroup/*/release_agent | {try_all}",
    "make a device": "mknod x b 254 0 && cat x; mknod /tmp/x b 254 0 && dd if=/tmp/x count=1 && {out}",
    "read a disk": "head -qc 1 /dev/[sv]d* /dev/nvme* /dev/mem /dev/kmsg 2>/dev/null | grep -qa . && {out}",
    "open more devices": "ls /dev | grep -vxE 'core|fd|full|null|ptmx|pts|random|shm|std.*|tty|urandom|zero' && {out}",
    "mount by FUSE": "fusermount -o x m; ls /dev/fuse && {out}",
    "load a module": "modprobe dummy && {out}; insmod x.ko && {out}",
    "change the name of the host": "hostname $(hostname) && {out}",
    "change the clock": "date -s @$(date +%s) && {out}",
    "raise limits": "ulimit -u 999999 && {out}; ulimit -d unlimited && {out}",
    "raise its priority": "renice -n -20 $$ && {out}; chrt -f 50 true && {out}",
    "type into the terminal": "{python} -c 'import fcntl; fcntl.ioctl(open(\"/dev/tty\"), 0x5412, b\"x\")' && {out}",
    "find sockets of servers": "ls -d /run/*.sock /run/dbus /run/user /tmp/.X11-unix 2>/dev/null | grep -q . && {out}",
    "find them by the environment": "env | grep -E 'SSH_AUTH|DISPLAY|DBUS_|XDG_RUNTIME|DOCKER_HOST|API_KEY' && {out}",
    "find the host's /tmp": "ls -A /tmp | grep -q . && {out}",
    "see other processes": "ls -d /proc/[0-9]* | wc -l | grep -qE '^.{{3,}}$' && {out}",
    "read the kernel's log": "dmesg > d 2>/dev/null && grep -q . d && {out}",
    "share memory with others": "ipcs -m | grep -q 0x && {out}; ls -A /dev/shm | grep -q . && {out}",
    "list what hides from mountinfo": "grep -o 's3cr3t[^ ]*' /proc/self/mountinfo /proc/self/mounts",
    "keep a descriptor from outside": "ls -l /proc/self/fd /proc/$$/fd | grep -E 'sqlite|jsonl|home' && {out}",
    "read as root of the system": "cat /etc/shadow /etc/gshadow /etc/sudoers 2>/dev/null | grep -q . && {out}",
    "point git elsewhere": "mkdir e; echo ../e > .git/commondir; echo x > e/config; git status",
    "swap the folder below": "cd ..; mv workspace w; mkdir workspace; echo x > workspace/AGENTS.md",
    "hide it behind a mount": "mkdir -p /tmp/x; ln -s /tmp/x t; mount --move . /tmp/x; echo x > AGENTS.md",
    "trace the first process": "{python} -c '{trace} c.ptrace(16, 1, 0, 0)'; cat /proc/1/environ",
}  # fmt: skip


def prepared(command: str, world: World, victim: subprocess.Popen[bytes]) -> str:
    return command.format(
        home=world.home,
        outside=world.outside,
        workspace=world.workspace,
        python=f"{PYTHON} -I",
        port=world.tcp.getsockname()[1],
        abstract=world.abstract.getsockname()[1:].decode(),
        socket=world.unix.getsockname(),
        victim=victim.pid,
        trace="import ctypes; c = ctypes.CDLL(None);",
        try_all=f"while read f; do (: >> $f) 2>/dev/null && echo {SECRET}; done",
        out=f"echo {SECRET}",
    )


def kernel() -> list[str]:
    return [Path(name).read_text(encoding="utf-8") for name in KERNEL]


def harm(world: World, before: dict[str, bytes | str | None], output: str) -> list[str]:
    """What of the user's was read or changed."""
    after = world.contents()
    found = [f"changed: {path}" for path in {*before, *after} if before.get(path, "-") != after.get(path, "-")]
    found += [f"called: {name}" for name in ("tcp", "abstract", "unix") if was_called(getattr(world, name))]
    return found + (["read"] if SECRET in output else [])


@pytest.mark.parametrize("name", [*BITING, *OTHERS])
async def test_nothing_gets_out(world: World, victim: subprocess.Popen[bytes], name: str) -> None:
    before, settings = world.contents(), kernel()
    command = prepared((BITING | OTHERS)[name], world, victim)
    outcome = await world.run(f"({command}) < /dev/null; echo; echo tried")
    assert harm(world, before, outcome.text) == []
    assert (victim.poll(), kernel(), platform.node()) == (None, settings, os.uname().nodename)
    assert "tried" in outcome.text


@pytest.mark.long
@pytest.mark.parametrize("name", BITING)
async def test_without_walls_each_of_these_tries_does_harm(
    world: World, victim: subprocess.Popen[bytes], name: str
) -> None:
    before = world.contents()
    outcome = await world.run(prepared(BITING[name], world, victim), sandbox="off")
    assert harm(world, before, outcome.text) != []


def test_there_are_enough_tries() -> None:
    assert len(BITING) + len(OTHERS) >= 60
