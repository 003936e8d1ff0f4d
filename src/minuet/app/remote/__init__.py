"""Workers that speak HTTP: written in any language, without a library.

For each of them, this process runs a worker of its own whose handlers do nothing but wait: the task
is handed to the remote worker, and what it sends back is what the handler returns or raises. So
leases, templates, retries, timeouts and routing are those of every other worker. Nodes that need no
handler are run here, so that a fleet of remote workers alone completes runs.

A task is taken from the store only while the remote worker asks for one. A remote worker that is
silent for as long as a lease counts as dead: its worker here ends without a word, and its leases
run out, as those of any worker that dies.

`tasks` has what crosses the line, `worker` one remote worker, `workers` all of this process.
"""
