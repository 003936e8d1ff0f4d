-- identity: a name that lasts as long as what this partition holds. ARGV[1]: a new one.

call('SETNX', BORN, unpack_row(ARGV[1])[1])
return call('GET', BORN)
