-- list_notable: runs with events that people outside may want to know of, by name. request: after, limit.
-- Result: {{run, R, I, i}, …}.

return replies.named(KEY.notable, request)
