"""One module for each engine; each has `open_engine(options)`, see `bench.peers.harness`.

They run in virtual environments of their own, so that a module here imports nothing but its
engine, the standard library, and what `bench.peers` and `tools` have without other packages.
"""
