-- wait_for_change: a run's event number. request: run. Result: the number, 0 without a run.

local run = load_run(unpack_row(request)[1])
return run and run[R_SEQ] or 0
