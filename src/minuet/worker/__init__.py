"""The shell: takes tokens, runs handlers, asks the kernel, hands results in.

`worker` is the loop, `execute` what happens with one token, `job` one token in its hands,
`translate` and `state` the two ways between the kernel's values and the store's records.
"""
