"""Redis with `appendfsync everysec` on a slow disk: it answers before its log is written, and a
kill loses what it has answered. What is left is the state after an earlier call."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from tools.services import UNPACKED, Redis, children_of, environment_of, redis_programs

from minuet.store.changes import NewRun
from minuet.store.exchange import Delivery
from minuet.store.redis import RedisStore

#: How long each sync takes; Redis waits for one for up to two seconds before it writes on.
SYNC_S = 2

RUNS_MAX = 100_000

STRACE = shutil.which("strace") or str(UNPACKED / "usr" / "bin" / "strace")


class SlowRedis(Redis):
    """A server whose syncs take long: strace holds it up when it asks for one."""

    def _run(
        self, command: list[str], user: int | None = None, environment: dict[str, str] | None = None
    ) -> None:
        slow = ("--seccomp-bpf", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync")
        delay = ("-e", f"inject=fdatasync:delay_enter={SYNC_S}s")
        both = {**environment_of(STRACE), **(environment or {})}
        super()._run([STRACE, *slow, *delay, *command], user, both)

    def kill(self) -> None:
        """Kill the server itself; strace ends with it."""
        if self._process is not None:
            for pid in children_of(self.pid):
                os.kill(pid, signal.SIGKILL)
            self._process.wait(60)
            self._process = None


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[SlowRedis]:
    environment = {**os.environ, **environment_of(STRACE)}
    words = [STRACE, "-qq", "true"]
    if subprocess.run(words, check=False, capture_output=True, env=environment).returncode:
        pytest.skip("a slow disk needs strace, and the right to trace")
    program = redis_programs().get("redis", "")
    server = SlowRedis(tmp_path / "server", program=program, appendfsync="everysec")
    server.start()
    yield server
    server.kill()


@pytest.mark.slow
async def test_a_kill_loses_what_was_answered_and_leaves_an_earlier_state(slow: SlowRedis) -> None:
    store = RedisStore(slow.url)
    await store.open()
    answered = []
    with redis.Redis(port=slow.port) as client:
        for number in range(RUNS_MAX):
            name = f"run-{number:06d}"
            entry = Delivery("only", "", True, 1, 1, "q")
            await store.create_runs([NewRun(name, "w", "p", entries=(entry,))])
            answered.append(name)
            # There is one client: what is in the buffer ends with what was just answered.
            if number > 100 and client.info("persistence")["aof_buffer_length"]:
                break
        slow.kill()
    await store.close()
    left = Redis(slow.folder, program=redis_programs().get("redis", ""), appendfsync="everysec")
    left.start()
    try:
        store = RedisStore(left.url)
        await store.open()
        kept = sorted(run.run for run in await store.list_runs("default", limit=RUNS_MAX))
        assert kept == answered[: len(kept)]
        assert len(kept) < len(answered)
        for name in kept:
            snapshot = await store.read_snapshot("default", name)
            assert snapshot is not None
            assert [event.seq for event in snapshot.events] == [1, 2]
            assert [token.node for token in snapshot.tokens] == ["only"]
        # It goes on: who was told of a run that is gone starts it again.
        (again,) = await store.create_runs([NewRun(answered[-1], "w", "p", entries=(entry,))])
        assert getattr(again, "run", None) == answered[-1]
        await store.close()
    finally:
        left.kill()
