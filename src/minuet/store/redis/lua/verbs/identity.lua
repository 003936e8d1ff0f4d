-- identity: which server this is, and a name that lasts as long as what this partition holds.
-- request: a new one. Result: {run id, replication id, name}.

call('SETNX', KEY.born, unpack_row(request)[1])
return {
  string.match(call('INFO', 'server'), 'run_id:(%x+)') or '',
  string.match(call('INFO', 'replication'), 'master_replid:(%x+)') or '',
  call('GET', KEY.born),
}
