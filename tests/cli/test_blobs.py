"""`minuet blobs put` and `minuet blobs get`."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

CONTENT = bytes(range(256)) * 30
REF = "cas://sha256:" + hashlib.sha256(CONTENT).hexdigest()


@pytest.mark.shows("G-09")
def test_a_file_is_stored_under_its_hash_and_read_back(minuet: Any, folder: Any) -> None:
    (folder.path / "content").write_bytes(CONTENT)

    put = minuet("blobs", "put", "content")
    again = minuet("blobs", "put", "content", "-o", "json")
    got = minuet("blobs", "get", REF, "copy", "-o", "json")

    assert (put.code, put.out) == (0, REF + "\n")
    assert json.loads(again.out) == {"cas_ref": REF, "bytes": len(CONTENT)}
    assert json.loads(got.out) == {"cas_ref": REF, "bytes": len(CONTENT), "file": "copy"}
    assert (folder.path / "copy").read_bytes() == CONTENT


@pytest.mark.shows("A-06", "A-07", "F-14")
def test_a_document_names_configs_and_schemas_that_were_put(minuet: Any, folder: Any) -> None:
    (folder.path / "config.json").write_text('{"value": {"hello": "{{ input.name }}"}}')
    (folder.path / "schema.json").write_text('{"required": ["hello"]}')
    config = minuet("blobs", "put", "config.json").out.strip()
    schema = minuet("blobs", "put", "schema.json").out.strip()
    condition = {"type": "schema_validation", "schema_ref": schema}
    document = {
        "name": "w",
        "nodes": [
            {
                "id": "a",
                "type": "transform",
                "config_ref": {"type_url": "example/Config@1", "cas_ref": config},
                "branch": {"rules": [{"condition": condition, "next_nodes": ["b"]}]},
            },
            {"id": "b", "type": "transform", "config_ref": config},
        ],
    }
    (folder.path / "w.json").write_text(json.dumps(document))

    done = minuet("run", "w.json", "-i", "name=you", "-o", "json")

    nodes = json.loads(done.out)["nodes"]
    assert (done.code, nodes["a"]["output"]) == (0, {"hello": "you"})
    assert nodes["b"]["output"] == {"hello": "you"}


def test_a_reference_that_is_no_hash_fails_when_it_is_read(minuet: Any, folder: Any) -> None:
    document = {
        "name": "w",
        "nodes": [
            {"id": "a", "type": "transform", "config_ref": "cas://sha256:payment_config"},
        ],
    }
    (folder.path / "w.json").write_text(json.dumps(document))

    assert minuet("validate", "w.json").code == 0
    done = minuet("run", "w.json", "-o", "json")
    error = json.loads(done.out)["error"]

    assert done.code == 1
    assert "cas://sha256:payment_config is not in the store" in error["message"]
    assert "minuet blobs put" in error["message"]


def test_a_config_that_does_not_fit_its_node_type_fails_the_node(minuet: Any, folder: Any) -> None:
    (folder.path / "config.json").write_text('{"vale": 1}')
    ref = minuet("blobs", "put", "config.json").out.strip()
    document = {"name": "w", "nodes": [{"id": "a", "type": "transform", "config_ref": ref}]}
    (folder.path / "w.json").write_text(json.dumps(document))

    done = minuet("run", "w.json", "-o", "json")

    assert done.code == 1
    assert f"the config {ref} does not fit a transform node" in done.out


def test_what_cannot_be_read_says_so_and_leaves_the_file_alone(minuet: Any, folder: Any) -> None:
    (folder.path / "content").write_bytes(CONTENT)
    (folder.path / "kept").write_text("kept")
    minuet("blobs", "put", "content")
    lost = "cas://sha256:" + "0" * 64

    for arguments, message in (
        (("put", "nothing"), "nothing cannot be read: No such file"),
        (("put", "content", "--store", "memory://"), "nothing can be kept there"),
        (("get", lost, "kept"), f"the blob {lost} is not in the store"),
        (("get", "nonsense"), "is not a reference to a blob"),
        (("get", REF, "-o", "json"), "goes with a FILE"),
        (("get", REF, "no/such/folder"), "cannot be written"),
    ):
        done = minuet("blobs", *arguments)
        assert done.code != 0, arguments
        assert message in done.err, done.err
    assert (folder.path / "kept").read_text() == "kept"
