"""The process of attempts, from the worker's side: start it, speak with it, kill it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys

from minuet.worker.isolation.messages import (
    FromProcess,
    Message,
    Prepare,
    Ready,
    decode_from_process,
    frame,
    read_frame,
)

#: How long a process may take to start.
START_S = 60.0


#: It finds modules where this process does.
_PROGRAM = (
    "import sys; sys.path[:] = sys.argv[2:]; "
    "from minuet.worker.isolation.child import main; main(int(sys.argv[1]))"
)


class ProcessDied(Exception):
    """The process has ended before its attempt did."""


class Process:
    """A process that runs one attempt at a time."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        #: How many attempts it has run, and the most memory that it has used, in MiB.
        self.attempts = 0
        self.peak_mb = 0
        #: When it last ended an attempt, by the event loop's clock.
        self.idle_since = 0.0

    @classmethod
    async def start(cls) -> Process:
        """Start a process: a new one, that has nothing of the worker's memory, locks and threads;
        ProcessDied if it does not come up."""
        ours, theirs = socket.socketpair()
        with theirs:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", _PROGRAM, str(theirs.fileno()), *sys.path),
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                # Ctrl-C is for the worker. What the handler starts is killed with it.
                start_new_session=True,
            )
        try:
            reader, writer = await asyncio.open_connection(sock=ours)
        except BaseException:
            # Cancelled at this moment: nobody else knows of the process.
            ours.close()
            process.kill()
            await process.wait()
            raise
        started = cls(process, reader, writer)
        try:
            started.send(Prepare(tuple(sys.argv), _levels()))
            async with asyncio.timeout(START_S):
                while not isinstance(await started.receive(), Ready):
                    pass
        except TimeoutError:
            await started.kill()
            raise ProcessDied(f"it did not start within {START_S:g} s") from None
        except BaseException:
            await started.kill()
            raise
        return started

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, message: Message) -> None:
        """Send a message; one that has ended gets none."""
        if not self._writer.is_closing():
            self._writer.write(frame(message))

    async def receive(self) -> FromProcess:
        """The next message; ProcessDied if it has ended."""
        try:
            message: FromProcess = decode_from_process(await read_frame(self._reader))
            return message
        except (asyncio.IncompleteReadError, ConnectionError):
            raise ProcessDied(await self._how_ended()) from None
        except ValueError as error:
            # Something has written into the socket of the process.
            await self.kill()
            raise ProcessDied(f"it does not speak as it should ({error})") from None

    async def _how_ended(self) -> str:
        # It has closed its socket, so it ends, or is no longer of use.
        try:
            async with asyncio.timeout(1.0):
                code = await self._process.wait()
        except TimeoutError:
            await self.kill()
            return "it closed its connection to the worker"
        await self.kill()
        if code >= 0:
            return f"it ended with exit code {code}"
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = "unknown"
        why = ", as the system does when there is no memory left" if name == "SIGKILL" else ""
        return f"it was ended by signal {-code} ({name}{why})"

    @property
    def is_alive(self) -> bool:
        return self._process.returncode is None and not self._reader.at_eof()

    def kill_soon(self) -> None:
        """Kill the process and what it has started, without waiting for the end."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._writer.close()

    async def kill(self) -> None:
        """Kill the process and what it has started."""
        self.kill_soon()
        await self._process.wait()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()


def _levels() -> dict[str, int]:
    """Which log records the worker's process wants."""
    loggers = dict(logging.root.manager.loggerDict)
    levels = {
        name: logger.level
        for name, logger in loggers.items()
        if isinstance(logger, logging.Logger) and logger.level
    }
    return {"": logging.root.level, **levels}
