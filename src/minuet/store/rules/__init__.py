"""What the store's verbs do to its rows: the rules, written once, without any I/O.

A store that keeps rows (`memory`, `sqlite`, `postgres`) loads what a call touches, lets a
`Transition` change it, and writes back what changed, all inside one atomic step of its own.
So the stores cannot disagree on what an exchange means; they can only disagree on loading and
saving, which the conformance and differential tests check.

One file for each kind of thing, each using those before it: `slots`, `tokens`, `joins`, `leases`,
`signals`, `runs`, `items`. Redis has the same rules in Lua: the same files in `redis/lua/rules`,
with the same functions in the same order, which a test compares.

What holds in all of them:

* A run's counter is the number of its live tokens. Whatever makes or ends a token moves the
  counter in the same method (`_emit`, `_end_token`), and the counter reaching 0 ends the run here
  and nowhere else.
* Every change of a run appends exactly the events that `kernel.fold` needs to repeat it.
* An item is judged before the first change is made for it (`_judge`), so a refused item leaves
  no trace, and items do not influence each other except through the rows.
* Nothing here raises for bad input from a worker; an exception is a bug or a broken store.
"""
