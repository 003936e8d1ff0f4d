-- list_unreported: runs whose relatives have to learn of something, by name. request: after, limit.
-- Result: {{run, R, I, i}, …}.

return replies.named(KEY.unreported, request)
