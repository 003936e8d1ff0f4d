"""Check the subjects of commits: `area: imperative`, at most 72 characters.

    python -m tools.subjects                the commits that main does not have
    python -m tools.subjects HEAD~20..      those of a range

Whether a word is a verb in the imperative is only guessed, from its first word: articles and the
usual endings of other forms are refused. It is a help before a push, and no test calls it.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

LENGTH_MAX = 72
SUBJECT = re.compile(r"(?P<area>[a-z][a-z0-9_-]*): (?P<first>\S+).*")

#: First words that are no verbs, and verbs that look like another form.
NO_VERBS = {"a", "an", "the", "no", "not", "some", "all", "every", "more", "fewer", "new"}
VERBS = {"address", "bring", "embed", "feed", "focus", "need", "pass", "process", "seed", "string"}


def problems(subject: str) -> list[str]:
    """What is wrong with the subject of a commit."""
    if subject.startswith("Merge "):
        return []
    found = []
    if len(subject) > LENGTH_MAX:
        found.append(f"has {len(subject)} characters, at most {LENGTH_MAX} are allowed")
    if subject.endswith("."):
        found.append("ends with a full stop")
    match = SUBJECT.fullmatch(subject)
    if match is None:
        return [*found, "does not begin with `area: `, in lower case"]
    first = match["first"]
    if first != first.lower() and not first.isupper():
        found.append(f"`{first}` begins with a capital")
    word = first.lower().strip("`,;:")
    looks_other = re.search(r"(?:ed|ing|[^s]s)$", word) is not None and word not in VERBS
    if word in NO_VERBS or looks_other:
        found.append(f"`{first}` does not look like an imperative (add, keep, refuse …)")
    return found


def main(words: list[str]) -> int:
    """Name the commits whose subjects have problems."""
    chosen = words[0] if words else "main..HEAD"
    listed = subprocess.run(
        ["git", "log", "--format=%h %s", chosen], cwd=ROOT, capture_output=True, text=True
    )
    if listed.returncode:
        print(listed.stderr.strip(), file=sys.stderr)
        return 2
    code = 0
    for line in listed.stdout.splitlines():
        commit, _, subject = line.partition(" ")
        for problem in problems(subject):
            print(f"{commit} {subject}\n    {problem}")
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
