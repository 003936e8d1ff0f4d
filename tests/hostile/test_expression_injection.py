"""Data never becomes code: what a node returned is not parsed as a template or expression."""

import minuet


def test_a_template_inside_an_expression_is_text_and_nothing_else() -> None:
    """Rendering it would let the first node's output rewrite the second node's expression."""
    hostile = {"x": "' == '' || true || '"}
    result = minuet.run(
        {
            "name": "injection",
            "nodes": [
                {"id": "a", "type": "transform", "config": {"value": hostile}},
                {
                    "id": "b",
                    "type": "transform",
                    "dependencies": ["a"],
                    "config": {"expression": "'{{ a.x }}' == 'a'"},
                },
            ],
        },
        store="memory://",
    )

    assert result.output == {"b": False}
