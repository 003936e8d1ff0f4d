"""What is true: runs, tokens, joins, events and blobs, changed by atomic steps.

`base` is the contract, `records` what crosses it, `rules` what its verbs mean, without any I/O;
`memory` and `sqlite` keep the rows.
"""
