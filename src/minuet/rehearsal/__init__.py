"""A user's workflow in the simulated world: what can happen to it before it happens.

`simulation` tries the engine on random workflows; this package tries one given workflow on the
engine, with the same loop, store, network and nemesis. Engine bugs are looked for all the same,
but what it is about are findings on the workflow and its handlers. A seed decides everything.

    fields      what the document reads of each node's output, and compares it with
    values      outputs and inputs, drawn to fit that or a JSON Schema
    scenario    what goes wrong in a seed
    handlers    the handlers on stage: stubs or the user's own, watched
    lockstep    sync handlers inside virtual time
    stage       one seed: the world, and what was seen in it
    watch       what the events of a run show
    findings    what the author should know
    report      many seeds, and what they add up to
"""
