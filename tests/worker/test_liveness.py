"""Which processes of this host are dead."""

import asyncio
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from embedq.model import Process
from embedq.upkeep import HostLiveness

ONE_BOOT = "11111111-2222-3333-4444-555555555555"


def describe(pid: int) -> Process:
    """Describe another process the way it would describe itself."""
    me = HostLiveness().me()
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return replace(me, pid=pid, born=stat[19])


def test_this_process_lives() -> None:
    """A process never takes itself for dead."""
    liveness = HostLiveness()

    assert liveness.me().pid == os.getpid()
    assert not liveness.is_dead(liveness.me())


def test_a_killed_process_is_dead_also_as_a_zombie() -> None:
    """After kill -9 a process is dead, whether or not its parent has taken notice."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        described = describe(child.pid)
        assert not HostLiveness().is_dead(described)

        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and stays a zombie

        assert HostLiveness().is_dead(described)
    assert HostLiveness().is_dead(described)


def test_a_pid_given_out_again_is_another_process() -> None:
    """The same number with another birth is somebody else: the one that was asked for is dead."""
    me = HostLiveness().me()

    assert HostLiveness().is_dead(replace(me, born=str(int(me.born) - 1)))


def test_a_process_from_before_the_restart_of_the_machine_is_dead() -> None:
    """Another boot of this host: whatever ran then runs no more."""
    assert HostLiveness().is_dead(replace(HostLiveness().me(), boot=ONE_BOOT))


def test_a_process_whose_boot_is_unknown_lives(tmp_path: Path) -> None:
    """Where one of the two boots cannot be read, nobody knows whether the machine was restarted: nobody is dead."""
    seeing = HostLiveness()
    boot = tmp_path / "sys" / "kernel" / "random" / "boot_id"
    boot.parent.mkdir(parents=True)
    blind = HostLiveness(proc=tmp_path)
    boot.touch()

    assert not seeing.is_dead(replace(seeing.me(), boot=""))
    assert not blind.is_dead(replace(blind.me(), boot=ONE_BOOT))


def test_nothing_is_said_of_other_hosts() -> None:
    """A process of another machine or another pid namespace is never called dead from here."""
    me = HostLiveness().me()

    assert not HostLiveness().is_dead(replace(me, host="elsewhere", pid=2**22 + 1, boot=ONE_BOOT))


def test_without_the_kernels_files_only_a_missing_pid_is_dead(tmp_path: Path) -> None:
    """Where there is no /proc, a pid that nobody has is dead, and one that somebody has is not."""
    blind = HostLiveness(proc=tmp_path, machine_id=tmp_path / "none")
    me = blind.me()

    assert (me.boot, me.born) == ("", "")
    assert not blind.is_dead(me)
    assert blind.is_dead(replace(me, pid=2**22 + 1))  # above the kernel's greatest pid


async def test_it_can_be_asked_from_any_thread() -> None:
    """Describing this process from a thread names the process, not the thread."""
    assert await asyncio.to_thread(HostLiveness().me) == HostLiveness().me()
