"""Placement constraints: what they make of a queue's name, and which workers meet them."""

from __future__ import annotations

from typing import Any

import pytest

from minuet.errors import DocumentError
from minuet.plan.placement import (
    Offer,
    Placement,
    base_queue,
    describe_needs,
    read_placement,
    unmet,
)

OFFER = Offer(
    "4711",
    "gpu-1",
    frozenset({"task", "train", "docker_executor"}),
    {
        "cpu_cores": 8,
        "memory_gb": 15.5,
        "gpu": 1,
        "labels": ["ssd", "batch"],
        "zone": "eu",
        "spot": True,
        "disk": {"type": "nvme"},
    },
)


def of(**constraints: Any) -> Placement:
    return Placement("task:train", "ml", "train", **constraints)


@pytest.mark.parametrize(
    ("capability", "is_met"),
    [
        ({"cpu_cores": 8}, True),
        ({"cpu_cores": 4}, True),
        ({"cpu_cores": 8.5}, False),
        ({"memory_gb": 15.5}, True),
        ({"memory_gb": 16}, False),
        ({"labels": ["batch"]}, True),
        ({"labels": ["batch", "ssd"]}, True),
        ({"labels": []}, True),
        ({"labels": ["batch", "fast"]}, False),
        ({"labels": "ssd"}, False),
        ({"zone": "eu"}, True),
        ({"zone": "us"}, False),
        ({"zone": ["eu"]}, False),
        ({"zone": 1}, False),
        ({"spot": True}, True),
        ({"spot": False}, False),
        ({"spot": 1}, False),
        ({"gpu": True}, False),
        ({"disk": {"type": "nvme"}}, True),
        ({"disk": {"type": "ssd"}}, False),
        ({"tpu": 1}, False),
        ({"tpu": 0}, False),
        ({"tpu": None}, False),
        ({"cpu_cores": 4, "zone": "eu"}, True),
        ({"cpu_cores": 4, "zone": "us"}, False),
    ],
)
def test_numbers_are_minimums_lists_are_subsets_and_the_rest_is_equal(
    capability: dict[str, Any], is_met: bool
) -> None:
    assert (unmet(of(capabilities=capability), OFFER) == []) == is_met


@pytest.mark.parametrize(
    ("constraints", "lacking"),
    [
        ({}, []),
        ({"executors": ("docker_executor", "rest_executor")}, []),
        ({"executors": ("shell", "rest_executor")}, ["executor shell or rest_executor"]),
        ({"allowed": ("gpu-1", "gpu-2")}, []),
        ({"allowed": ("4711",)}, []),
        ({"allowed": ("gpu-2",)}, ["to be worker gpu-2"]),
        ({"forbidden": ("gpu-2",)}, []),
        ({"forbidden": ("gpu-1",)}, ["not to be worker gpu-1"]),
        ({"forbidden": ("4711",)}, ["not to be worker 4711"]),
        ({"allowed": ("gpu-1",), "forbidden": ("4711",)}, ["not to be worker 4711"]),
        ({"capabilities": {"gpu": 2, "zone": "us"}}, ["gpu ≥ 2", "zone = us"]),
        ({"capabilities": {"labels": ["ssd", "fast"]}}, ["labels with ssd, fast"]),
        ({"capabilities": {"spot": False}}, ["spot = false"]),
    ],
)
def test_what_a_worker_lacks_is_said_in_words(
    constraints: dict[str, Any], lacking: list[str]
) -> None:
    assert unmet(of(**constraints), OFFER) == lacking


def test_all_needs_are_described() -> None:
    placement = of(
        executors=("docker_executor",),
        capabilities={"gpu": 1},
        allowed=("a", "b"),
        forbidden=("c",),
    )

    assert describe_needs(placement) == (
        "executor docker_executor, gpu ≥ 1, to be worker a or b, not to be worker c"
    )
    assert describe_needs(of()) == ""


def test_a_node_without_constraints_waits_in_the_queue_of_its_handler(nodes_of: Any) -> None:
    queue = nodes_of({"id": "a"})["a"].queue

    assert read_placement(queue) is None
    assert base_queue(queue) == queue


@pytest.mark.shows("H-33")
def test_the_name_of_the_queue_says_the_constraints_and_whose_they_are(nodes_of: Any) -> None:
    plain = nodes_of({"id": "a"})["a"].queue
    node = nodes_of(
        {
            "id": "a",
            "placement_constraints": {
                "requires_executors": ["x", "b", "x"],
                "requires_capabilities": {"gpu": 1, "labels": ["süd"]},
                "allowed_nodes": ["w2", "w1"],
                "forbidden_nodes": ["w3"],
            },
        }
    )["a"]

    placement = read_placement(node.queue)

    assert placement is not None
    assert (placement.queue, placement.node) == (plain, "a")
    assert placement.limit == 1  # nobody said otherwise
    assert placement.executors == ("b", "x")
    assert placement.capabilities == {"gpu": 1, "labels": ["süd"]}
    assert (placement.allowed, placement.forbidden) == (("w1", "w2"), ("w3",))
    assert base_queue(node.queue) == plain
    assert node.extra == {}


def test_the_same_constraints_have_the_same_name_however_they_are_written(nodes_of: Any) -> None:
    def queue(**constraints: Any) -> str:
        name: str = nodes_of({"id": "a", "placement": constraints})["a"].queue
        return name

    one = queue(requires_capabilities={"gpu": 1, "zone": "eu"}, allowed_nodes=["a", "b"])
    same = queue(requires_capabilities={"zone": "eu", "gpu": 1}, allowed_nodes=["b", "a", "b"])

    assert one == same
    assert queue(max_parallel_per_node=1) == queue()
    assert len({one, queue(), queue(max_parallel_per_node=2)}) == 3


@pytest.mark.parametrize("name", ["@", "@[]", '@{"queue":1}', "@x", "task:@", ""])
def test_a_name_that_says_no_constraints_is_taken_as_it_stands(name: str) -> None:
    assert read_placement(name) is None
    assert base_queue(name) == name


@pytest.mark.parametrize(
    ("constraints", "code"),
    [
        ({"allowed_nodes": ["a"], "forbidden_nodes": ["b", "a"]}, "placement-impossible"),
        ({"allowed_nodes": [f"worker-{n}" for n in range(100)]}, "placement-too-long"),
    ],
)
def test_constraints_that_cannot_work_are_refused_where_they_stand(
    nodes_of: Any, constraints: dict[str, Any], code: str
) -> None:
    with pytest.raises(DocumentError) as caught:
        nodes_of({"id": "a", "placement": constraints})

    (problem,) = caught.value.diagnostics
    assert (problem.code, problem.path) == (code, "nodes[0].placement")
    assert problem.hint
