"""Documents that can be read but not compiled, each with all problems: `line:column code`."""

from __future__ import annotations

HEAD = "name: w\nnodes:\n"

BROKEN: dict[str, tuple[str, list[str]]] = {
    "a cycle": (
        HEAD + "  - {id: s, type: noop}\n"
        "  - {id: a, type: noop, dependencies: [s, b]}\n"
        "  - {id: b, type: noop, dependencies: [a]}\n"
        "  - {id: e, type: noop, dependencies: [b]}\n",
        ["4:5 cycle"],
    ),
    "a cycle of everything": (
        HEAD + "  - {id: a, type: noop, dependencies: [b]}\n"
        "  - {id: b, type: noop, dependencies: [a]}\n",
        ["3:5 cycle"],
    ),
    "a node that depends on itself": (
        HEAD + "  - {id: s, type: noop}\n  - {id: a, type: noop, dependencies: [s, a]}\n",
        ["4:43 self-dependency"],
    ),
    "a dependency that does not exist": (
        HEAD + "  - {id: fetch, type: noop}\n  - {id: a, type: noop, dependencies: [fetsh]}\n",
        ["4:40 unknown-node"],
    ),
    "a dependent that does not exist": (
        HEAD + "  - {id: a, type: noop, dependents: [b]}\n",
        ["3:38 unknown-node"],
    ),
    "an edge from nowhere": (
        HEAD + "  - {id: a, type: noop}\nedges:\n  - {from: b, to: a}\n",
        ["5:12 unknown-node"],
    ),
    "two nodes of one name": (
        HEAD + "  - {id: a, type: noop}\n  - {id: a, type: noop}\n",
        ["4:10 duplicate-node"],
    ),
    "no nodes": (
        "name: w\nnodes: []\n",
        ["2:8 no-entry"],
    ),
    "an unknown node type": (
        HEAD + "  - {id: a, type: nop}\n",
        ["3:19 unknown-node-type"],
    ),
    "a task without a handler": (
        HEAD + "  - {id: a}\n",
        ["3:5 missing-handler"],
    ),
    "config that the type does not know": (
        HEAD + "  - {id: a, type: wait, config: {minutes: 1}}\n",
        ["3:33 bad-config", "3:33 bad-config"],
    ),
    "config of a wrong type": (
        HEAD + "  - {id: a, type: wait, config: {seconds: -1}}\n",
        ["3:43 bad-config"],
    ),
    "a branch to nowhere": (
        HEAD + "  - id: a\n"
        "    type: decision\n"
        "    branch:\n"
        "      rules: [{when: 'true', next_nodes: [b]}]\n"
        "      default: [c]\n",
        ["6:43 unknown-node", "7:17 unknown-node"],
    ),
    "a branch without a choice": (
        HEAD + "  - {id: a, type: decision, branch: {rules: []}}\n",
        ["3:37 empty-branch"],
    ),
    "a condition that is no CEL": (
        HEAD + "  - id: a\n"
        "    type: decision\n"
        "    branch: {rules: [{when: 'output >', next_nodes: [b]}]}\n"
        "  - {id: b, type: noop}\n",
        ["5:29 bad-condition"],
    ),
    "a loop condition that is no CEL": (
        HEAD + "  - id: a\n    type: noop\n    loop: {while: '1 +', max_iterations: 3}\n",
        ["5:19 bad-condition"],
    ),
    "a template that does not end": (
        HEAD + "  - {id: a, type: transform, config: {value: '{{ input.x '}}\n",
        ["3:46 bad-template"],
    ),
    "a template with a statement": (
        HEAD + "  - {id: a, type: transform, config: {value: '{% if x %}'}}\n",
        ["3:46 bad-template"],
    ),
    "an unknown filter": (
        HEAD + "  - {id: a, type: transform, config: {value: '{{ input.x | frobnicate }}'}}\n",
        ["3:46 bad-template"],
    ),
    "a reference to a node that does not exist": (
        HEAD + "  - {id: a, type: transform, config: {value: '{{ b.x }}'}}\n",
        ["3:46 unknown-reference"],
    ),
    "a reference to a node that is no ancestor": (
        HEAD + "  - {id: a, type: noop}\n"
        "  - {id: b, type: transform, config: {value: '{{ a.x }}'}}\n",
        ["4:46 not-an-ancestor"],
    ),
    "an output that refers to nowhere": (
        HEAD + "  - {id: a, type: noop}\noutput: '{{ b.x }}'\n",
        ["4:9 unknown-reference"],
    ),
    "a join of more than there are": (
        HEAD + "  - {id: a, type: noop}\n  - {id: b, type: noop, join: 2, dependencies: [a]}\n",
        ["4:31 join-need-too-large"],
    ),
    "an input schema that is none": (
        "name: w\ninput: {type: objekt}\nnodes:\n  - {id: a, type: noop}\n",
        ["2:15 bad-input-schema"],
    ),
    "a loop back to a node that comes later": (
        HEAD
        + "  - {id: a, type: noop, loop: {while: 'true', max_iterations: 3, loop_back_to: b}}\n"
        "  - {id: b, type: noop, dependencies: [a]}\n",
        ["3:80 loop-back-not-ancestor"],
    ),
    "a loop back to nowhere": (
        HEAD
        + "  - {id: a, type: noop, loop: {while: 'true', max_iterations: 3, loop_back_to: z}}\n",
        ["3:80 unknown-node"],
    ),
    "a loop that leaves in the middle": (
        HEAD + "  - {id: a, type: noop}\n"
        "  - {id: b, type: noop, dependencies: [a], "
        "loop: {while: 'true', max_iterations: 3, loop_back_to: a}}\n"
        "  - {id: c, type: noop, dependencies: [a]}\n",
        ["5:40 loop-body-exit"],
    ),
    "an expression that is no CEL": (
        HEAD + "  - {id: a, type: transform, config: {expression: '1 +'}}\n",
        ["3:51 bad-expression"],
    ),
    "an expression with a key that no object can have": (
        HEAD + "  - {id: a, type: transform, config: {expression: '{[1]: 2}'}}\n",
        ["3:51 bad-expression"],
    ),
    "an error path to nowhere": (
        HEAD + "  - {id: a, type: noop, on_error: [z]}\n",
        ["3:36 unknown-node"],
    ),
    "a rejection path without a person": (
        HEAD + "  - {id: a, type: noop, rejection_path: [z]}\n",
        ["3:41 no-effect", "3:42 unknown-node"],
    ),
    "a branch back to an ancestor": (
        HEAD + "  - {id: a, type: noop}\n"
        "  - {id: b, type: decision, dependencies: [a], "
        "branch: {rules: [{when: 'true', next_nodes: [a]}]}}\n",
        ["3:5 cycle"],
    ),
    "a loop that never ends": (
        HEAD + "  - {id: s, type: noop}\n"
        "  - {id: a, type: decision, dependencies: [s, b], branch: {default: [b]}}\n"
        "  - {id: b, type: noop, dependencies: [a]}\n",
        ["4:5 cycle"],
    ),
    "two loops that overlap": (
        HEAD + "  - {id: a, type: noop}\n"
        "  - {id: b, type: noop, dependencies: [a]}\n"
        "  - {id: c, type: noop, dependencies: [b], "
        "loop: {while: 'true', max_iterations: 2, loop_back_to: a}}\n"
        "  - {id: d, type: noop, dependencies: [c], "
        "loop: {while: 'true', max_iterations: 2, loop_back_to: b}}\n",
        ["6:50 loops-overlap"],
    ),
    "a break path into the loop": (
        HEAD + "  - {id: a, type: noop}\n"
        "  - {id: b, type: noop, dependencies: [a], "
        "loop: {while: 'true', max_iterations: 3, loop_back_to: a, break_path: [a]}}\n",
        ["3:5 loop-exit-back"],
    ),
    "an unknown function in a condition": (
        HEAD + "  - {id: a, type: decision, "
        "branch: {rules: [{when: 'frob(output)', next_nodes: [b]}]}}\n"
        "  - {id: b, type: noop}\n",
        ["3:53 bad-condition"],
    ),
    "a condition about a node that does not exist": (
        HEAD + "  - {id: a, type: decision, "
        "branch: {rules: [{when: 'ctx.z.output > 1', next_nodes: [b]}]}}\n"
        "  - {id: b, type: noop}\n",
        ["3:53 unknown-reference"],
    ),
    "a join in the wrong nest": (
        HEAD + "  - {id: a, type: noop}\n"
        "  - {id: b, type: noop}\n"
        "  - {id: e, type: noop, join: each, dependencies: [a, b]}\n"
        "  - {id: z, type: noop, dependencies: [e, a]}\n",
        ["6:5 join-nest-mismatch"],
    ),
    "a seconds template is no number at compile time": (
        HEAD + "  - {id: a, type: wait, config: {seconds: soon}}\n",
        ["3:43 bad-config"],
    ),
    "a handler that is not there": (
        HEAD + "  - {id: a, handler: duble}\n",
        ["3:22 unknown-handler"],
    ),
    "a module that was not given": (
        HEAD + "  - {id: a, handler: 'os:system'}\n",
        ["3:22 unknown-handler"],
    ),
    "several at once": (
        HEAD + "  - {id: a, type: nop}\n"
        "  - {id: b, type: noop, dependencies: [z]}\n"
        "  - {id: c, type: transform, config: {value: '{{ q.x }}'}}\n",
        ["3:19 unknown-node-type", "4:40 unknown-node", "5:46 unknown-reference"],
    ),
    "a condition type that is unknown": (
        HEAD + "  - id: a\n"
        "    type: decision\n"
        "    branch:\n"
        "      rules:\n"
        "        - condition: {type: sql, expression: 'x'}\n"
        "          next_nodes: [b]\n"
        "  - {id: b, type: noop}\n",
        ["7:22 bad-condition"],
    ),
}
