"""The processes of one worker: started when they are needed, kept warm for the next attempts."""

from __future__ import annotations

import asyncio
import logging

from minuet.worker.isolation.messages import Cancel, Ended
from minuet.worker.isolation.process import Process, ProcessDied

_log = logging.getLogger("minuet.worker")

#: Processes that are kept though they have nothing to do, and for how long.
IDLE_MAX = 4
IDLE_S = 60.0

#: Attempts after which a process is replaced by a new one: handlers leak.
ATTEMPTS_MAX = 1_000

#: How long a handler may take to end after it was cancelled, before its process is killed.
GRACE_S = 2.0


class Pool:
    """Processes for attempts, one attempt at a time in each."""

    def __init__(self) -> None:
        self._idle: list[Process] = []
        self._all: set[Process] = set()
        self._timer: asyncio.TimerHandle | None = None
        #: Processes that were killed and may not have ended yet.
        self._ending: set[asyncio.Task[None]] = set()

    async def take(self, memory_mb: int | None) -> Process:
        """A process that has nothing to do: a warm one, or a new one. One that has used half of
        what the attempt may use is not taken: it may not give that back."""
        for process in reversed(self._idle):
            if memory_mb is None or process.peak_mb <= memory_mb // 2:
                self._idle.remove(process)
                if process.is_alive:
                    return process
                self._drop(process)
        process = await Process.start()
        self._all.add(process)
        return process

    def give_back(self, process: Process, ended: Ended) -> None:
        """The attempt of a process has ended."""
        process.attempts += 1
        process.peak_mb = ended.peak_mb
        if ended.is_spoilt or process.attempts >= ATTEMPTS_MAX or len(self._idle) >= IDLE_MAX:
            self._drop(process)
            return
        loop = asyncio.get_running_loop()
        process.idle_since = loop.time()
        self._idle.append(process)
        if self._timer is None:
            self._timer = loop.call_later(IDLE_S, self._end_idle)

    def _drop(self, process: Process) -> None:
        self._all.discard(process)
        process.kill_soon()
        ending = asyncio.get_running_loop().create_task(process.kill())
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    def _end_idle(self) -> None:
        loop = asyncio.get_running_loop()
        for process in list(self._idle):
            if loop.time() - process.idle_since >= IDLE_S:
                self._idle.remove(process)
                self._drop(process)
        first = min((process.idle_since for process in self._idle), default=None)
        self._timer = None if first is None else loop.call_at(first + IDLE_S, self._end_idle)

    async def kill(self, process: Process) -> None:
        """End a process at once."""
        self._all.discard(process)
        await process.kill()

    async def stop(self, process: Process) -> None:
        """Cancel the attempt of a process, and kill the process if it does not end soon."""
        process.send(Cancel())
        try:
            async with asyncio.timeout(GRACE_S):
                while not isinstance(ended := await process.receive(), Ended):
                    pass
        except (TimeoutError, ProcessDied):
            await self.kill(process)
        except BaseException:
            self._drop(process)
            raise
        else:
            self.give_back(process, ended)

    def __len__(self) -> int:
        """How many processes there are."""
        return len(self._all)

    async def close(self) -> None:
        """End all processes: the worker ends."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        processes, self._all = self._all, set()
        self._idle.clear()
        for process in processes:
            process.kill_soon()
        for process in processes:
            await process.kill()
        if self._ending:
            await asyncio.wait(self._ending)
