-- end_session: forget a session. ARGV[1]: session.
return call('UNLINK', session_key(unpack_row(ARGV[1])[1]))
