"""A retry around retries, as a graph in Python: nodes retry calls, a loop repeats both nodes."""

import json
import sys

from booking import book, quote

import minuet

with minuet.Workflow("booking") as booking:
    quoted = quote.named()(flight=booking.input.flight)
    booked = book.named()(offer=quoted.output).on_error("continue")
    result = minuet.transform("result", booked.output)
    give_up = minuet.noop("give_up")

    result.loop(while_="has(output.error)", max_iterations=4, back_to=quoted, timeout=give_up)
    booking.set(output="{{ none if give_up.output is defined else result.output }}")

if __name__ == "__main__":
    print(json.dumps(minuet.run(booking, json.loads(sys.argv[1])).output))
