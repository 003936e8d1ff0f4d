"""The facade: what the command line, an HTTP server and embedding programs call.

`app` is the entry point, `tenant` the part behind it. One module for each noun: `runs` (with
`finder`, `questions`, `repairing`, `awaiting` and `retrying`), `workflows`, `workers`, `retention`,
`doctor`. One place for each fact: `options` (names, types, defaults), `arguments` (what may be
passed), `shapes` (the JSON that programs read), `stores` (opening one by its URL). `feeds` has the
events of runs for many watchers.
"""
