"""A converter of pictures that cannot be trusted: it crashes, hangs and takes memory."""

import ctypes

import minuet


@minuet.task
def convert(picture: str, ctx: minuet.Context) -> str:
    if picture == "crash":
        ctypes.string_at(0)  # What a bug in a library written in C does.
    if picture == "huge":
        return str(len(bytearray(1 << 30)))
    rounds = 0
    while picture in ("endless", "slow"):
        rounds += 1
        if picture == "slow" and ctx.out_of_time:
            return f"slow in a low resolution, after {ctx.attempt} attempt"
    return f"{picture} converted"
