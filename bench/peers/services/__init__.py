"""Other engines as services over HTTP, for `bench.http_peers`.

Each module is a program of the engine's environment. It takes a folder, a database and the folder
of npm packages, prints where it answers once it does, and ends when its input ends.
"""
