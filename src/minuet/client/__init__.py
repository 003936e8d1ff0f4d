"""The client of a server: the facade over HTTP. Needs the extra `http`.

`client` has the classes that programs use. Its nouns (`runs`, `nouns`) are those of `app` with the
same signatures; what they answer is read by `app.reading`. `transport` makes the calls: several
servers, retries, streams; `problems` turns what a server refuses into the exceptions of an App.
"""
