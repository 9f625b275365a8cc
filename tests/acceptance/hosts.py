"""Hosts of a network of our own: network namespaces joined to this machine by cables that can be pulled."""

import secrets
import subprocess
from collections.abc import Sequence
from typing import Self

from embedq.testing.postgres.fixtures import unavailable

WAIT_TO_BE_LEFT = 'hostname "$1" && echo there && exec cat'  # the host is gone when our end of the pipe is
NOBODY = "02:00:00:00:00:01"  # whoever is sent to this card does not get it
NETWORK = "198.18"  # set aside for tests of networks: nobody's real address


class Host:
    """A machine as far as the network can tell: its own name, addresses and cable. Gone with whoever made it."""

    def __init__(self, name: str) -> None:
        """Set it up and plug it in."""
        self.name = name
        number = secrets.token_hex(4)
        self._plug, self._socket = f"eqa{number}", f"eqb{number}"
        third, fourth = secrets.randbelow(256), secrets.randbelow(32) * 8
        self.gateway = f"{NETWORK}.{third}.{fourth + 1}"  # this machine, as the host sees it
        self._subnet = f"{NETWORK}.{third}.{fourth}/29"
        self._first, self._second = f"{NETWORK}.{third}.{fourth + 2}", f"{NETWORK}.{third}.{fourth + 3}"
        command = ["unshare", "--net", "--uts", "sh", "-c", WAIT_TO_BE_LEFT, "sh", name]
        self._holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self) -> Self:
        """Plug it in."""
        try:
            assert self._holder.stdout is not None
            assert self._holder.stdout.readline() == b"there\n"
            _ip("link", "add", self._plug, "type", "veth", "peer", self._socket, "netns", str(self._holder.pid))
            _ip("address", "add", f"{self.gateway}/29", "dev", self._plug)
            _ip("link", "set", self._plug, "up")
            self._inside("address", "add", f"{self._first}/29", "dev", self._socket)
            self._inside("address", "add", f"{self._second}/29", "dev", self._socket)
            self._inside("link", "set", self._socket, "up")
        except (AssertionError, OSError, subprocess.CalledProcessError) as error:
            self.__exit__()
            unavailable(f"This machine lets nobody make a network of one's own (root and iproute2 are needed): {error}")
        return self

    def __exit__(self, *_: object) -> None:
        """Take it away, with its cable."""
        self._holder.communicate()

    @property
    def wrapper(self) -> Sequence[str]:
        """Say how to start a command on it."""
        return ["nsenter", "--target", str(self._holder.pid), "--net", "--uts", "--"]

    def cut(self) -> None:
        """Pull the cable."""
        _ip("link", "set", self._plug, "down")

    def mend(self) -> None:
        """Plug the cable in again."""
        _ip("link", "set", self._plug, "up")

    def go_silent(self) -> None:
        """Let every connection it has go dead without a word, as behind a firewall that forgot them; new ones work."""
        self._inside("route", "replace", self._subnet, "dev", self._socket, "src", self._second)
        _ip("neigh", "replace", self._first, "lladdr", NOBODY, "dev", self._plug, "nud", "permanent")

    def _inside(self, *arguments: str) -> None:
        _run([*self.wrapper, "ip", *arguments])


def _ip(*arguments: str) -> None:
    _run(["ip", *arguments])


def _run(command: Sequence[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)
