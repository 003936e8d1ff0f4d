"""The facade: what the command line, an HTTP server and embedding programs call.

`App` is the door; behind it, one module per noun: `stores` (opening one by its URL),
`workflows` (from a file or a value to a program), `runs` (what can be asked about a run),
`doctor` (whether a store is sound).
"""
