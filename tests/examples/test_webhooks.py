"""The guides about webhooks and approvals: the receiver receives, the documents are valid."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from minuet.webhooks.receivers import KINDS

from ..conftest import ROOT

GUIDE = (ROOT / "docs/guides/webhooks.md").read_text("utf-8")


FAILING = """
name: failing
nodes: [{id: a, type: transform, config: {expression: "1 / 0"}}]
"""


def test_the_receiver_of_the_guide_gets_what_a_run_leads_to(tmp_path: Path) -> None:
    ((name, program),) = re.findall(r"```python\n# (\S+\.py)\n(.*?)```", GUIDE, re.DOTALL)
    (tmp_path / name).write_text(program)
    (tmp_path / "failing.yaml").write_text(FAILING)
    secret = {"MINUET_WEBHOOK_SECRET": "whsec_c29tZSByYW5kb20gYnl0ZXM="}
    with subprocess.Popen(
        [sys.executable, name],
        cwd=tmp_path,
        env={**os.environ, **secret},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as receiver:
        assert receiver.stdout is not None
        port = receiver.stdout.readline().strip()
        hooks = {"MINUET_WEBHOOKS": f"http://127.0.0.1:{port}/#events=run.failed"}
        ran = subprocess.run(
            [sys.executable, "-m", "minuet", "run", "failing.yaml"],
            cwd=tmp_path,
            env={**os.environ, **secret, **hooks},
            capture_output=True,
            timeout=60,
        )
        assert ran.returncode == 1
        assert receiver.stdout.readline().startswith("run.failed ")
        receiver.terminate()


def test_the_guide_lists_every_event() -> None:
    listed = re.findall(r"^\| `([a-z_]+\.[a-z_]+)` \|", GUIDE, re.MULTILINE)
    assert sorted(listed) == sorted(KINDS)
