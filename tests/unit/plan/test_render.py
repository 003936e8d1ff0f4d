"""Plans as pictures."""

from __future__ import annotations

from typing import Any

import msgspec

from minuet.plan.render import to_compact_graph, to_graph, to_mermaid

NODES: list[dict[str, Any]] = [
    {
        "id": "a",
        "branch": {"rules": [{"condition": "true", "next_nodes": ["o"]}], "default": ["z"]},
    },
    {"id": "o", "type": "task", "handler": "shop:open"},
    {"id": "inner", "dependencies": ["o"], "loop": {"condition": "false"}},
    {
        "id": "outer",
        "dependencies": ["inner"],
        "loop": {"condition": "false", "loop_back_to": "o", "timeout_path": ["z"]},
    },
    {"id": "z", "dependencies": ["outer"]},
]


def test_mermaid_shows_loops_as_boxes_and_names_routes(compiled: Any) -> None:
    plan = compiled(*NODES, output="{{ input.x }}").plan

    assert to_mermaid(plan) == (
        "flowchart TD\n"
        '  n0{{"a<br/>noop"}}\n'
        '  n4["z<br/>noop"]\n'
        '  n5(["output"])\n'
        '  subgraph loop_n3["loop of outer"]\n'
        '    n1["o<br/>shop:open"]\n'
        '    n3["outer<br/>noop"]\n'
        '    subgraph loop_n2["loop of inner"]\n'
        '      n2["inner<br/>noop"]\n'
        "    end\n"
        "  end\n"
        '  n0 -. "branch" .-> n1\n'
        '  n0 -. "branch" .-> n4\n'
        "  n1 --> n2\n"
        "  n2 --> n3\n"
        '  n2 -. "again" .-> n2\n'
        '  n3 -. "too often" .-> n4\n'
        '  n3 -. "again" .-> n1\n'
        "  n4 --> n5\n"
    )


def test_mermaid_text_cannot_break_out_of_its_label(compiled: Any) -> None:
    plan = compiled({"id": "a"}).plan
    odd = msgspec.structs.replace(plan.nodes[0], handler='"]\n--> `<b>` & #1')

    drawn = to_mermaid(msgspec.structs.replace(plan, nodes=(odd,)))

    label = "a<br/>#quot;] --#gt; #96;#lt;b#gt;#96; #amp; #35;1"
    assert drawn == f'flowchart TD\n  n0["{label}"]\n'


def test_mermaid_closes_a_box_before_it_opens_the_next(compiled: Any) -> None:
    plan = compiled(
        {"id": "a", "loop": {"condition": "false"}},
        {"id": "b", "dependencies": ["a"], "loop": {"condition": "false"}},
    ).plan

    boxes = [line.strip() for line in to_mermaid(plan).splitlines() if "-->" not in line]
    assert [line for line in boxes if line == "end" or line.startswith("subgraph")] == [
        'subgraph loop_n0["loop of a"]',
        "end",
        'subgraph loop_n1["loop of b"]',
        "end",
    ]


def test_the_graph_has_everything_that_a_picture_needs(compiled: Any) -> None:
    graph = to_graph(compiled(*NODES).plan)

    assert graph["name"] == "example"
    assert graph["constructs"] == {"inner": "loop", "outer": "loop"}
    nodes = {node["id"]: node for node in graph["nodes"]}
    assert (
        nodes["inner"].items()
        >= {
            "id": "inner",
            "type": "noop",
            "handler": None,
            "nest": ["outer", "inner"],
            "need": 0,
            "dependencies": ["o"],
            "dependents": ["outer"],
            "is_entry": False,
            "is_terminal": False,
            "is_output": False,
            "foreach": False,
        }.items()
    )
    assert nodes["a"]["is_entry"]
    assert nodes["z"]["is_terminal"]
    roles = {(edge["from"], edge["to"]): edge["roles"] for edge in graph["edges"]}
    assert roles["outer", "z"] == ["static", "timeout"]
    assert roles["inner", "inner"] == ["back"]


def test_a_compact_graph_has_all_that_does_not_follow_from_the_rest(compiled: Any) -> None:
    plan = compiled(*NODES).plan
    whole, compact = to_graph(plan), to_compact_graph(plan)
    edge = {"roles": ["static"], "rules": [], "is_default": False}
    implied = {"dependencies", "dependents"}

    assert [edge | one for one in compact["edges"]] == whole["edges"]
    for full, brief in zip(whole["nodes"], compact["nodes"], strict=True):
        left_out = full.keys() - brief.keys()
        assert brief == {name: full[name] for name in full.keys() - left_out}
        assert not any(full[name] for name in left_out - implied)
    assert len(str(compact)) < len(str(whole)) / 2
