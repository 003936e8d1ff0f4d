"""The client of a server: the facade over HTTP. Needs the extra `http`.

`client` has the classes that programs use. Its nouns are those of `app` with the same signatures,
in modules of the same names; what they answer is read by `app.reading`. `transport` makes the
calls: several servers, retries, streams; `problems` turns what a server refuses into the exceptions
of an App. `worker` is a worker without a store.
"""
