"""Restate: what its ingress answers is the end of the run."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from bench.peers.engines.restate import open_servers
from bench.peers.harness import Options
from bench.peers.services.waiting import say, wait_for_input


def main() -> None:
    folder, _, tools = sys.argv[1:]
    with open_servers(Options(str(Path(tempfile.mkdtemp(dir=folder))), tools=tools)) as url:
        say(url)
        wait_for_input()


if __name__ == "__main__":
    main()
