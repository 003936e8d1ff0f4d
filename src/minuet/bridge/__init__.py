"""Between the kernel and the store: the only package that knows the types of both.

`translate` turns the kernel's decisions into records; `snapshot` turns stored rows into the
kernel's state; `history` reads a run for the kernel to show and explain. `soundness` checks rows by
the kernel's invariants, `rebuild` makes them again from the events (with `traces`), and `repairs`
says what that changes. `programs` loads plans, `values` encodes what callers and handlers pass,
`logged` gives a logged store the way to rebuild its runs.

Nothing here decides what a run does: those rules are the kernel's and the store's.
"""
