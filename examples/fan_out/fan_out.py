"""The handlers of fan_out.yaml."""

import minuet


@minuet.task
def count_words(text: str) -> int:
    return len(text.split())


@minuet.task
async def count_letters(text: str) -> int:
    return sum(character.isalpha() for character in text)


@minuet.task
def find_longest(text: str) -> str:
    return max(text.split(), key=len, default="")
