"""Documents with problems, each with all that must be reported: `line:column code path`.

A text that does not begin with `{` or `[` is YAML. `HEAD` is a correct beginning, so that
cases about nodes start at line 3.
"""

from __future__ import annotations

HEAD = "name: w\nnodes:\n"

BROKEN: dict[str, tuple[str | bytes, list[str]]] = {
    # The text itself.
    "nothing": ("", ["1:1 empty-document "]),
    "blanks": (" \n \n", ["1:1 empty-document "]),
    "only a comment": ("# later\n", ["1:1 empty-document "]),
    "only a document start": ("---\n", ["1:1 empty-document "]),
    "an explicit null": ("~\n", ["1:1 empty-document "]),
    "a byte that is not valid UTF-8": (b"name: w\nnodes: [\xc3\x28]\n", ["2:9 not-utf8 "]),
    "UTF-16": ("name: w".encode("utf-16"), ["1:1 not-utf8 "]),
    "a NUL in YAML": ("name: w\nnodes:\0 []\n", ["2:7 bad-character "]),
    "a NUL in JSON": ('{"name": "w\0"}', ["1:12 bad-character "]),
    "a lone surrogate": ("name: \ud800\n", ["1:7 bad-character "]),
    "a byte order mark inside": ("name: w\ufeff\n", ["1:8 bad-character "]),
    "an escaped NUL in JSON": (
        '{"name": "w", "description": "\\u0000",\n "nodes": []}',
        ["1:30 bad-character description"],
    ),
    "an escaped NUL in YAML": (
        'name: w\ndescription: "\\0"\nnodes: []\n',
        ["2:14 bad-character description"],
    ),
    "an escaped NUL in a key": (
        '{"name": "w", "nodes": [],\n "on\\u0000": 1}',
        ["2:2 bad-character "],
    ),
    "half a surrogate pair": (
        '{"name": "w", "nodes": [], "description": "\\ud83d!"}',
        ["1:43 bad-character description"],
    ),
    # JSON syntax.
    "a trailing comma": ('{"name": "w",\n "nodes": [],\n}', ["3:1 syntax "]),
    "a missing comma": ('{"name": "w"\n "nodes": []}', ["2:2 syntax "]),
    "a missing colon": ('{"name" "w"}', ["1:9 syntax "]),
    "a bare key": ('{name: "w"}', ["1:2 syntax "]),
    "a number as key": ('{1: "w"}', ["1:2 syntax "]),
    "a bare word": ('{"name": w}', ["1:10 syntax "]),
    "single quotes": ("{'name': 'w'}", ["1:2 syntax "]),
    "an open string": ('{"name": "w\n}', ["1:10 syntax "]),
    "an open object": ('{"name": "w"', ["1:13 syntax "]),
    "an open list": ("[1, 2", ["1:6 syntax "]),
    "an open comment": ('{"name": /* w', ["1:10 syntax "]),
    "an unknown escape": ('{"name": "a\\q"}', ["1:12 syntax "]),
    "a wrong number": ('{"name": 01}', ["1:10 syntax "]),
    "a colon for a value": ('{"name": :}', ["1:10 syntax "]),
    "text behind the end": ('{"name": "w"}\n{}', ["2:1 syntax "]),
    "a position behind comments": (
        '// one\n/* two\n three */ {"name": "w",\n\t"nodes" []}',
        ["4:10 syntax "],
    ),
    # YAML syntax.
    "a tab as indentation": ("name: w\nnodes:\n\t- id: a\n", ["3:1 syntax "]),
    "a colon in plain text": ("name: a: b\n", ["1:8 syntax "]),
    "a wrong indentation": (HEAD + "  - id: a\n   type: noop\n", ["4:4 syntax "]),
    "an open flow list": ("name: w\nnodes: [\n", ["3:1 syntax "]),
    "an open quote": ('name: "w\n', ["2:1 syntax "]),
    "several documents": ("name: w\nnodes: []\n---\nname: v\n", ["3:1 several-documents "]),
    # Plain data.
    "a list at the top": ("[]", ["1:1 wrong-type "]),
    "text at the top": ("just text\n", ["1:1 wrong-type "]),
    "a duplicate key in JSON": (
        '{"name": "w",\n "nodes": [],\n "name": "v"}',
        ["3:2 duplicate-key name"],
    ),
    "a duplicate key in YAML": (
        HEAD + "  - id: a\n    config: {x: 1, y: 2, x: {z: 3}}\n",
        ["4:26 duplicate-key nodes[0].config.x"],
    ),
    "NaN and Infinity": (
        '{"name": "w", "nodes": [],\n"output": [NaN, 1,\n-Infinity]}',
        ["2:12 bad-number output[0]", "3:1 bad-number output[2]"],
    ),
    "a whole number beyond 64 bits": (
        '{"name": "w", "nodes": [],\n"output": 9223372036854775808}',
        ["2:11 bad-number output"],
    ),
    "a million digits": (
        '{"name": "w", "nodes": [], "output": ' + "9" * 1_000_000 + "}",
        ["1:38 bad-number output"],
    ),
    "a decimal beyond all bounds": (
        '{"name": "w", "nodes": [], "output": 1e999}',
        ["1:38 bad-number output"],
    ),
    "odd numbers in YAML": (
        "name: w\nnodes: []\noutput:\n- .nan\n- -.inf\n- 1e999\n- 007\n- 0xFFFFFFFFFFFFFFFFF\n",
        [
            "4:3 bad-number output[0]",
            "5:3 bad-number output[1]",
            "6:3 bad-number output[2]",
            "7:3 bad-number output[3]",
            "8:3 bad-number output[4]",
        ],
    ),
    "keys that are no strings": (
        "name: w\nnodes: []\noutput:\n  1: a\n  true: {b: 1}\n  ~: c\n  [d, [e]]: f\n  2: &k 1\n",
        [
            "4:3 bad-key output",
            "5:3 bad-key output",
            "6:3 bad-key output",
            "7:3 bad-key output",
            "8:3 bad-key output",
        ],
    ),
    "a template without quotes": (
        "name: w\nnodes: []\noutput: {{ a.output }}\n",
        ["3:10 bad-key output"],
    ),
    "an alias as key": (
        "name: &n w\nnodes: []\noutput: {*n : 1}\n",
        ["3:10 bad-key output"],
    ),
    "a tag": (
        "name: w\nnodes: []\noutput: !!python/object/apply:os.getcwd []\n",
        ["3:9 yaml-tag output"],
    ),
    "a tag at the top": ("--- !thing\nname: w\nnodes: []\n", ["1:5 yaml-tag "]),
    "tags on a key and a scalar": (
        "name: !!str w\n!x nodes: []\n",
        ["1:1 missing-field ", "1:7 yaml-tag name", "2:1 yaml-tag "],
    ),
    "a merge key": (
        "name: w\ndefaults: &d {timeout: 3}\nnodes:\n- id: a\n  <<: *d\n",
        ["5:3 yaml-merge nodes[0]"],
    ),
    "an alias without anchor": ("name: w\nnodes: [*none]\n", ["2:9 yaml-alias nodes[0]"]),
    "an alias inside its anchor": (
        "name: w\nnodes: []\noutput: &o [1, *o]\n",
        ["3:16 yaml-alias output[1]"],
    ),
    "too many levels in JSON": (
        '{"name": "w", "nodes": [],\n"output": ' + "[" * 100 + "]" * 100 + "}",
        ["2:110 too-deep output" + "[0]" * 99],
    ),
    "far too many levels in JSON": ("[" * 100_000, ["1:101 too-deep " + "[0]" * 100]),
    "too many levels in YAML": (
        "name: w\nnodes: []\noutput: " + "[" * 100 + "]" * 100 + "\n",
        ["3:108 too-deep output" + "[0]" * 99],
    ),
    "too many levels in a key": (
        "name: w\noutput:\n  ? " + "[" * 102 + "]" * 102 + "\n  : 1\n",
        ["3:105 too-deep output[\"?\"]"],
    ),
    # Fields.
    "no fields": ("{}", ["1:1 missing-field ", "1:1 missing-field "]),
    "unknown fields": (
        HEAD + "  - id: a\n    depend_on: []\n    loop: {while: x, max_iteration: 3}\nedgs: []\n",
        [
            "4:5 unknown-field nodes[0].depend_on",
            "5:22 unknown-field nodes[0].loop.max_iteration",
            "6:1 unknown-field edgs",
        ],
    ),
    "an unknown field with a long, odd name": (
        '{"name": "w", "nodes": [],\n"' + "\\u001b" * 100 + '": 1}',
        ['2:1 unknown-field ["' + "\\u001b" * 40 + '"… (100 characters)]'],
    ),
    "missing fields": (
        HEAD + "  - type: noop\n  - id: b\n    branch:\n      rules:\n        - when: x\n"
        "    foreach: {}\n    concurrency: {limit: 1}\n    compensator: {retry: 3}\n"
        "    loop: {}\nedges:\n  - from: a\n",
        [
            "3:5 missing-field nodes[0]",
            "7:11 missing-field nodes[1].branch.rules[0]",
            "8:14 missing-field nodes[1].foreach",
            "9:18 missing-field nodes[1].concurrency",
            "10:18 missing-field nodes[1].compensator",
            "11:11 missing-field nodes[1].loop",
            "13:5 missing-field edges[0]",
        ],
    ),
    "two spellings": (
        HEAD + "  - id: a\n    node_id: a\n    depends_on: []\n    dependencies: []\n"
        "    human_config: {timeout_hours: 1, timeout_seconds: 3600}\n"
        "    compensator: {action: x, handler: x}\n",
        [
            "4:5 duplicate-field nodes[0].node_id",
            "6:5 duplicate-field nodes[0].dependencies",
            "7:38 duplicate-field nodes[0].human_config.timeout_seconds",
            "8:30 duplicate-field nodes[0].compensator.handler",
        ],
    ),
    "joins that contradict": (
        HEAD + "  - {id: a, join: any, wait_for_all: true}\n"
        "  - {id: b, wait_for_all: false, join: all}\n"
        "  - {id: c, join: 2, wait_for_all: true}\n",
        [
            "3:38 contradiction nodes[0].wait_for_all",
            "4:27 contradiction nodes[1].wait_for_all",
            "5:36 contradiction nodes[2].wait_for_all",
        ],
    ),
    "a broken join beside wait_for_all": (
        HEAD + "  - {id: a, join: most, wait_for_all: false}\n  - {id: b, wait_for_all: 2}\n",
        ["3:19 wrong-value nodes[0].join", "4:27 wrong-type nodes[1].wait_for_all"],
    ),
    # Values.
    "odd node ids": (
        HEAD + "  - id: ä\n  - id: ../a\n  - id: '{}'\n  - id: \"a\\n\"\n  - id: ''\n"
        "  - id: " + "x" * 65536 + "\n  - id: a.b\n  - {id: ok, depends_on: [ok, 'not ok']}\n",
        [
            "3:9 bad-id nodes[0].id",
            "4:9 bad-id nodes[1].id",
            "5:9 bad-id nodes[2].id",
            "6:9 bad-id nodes[3].id",
            "7:9 bad-id nodes[4].id",
            "8:9 bad-id nodes[5].id",
            "9:9 bad-id nodes[6].id",
            "10:31 bad-id nodes[7].depends_on[1]",
        ],
    ),
    "a lone string for a list of ids": (
        HEAD + "  - id: a\n    depends_on: b\n    on_error: b\n    rejection_path: b\n",
        [
            "4:17 wrong-type nodes[0].depends_on",
            "5:15 wrong-value nodes[0].on_error",
            "6:21 wrong-type nodes[0].rejection_path",
        ],
    ),
    "nodes as an object": ("name: w\nnodes:\n  a: {}\n", ["2:1 wrong-type nodes"]),
    "a node that is a string": (HEAD + "  - a\n", ["3:5 wrong-type nodes[0]"]),
    "fields without a value": (
        HEAD + "  - id: a\n    loop:\n    dependencies: ~\n",
        ["4:10 wrong-type nodes[0].loop", "5:19 wrong-type nodes[0].dependencies"],
    ),
    "a name that is a number": ("name: 7\nnodes: []\n", ["1:7 wrong-type name"]),
    "a name with a slash": ("name: a/b\nnodes: []\n", ["1:7 wrong-value name"]),
    "booleans and strings for numbers": (
        HEAD + "  - id: a\n    timeout: true\n    retry: true\n    join: true\n"
        "    foreach: {items: [], need: '2'}\n    agent_config: {temperature: '0.3'}\n",
        [
            "4:14 wrong-type nodes[0].timeout",
            "5:12 wrong-type nodes[0].retry",
            "6:11 wrong-type nodes[0].join",
            "7:32 wrong-type nodes[0].foreach.need",
            "8:33 wrong-type nodes[0].agent_config.temperature",
        ],
    ),
    "numbers out of range": (
        HEAD + "  - id: a\n    timeout: 0\n    retry: 0\n    join: 0\n"
        "    loop: {while: x, max_iterations: 0}\n    limits: {deadline_s: -1, max_hops: 0}\n"
        "    agent_config: {temperature: 2.5}\n    retry_config: {multiplier: 0.5}\n",
        [
            "4:14 wrong-value nodes[0].timeout",
            "5:12 wrong-value nodes[0].retry",
            "6:11 wrong-value nodes[0].join",
            "7:38 wrong-value nodes[0].loop.max_iterations",
            "8:26 wrong-value nodes[0].limits.deadline_s",
            "8:40 wrong-value nodes[0].limits.max_hops",
            "9:33 wrong-value nodes[0].agent_config.temperature",
            "10:5 duplicate-field nodes[0].retry_config",
        ],
    ),
    "words for flags": (
        "name: w\non_failure: {compensate: yes}\nnodes: []\n",
        ["2:26 wrong-type on_failure.compensate"],
    ),
    "words that are not known": (
        HEAD + "  - id: a\n    join_rest: canceled\n    human_config:\n"
        "      escalation_policy: auto_approved\ndlq_policy: none\n",
        [
            "4:16 wrong-value nodes[0].join_rest",
            "6:26 wrong-value nodes[0].human_config.escalation_policy",
            "7:13 wrong-value dlq_policy",
        ],
    ),
    "a choice that is a number": ("name: w\nnodes: []\ndlq_policy: 1\n",
                                  ["3:13 wrong-type dlq_policy"]),
    "conditions of a wrong shape": (
        HEAD + "  - id: a\n    loop: {condition: true}\n"
        "    branch:\n      rules:\n"
        "        - {condition: {expression: x}, next_nodes: []}\n"
        "        - {condition: {type: 1}, next_nodes: []}\n"
        "        - {condition: [], next_nodes: []}\n",
        [
            "4:23 wrong-type nodes[0].loop.condition",
            "7:23 missing-field nodes[0].branch.rules[0].condition",
            "8:30 wrong-type nodes[0].branch.rules[1].condition.type",
            "9:23 wrong-type nodes[0].branch.rules[2].condition",
        ],
    ),
    "config that is no object": (HEAD + "  - {id: a, config: [1]}\n",
                                 ["3:21 wrong-type nodes[0].config"]),
    "blob references of other kinds": (
        HEAD + "  - {id: a, config_ref: 'file:///etc/passwd'}\n"
        "  - {id: b, config_ref: {cas_ref: 'cas://md5:1'}}\n  - {id: c, config_ref: 7}\n",
        [
            "3:25 wrong-value nodes[0].config_ref",
            "4:35 wrong-value nodes[1].config_ref.cas_ref",
            "5:25 wrong-type nodes[2].config_ref",
        ],
    ),
    "problems inside what is switched off": (
        HEAD + "  - id: a\n    loop: {enabled: false, while: x, max_iterations: 0}\n",
        ["4:54 wrong-value nodes[0].loop.max_iterations"],
    ),
    "a limit that nodes do not have": (
        HEAD + "  - {id: a, limits: {max_iterations: 3}}\n",
        ["3:22 unknown-field nodes[0].limits.max_iterations"],
    ),
}  # fmt: skip
