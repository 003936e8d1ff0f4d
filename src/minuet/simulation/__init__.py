"""Deterministic simulation: the real engine in a world where a seed decides time and faults.

Real: the compiler, the kernel, `Worker`, `App` and the rules of the store (`Transition` behind
`MemoryStore`). Simulated: the event loop, time, the network, the store's machine, processes,
threads, ids and handlers. A seed decides everything, so every failure can be reproduced.
`run.simulate` runs one seed; `python -m minuet.simulation` runs many.

    streams     one source of randomness per concern, all derived from the seed
    loop        an event loop with virtual time and processes that can be killed and paused
    faults      which faults a seed has, and how often
    profiles    which of them each kind of store can have
    model       the memory store, observed, copied and rolled back
    server      the store's machine, and a network that loses and repeats
    store       the store as a process sees it: every call a message
    documents   random workflows
    handlers    what their nodes do, and what the outside world sees of it
    client      starts, cancels and retries runs, and records what was promised
    intruder    tries to reach the runs of other tenants
    nemesis     kills, pauses, disconnects and rolls back
    checker     what must hold after every step (`rules`: of calls and their answers)
    judge       what must hold at the end
    coverage    what must have happened at least once in many seeds
    parts       what the engine is made of: the real one, or one with a mistake in it
    world       all of it together, as a `config` describes it (in `surroundings`)
    batch       many seeds on many cores
    minimise    the smallest world in which a seed still fails
"""
