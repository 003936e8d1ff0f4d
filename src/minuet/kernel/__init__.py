"""The kernel: what a workflow means. Pure functions over plans, events and values.

Nothing here does I/O, reads a clock, draws a random number, logs or awaits. The same input
always gives the same output. `settle` is the heart: what follows from a node's result.
`fold` turns a run's events back into its state, `view` shows it node by node, `explain` says
why a node has not run, `invariants` checks what must always hold.
"""
