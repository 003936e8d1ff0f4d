"""A process that starts others: it has imported everything and forks a child for each order.

Starting a Python program takes longer than most of these children live. A child here is ready
in milliseconds and is all the same a process of its own, with nothing shared: the nursery has
opened no file, started no thread and run no event loop before it forks.

Orders come as lines of JSON on stdin; answers go to stdout: `[token, pid]` for a child that
was started, `[pid, status]` (a negative signal or an exit code) for one that has ended. When
stdin ends, the nursery kills the children that are left and ends.

The first argument names the module with the functions that children can do.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import select
import signal
import sys
import traceback
from typing import Any

tasks = importlib.import_module(sys.argv[1])

#: No child lives longer, whatever happens to the test that ordered it.
SECONDS_MAX = 120


class Nursery:
    def __init__(self) -> None:
        self.children: set[int] = set()
        self.wake_read, self.wake_write = os.pipe()
        for end in (self.wake_read, self.wake_write):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self.wake_write)

    def run(self) -> None:
        pending = b""
        while True:
            readable, _, _ = select.select([0, self.wake_read], [], [])
            if self.wake_read in readable:
                os.read(self.wake_read, 4096)
                self.reap()
            if 0 in readable:
                data = os.read(0, 65536)
                if not data:
                    break
                *lines, pending = (pending + data).split(b"\n")
                for line in lines:
                    self.start(json.loads(line))
        for pid in self.children:
            os.kill(pid, signal.SIGKILL)

    def start(self, order: dict[str, Any]) -> None:
        pid = os.fork()
        if pid == 0:
            self.live(order)
        self.children.add(pid)
        answer([order["token"], pid])

    def reap(self) -> None:
        while self.children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            self.children.discard(pid)
            answer([pid, os.waitstatus_to_exitcode(status)])

    def live(self, order: dict[str, Any]) -> None:
        """Be the child."""
        code = 70
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.alarm(SECONDS_MAX)
            nothing = os.open(os.devnull, os.O_RDWR)
            for number in (0, 1):
                os.dup2(nothing, number)
            os.close(self.wake_read)
            os.close(self.wake_write)
            asyncio.run(getattr(tasks, order["task"])(**order["arguments"]))
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)


def answer(value: list[Any]) -> None:
    os.write(1, json.dumps(value).encode() + b"\n")


if __name__ == "__main__":
    Nursery().run()
