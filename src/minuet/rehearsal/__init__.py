"""Run a user's workflow in the simulated world, to find what can go wrong before it does.

`simulation` tests the engine with random workflows. This package tests one given workflow on
the engine, with the same loop, store, network and nemesis. It reports findings about the workflow
and its handlers; engine bugs are detected too. A seed decides everything.

    fields      what the document reads from each node's output, and compares it with
    values      random outputs and inputs that match those fields or a JSON Schema
    scenario    what goes wrong in a seed
    handlers    the handlers: stubs or the user's own, observed
    lockstep    sync handlers inside virtual time
    stage       one seed: its world, and what happened in it
    watch       what the events of a run show: turns, limits, errors
    findings    what the author should know
    report      the report on many seeds
"""
