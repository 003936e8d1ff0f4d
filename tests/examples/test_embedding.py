"""The guide about embedding: its programs run, and its services serve, in the real frameworks."""

from __future__ import annotations

import asyncio
import importlib.util
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from starlette.testclient import TestClient

import minuet

from ..conftest import ROOT
from ..scenario.harness import module_of, task, workflow
from .programs import check_program

GUIDE = (ROOT / "docs" / "guides" / "embedding.md").read_text("utf-8")

#: Every program, and what it prints.
PROGRAMS: list[tuple[str, str]] = re.findall(
    r"```python\n(?!# )((?:(?!```).)*)```\n\n```text\n(.*?)```", GUIDE, re.DOTALL
)
#: Every file, by its name.
FILES = dict(re.findall(r"```python\n# (\S+\.py)\n(.*?)```", GUIDE, re.DOTALL))

ORDER = {"number": 7, "prices": ["1.50", "2.40"]}
RECEIPT = {"number": 7, "total": "3.90"}


def test_every_block_of_the_guide_is_tested() -> None:
    assert len(PROGRAMS) + len(FILES) == GUIDE.count("```python\n") == 4
    assert FILES.keys() == {"service.py", "shop.py"}


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_a_program_prints_what_the_guide_says(number: int, tmp_path: Path) -> None:
    check_program(*PROGRAMS[number], tmp_path)


def load(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import a file of the guide, in a folder of its own."""
    path = folder / name
    path.write_text(FILES[name], "utf-8")
    monkeypatch.chdir(folder)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # pydantic finds the names of annotations there.
    monkeypatch.setitem(sys.modules, path.stem, module)
    monkeypatch.setattr(minuet.nodes.handler.REGISTERED, "_tasks", {})  # type: ignore[attr-defined]
    spec.loader.exec_module(module)
    return module


# ── FastAPI ─────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    return load("service.py", tmp_path, monkeypatch).service


def test_fastapi_starts_runs_in_the_background_and_waits_for_them(service: Any) -> None:
    with TestClient(service) as client:
        started = client.post("/orders", json=ORDER)
        assert started.status_code == 202
        run_id = started.json()["run_id"]
        # Who repeats a request gets the same run.
        assert client.post("/orders", json=ORDER).json() == {"run_id": run_id}
        ended = client.get(f"/runs/{run_id}/result").json()
        assert (ended["status"], ended["output"]) == ("COMPLETED", RECEIPT)
        assert client.get(f"/runs/{run_id}").json() == ended


def test_fastapi_answers_with_the_output_of_a_run(service: Any) -> None:
    with TestClient(service) as client:
        assert client.post("/receipts", json=ORDER).json() == RECEIPT
        # The framework and Minuet know the same class.
        assert client.post("/receipts", json={"number": 7}).status_code == 422
        schema = client.get("/openapi.json").json()
        answer = schema["paths"]["/receipts"]["post"]["responses"]["200"]["content"]
        assert answer["application/json"]["schema"] == {"$ref": "#/components/schemas/Receipt"}


def test_fastapi_answers_errors_with_their_status_and_code(service: Any) -> None:
    with TestClient(service) as client:
        failed = client.post("/receipts", json={"number": 8, "prices": []})
        assert failed.status_code == 409
        assert failed.json()["code"] == "run-failed"
        assert "nothing to charge" in failed.json()["detail"]
        missing = client.get("/runs/01")
        assert (missing.status_code, missing.json()["code"]) == (404, "run-not-found")
        client.post("/orders", json=ORDER)
        other = client.post("/orders", json={**ORDER, "prices": ["1"]})
        assert (other.status_code, other.json()["code"]) == (409, "run-conflict")


def test_fastapi_serves_many_requests_at_once(service: Any) -> None:
    with TestClient(service) as client, ThreadPoolExecutor(8) as threads:

        def ask(number: int) -> Any:
            return client.post("/receipts", json={"number": number, "prices": [number]}).json()

        assert list(threads.map(ask, range(40))) == [
            {"number": number, "total": str(number)} for number in range(40)
        ]


def test_the_end_of_a_fastapi_service_drains_its_app(service: Any) -> None:
    stopping: list[Any] = []
    begun = asyncio.Event()

    async def until_the_end() -> str:
        # It ends only because the service ends.
        begun.set()
        await stopping[0].wait()
        return "finished"

    document = workflow(task("until_the_end"))
    with TestClient(service) as client:

        async def start() -> str:
            app = service.state.app
            app.handlers.allow(module_of({"until_the_end": until_the_end}))
            stopping.append(app.worker.stopping)
            run = await app.start(document)
            await begun.wait()
            return str(run.id)

        assert client.portal is not None
        run_id = client.portal.call(start)

    with minuet.SyncApp("sqlite:///orders.db", worker=False) as app:
        result = app.runs.show(run_id)
        assert (result.status, result.output) == ("COMPLETED", {"until_the_end": "finished"})


# ── Flask ───────────────────────────────────────────────────────────────────────────────────


def test_flask_starts_runs_and_waits_for_them_in_many_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = load("shop.py", tmp_path, monkeypatch)
    at_exit: list[Any] = []
    monkeypatch.setattr(module.atexit, "register", at_exit.append)
    shop = module.create_app()
    try:

        def ship(number: int) -> Any:
            client = shop.test_client()
            started = client.post("/shipments", json={"parcels": [number, 1]})
            assert started.status_code == 202
            return client.get(f"/shipments/{started.json['run_id']}").json

        with ThreadPoolExecutor(8) as threads:
            ended = list(threads.map(ship, range(24)))

        assert [one["status"] for one in ended] == ["COMPLETED"] * 24
        assert [one["output"] for one in ended] == [{"grams": number + 1} for number in range(24)]
        missing = shop.test_client().get("/shipments/01")
        assert (missing.status_code, missing.json["code"]) == (404, "run-not-found")
    finally:
        for close in at_exit:
            close()


#: The handler ends only because the process does.
SERVED = """
import threading
import shop

begun = threading.Event()
opened = []

class Noted(shop.minuet.SyncApp):
    def open(self):
        super().open()
        opened.append(self._facade)

async def weigh(parcels):
    begun.set()
    await opened[0].worker.stopping.wait()
    return 3

shop.minuet.SyncApp = Noted
shop.weigh.function, shop.weigh.is_async = weigh, True
print(shop.create_app().test_client().post("/shipments", json={"parcels": []}).json["run_id"])
begun.wait()
"""


def test_a_flask_process_that_ends_drains_its_app(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(FILES["shop.py"], "utf-8")
    done = subprocess.run(
        [sys.executable, "-c", SERVED],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")

    with minuet.SyncApp(f"sqlite:///{tmp_path}/shop.db", worker=False) as app:
        # What ran was finished and kept; what comes after it is for the next process.
        weighed = app.runs.show(done.stdout.strip()).nodes["weigh"]
        assert (weighed.status, weighed.output) == ("COMPLETED", 3)
