"""A process that starts others: it has imported everything and forks a child for each order.

Starting a Python program takes longer than most of these children live. A child here is ready
in milliseconds and is all the same a process of its own, with nothing shared: the nursery has
opened no file, started no thread and run no event loop before it forks.

Orders come as lines of JSON on stdin, which is a socket, with the files that the child gets;
answers go to stdout: `[token, pid]` for a child that was started, `[pid, status]` (a negative
signal or an exit code) for one that has ended. When stdin ends, the nursery kills the children
that are left and ends.

The first argument names the module with the functions that children can do: coroutines, after
which the child ends at once, or plain functions, after which it ends as any Python program does.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import inspect
import json
import os
import select
import signal
import socket
import sys
import traceback
from typing import Any, NamedTuple

tasks = importlib.import_module(sys.argv[1])

#: No child lives longer, whatever happens to the test that ordered it.
SECONDS_MAX = 300

#: Files that come with an order.
FILES_MAX = 2


class Order(NamedTuple):
    token: str
    task: str
    arguments: dict[str, Any]
    files: list[int]


class Nursery:
    def __init__(self) -> None:
        self.children: set[int] = set()
        self.orders = socket.socket(fileno=0)
        self.wake_read, self.wake_write = os.pipe()
        for end in (self.wake_read, self.wake_write):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self.wake_write)

    def run(self) -> Order | None:
        """The order of the child that this process has become; None: the nursery is over."""
        while True:
            readable, _, _ = select.select([0, self.wake_read], [], [])
            if self.wake_read in readable:
                os.read(self.wake_read, 4096)
                self.reap()
            if 0 in readable:
                order = self.read()
                if order is None:
                    break
                if self.start(order):
                    return order
        for pid in self.children:
            os.kill(pid, signal.SIGKILL)
        return None

    def read(self) -> Order | None:
        """The next order; its sender waits for the answer before the next one."""
        data, files, _, _ = socket.recv_fds(self.orders, 65536, FILES_MAX)
        while data and not data.endswith(b"\n"):
            data += self.orders.recv(65536)
        return Order(**json.loads(data), files=files) if data else None

    def start(self, order: Order) -> bool:
        """Fork; True in the child."""
        pid = os.fork()
        if pid == 0:
            return True
        for file in order.files:
            os.close(file)
        self.children.add(pid)
        answer([order.token, pid])
        return False

    def reap(self) -> None:
        while self.children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            self.children.discard(pid)
            answer([pid, os.waitstatus_to_exitcode(status)])

    def leave(self) -> None:
        """Be a child, that has nothing to do with orders."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.alarm(SECONDS_MAX)
        self.orders.detach()
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1):
            os.dup2(nothing, number)
        for file in (nothing, self.wake_read, self.wake_write):
            os.close(file)


def answer(value: list[Any]) -> None:
    os.write(1, json.dumps(value).encode() + b"\n")


def live(coroutine: Any) -> None:
    """Do what was ordered, and end."""
    code = 70
    try:
        asyncio.run(coroutine)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    nursery = Nursery()
    order = nursery.run()
    if order is not None:
        nursery.leave()
        if order.files:
            order.arguments["files"] = order.files
        task = getattr(tasks, order.task)
        if inspect.iscoroutinefunction(task):
            live(task(**order.arguments))
        task(**order.arguments)
