"""The shell: takes tokens, runs handlers, asks the kernel, hands results in.

`worker` puts the parts together. `loop` makes the exchanges, `executing` starts what they bring,
`pipeline` takes one token to its result, and `workload` holds the tokens in hand. A module imports
the kernel's types or the store's records, not both: `bridge` translates.
"""
