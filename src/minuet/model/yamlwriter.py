"""Plain data to YAML text that `yamltext` reads as the same data.

PyYAML writes for readers of YAML 1.1, and documents are read by the rules of 1.2: a string that
only 1.2 takes as a number (`1e3`, `0o7`) would lose its quotes. So whether a string needs quotes is
decided here.
"""

from __future__ import annotations

import functools
from typing import Any, Final

from minuet.model.yamltext import is_plain_string
from minuet.types import Json

#: Lines are wrapped beyond this many characters, where YAML allows it.
WIDTH: Final = 100


def write_yaml(value: Json, *, indent: int = 0) -> str:
    """Write one value. Each line begins with `indent` blanks."""
    import yaml

    text: str = yaml.dump(
        value,
        Dumper=_dumper(),
        sort_keys=False,
        allow_unicode=True,
        # Objects and lists of plain values stand on one line.
        default_flow_style=None,
        width=max(WIDTH - indent, 40),
    )
    return text if not indent else _indented(text, " " * indent)


def _indented(text: str, margin: str) -> str:
    # Blank lines inside a block of text stay blank.
    return "\n".join(margin + line if line.strip() else line for line in text.split("\n"))


@functools.cache
def _dumper() -> type[Any]:
    import yaml

    # Not the C emitter: it does not indent lists.
    class Dumper(yaml.SafeDumper):  # type: ignore[misc]
        def represent(self, data: Any) -> None:
            written = self.represent_data(data)
            # A text that begins with a brace would be read as JSON.
            written.flow_style = False
            self.serialize(written)

        def ignore_aliases(self, data: Any) -> bool:
            return True

        def increase_indent(self, **options: Any) -> Any:
            return super().increase_indent(**{**options, "indentless": False})

    def represent_text(dumper: Any, text: str) -> Any:
        style = None if is_plain_string(text) else '"'
        if "\n" in text:
            # A block that needs neither the indicator of its indentation nor that of its end. The
            # emitter uses quotes where a block cannot hold the text.
            style = "|" if text[0] not in " \n" and not text.endswith("\n\n") else '"'
        if not text.replace("\n", "").isprintable():
            # Some are line breaks in YAML 1.1, and would be folded.
            style = '"'
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    Dumper.add_representer(str, represent_text)
    return Dumper
