"""The HTTP API: what `app` does, as routes. Needs the extra `server`.

`application` puts the parts together: `front` (what every request passes: paths, limits, access),
`routes` (one module for each noun), `streaming` (server-sent events), `remote` (workers over HTTP).
Bodies are read in `bodies`, answers are written in `answers`; their JSON comes from `app.shapes`.
`serving` runs it until it is stopped.
"""
