"""Two hosts on one machine: each with its own network, name, processes and /etc/hosts.

A host is a set of Linux namespaces held by one process; a virtual cable joins the two. When that
process ends, everything on the host ends with it: cable, addresses and all processes.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

ADDRESSES = {"node1": "192.0.2.1", "node2": "192.0.2.2"}
"""From the block that RFC 5737 keeps for examples: nothing real is reached by mistake."""
CABLE = "eth0"
PROGRAMS = ("ip", "nsenter", "setpriv", "unshare")
BOOT = """
set -e
hostname {name}
mount --bind {hosts} /etc/hosts
ip link set lo up
echo up
exec cat
"""


def why_not() -> str | None:
    """Why no hosts can be made here; None where they can."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"{', '.join(missing)} of util-linux and iproute2 not found"
    if os.geteuid() != 0:
        return "only root can make network namespaces"
    tried = subprocess.run(["unshare", "--net", "true"], capture_output=True, text=True)
    return tried.stderr.strip() if tried.returncode else None


@dataclass(frozen=True)
class Host:
    """One of the hosts."""

    name: str
    holder: subprocess.Popen[str]
    init: int
    """The process that every namespace of the host belongs to."""

    @property
    def address(self) -> str:
        """Where other hosts reach this one."""
        return ADDRESSES[self.name]

    def command(self, command: Sequence[str]) -> list[str]:
        """A command line that runs another one on this host."""
        spaces = ("--net", "--uts", "--mount", "--pid", f"--wd={Path.cwd()}")
        return ["nsenter", f"--target={self.init}", *spaces, *command]

    def start(
        self, command: Sequence[str], log: Path, environ: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a command on this host; all it prints goes to a file."""
        with log.open("wb") as output:
            return subprocess.Popen(
                self.command(command),
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(os.environ if environ is None else environ),
            )

    def power_off(self) -> None:
        """End every process of this host at once, as a cut cable to the mains would."""
        if psutil.pid_exists(self.init) and self.holder.poll() is None:
            os.kill(self.init, 9)
        self.holder.wait(10)


@contextmanager
def two_hosts(folder: Path) -> Iterator[tuple[Host, Host]]:
    """Hosts node1 and node2, which know each other by name; they are gone afterwards."""
    file = folder / "hosts"
    names = [f"{address} {name}" for name, address in ADDRESSES.items()]
    file.write_text("\n".join(["127.0.0.1 localhost", *names, ""]))
    hosts: list[Host] = []
    try:
        hosts += [boot("node1", file)]
        hosts += [boot("node2", file)]
        connect(*hosts)
        yield hosts[0], hosts[1]
    finally:
        for host in hosts:
            host.power_off()


def boot(name: str, hosts: Path) -> Host:
    """A host that is up, without a cable."""
    spaces = ("--net", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
    # Should this process be killed, so is the host.
    keeper = ("setpriv", "--pdeathsig=KILL", "unshare", *spaces)
    holder = subprocess.Popen(
        [*keeper, "sh", "-c", BOOT.format(name=name, hosts=hosts)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "up\n", f"{name} does not come up"
    (init,) = psutil.Process(holder.pid).children()
    return Host(name, holder, init.pid)


def connect(one: Host, other: Host) -> None:
    """Lay a cable between two hosts."""
    ends = [CABLE, "netns", str(one.init), "type", "veth", "peer", "name", CABLE]
    on(one, "ip", "link", "add", *ends, "netns", str(other.init), outside=True)
    for host in (one, other):
        on(host, "ip", "address", "add", f"{host.address}/24", "dev", CABLE)
        on(host, "ip", "link", "set", CABLE, "up")


def on(host: Host, *command: str, outside: bool = False) -> None:
    """Run a command on a host, or for it from outside, to its end."""
    whole = list(command) if outside else host.command(command)
    subprocess.run(whole, check=True, timeout=10)
