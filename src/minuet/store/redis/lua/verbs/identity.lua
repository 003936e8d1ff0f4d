-- identity: a name that lasts as long as what this partition holds. request: a new one.

call('SETNX', BORN, unpack_row(request)[1])
return call('GET', BORN)
