"""Workflows written in Python: calls add nodes, values that a run will have are references.

`references` are the values, `spelling` writes them as templates and as CEL, `node` and `workflow`
collect what is called, `wiring` derives the edges, `places` remembers which line said what, and
`editing` changes the text of a document that was loaded.
"""
