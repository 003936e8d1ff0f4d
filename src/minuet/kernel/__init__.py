"""The kernel: what a workflow means. Pure functions over plans, events and values.

Nothing here does I/O, reads a clock, draws a random number, logs or awaits; the same input
gives the same output, always. `settle` is the heart: what follows when a node has a result.
`fold` turns a run's events back into its state, `view` shows it node by node, `explain` says
why a node has not run, `invariants` says what must never be seen.
"""
