"""Mistakes, planted to see whether the simulation finds them.

A simulation that does not find these proves nothing by finding nothing else. `Bug.seeds` says
within how many seeds each must be found; a test checks it.
"""

from __future__ import annotations

import time

import msgspec
from tests.planted import agents as absent_minded
from tests.planted import functions as flawed
from tests.planted import letters as dead
from tests.planted import mistakes as wrong
from tests.planted import trespasses as open_to_all
from tests.planted import undecided, undoing, unlogged, unrepaired, unsent

from minuet.simulation.config import Config, Outcome
from minuet.simulation.faults import BENIGN, FAULTS
from minuet.simulation.parts import Parts
from minuet.simulation.run import simulate


class Bug(Parts, frozen=True, kw_only=True):
    """An engine with a mistake in it, and the worlds in which it shows."""

    name: str
    summary: str
    #: Faults without which it does not show; they are on.
    faults: tuple[str, ...] = ()
    #: Faults that would excuse it; they are off.
    without: tuple[str, ...] = ()
    #: How much more often the nemesis strikes.
    haste: int = 1
    #: Whether the worlds have a fleet; None: as the seed says.
    fleet: bool | None = None
    #: Whether the worlds have child runs; None: as the seed says.
    families: bool | None = None
    #: Whether the worlds have deployed workflows.
    registry: bool = False
    #: Whether the worlds have durable functions.
    functions: bool = False
    #: Whether runs are of agents.
    agents: bool = False
    #: Whether clerks retry and discard dead letters.
    letters: bool = False
    #: Whether they ask people.
    approvals: bool = False
    #: Whether they have compensators.
    undo: bool = False
    #: Whether they send webhooks.
    webhooks: bool = False
    #: Whether processes look for stalled runs.
    stalls: bool = False
    #: Whether the outputs of runs may have only so many bytes.
    volume: bool = False
    #: Whether people repair runs.
    repairs: bool = False
    #: The kind of store that has it (`minuet.simulation.profiles`); None: any.
    profile: str | None = None
    #: The seed to begin with: a little before the one that found it last, where that took long.
    first: int = 0
    #: Seeds within which it must be found.
    seeds: int = 60
    #: The seed that found it last, if that was not among the first few: it is tried before all
    #: others. When it no longer finds it, `python -m tests.planted all` says which one does.
    last: int | None = None

    def describe(self, seed: int) -> Config:
        """The world of a seed in which it is looked for."""
        return Config(
            seed,
            store=self.profile,
            fleet=self.fleet,
            families=self.families,
            registry=self.registry,
            functions=self.functions,
            agents=self.agents,
            letters=self.letters,
            approvals=self.approvals,
            undo=self.undo,
            webhooks=self.webhooks,
            stalls=self.stalls,
            volume=self.volume,
            repairs=self.repairs,
            without=self.without,
            add=self.faults,
            haste=self.haste,
        )


class Catch(msgspec.Struct, frozen=True):
    """How a planted bug was found, or not."""

    #: Seeds tried, the one that found it included.
    seeds: int
    outcome: Outcome | None
    elapsed_s: float


def catch(bug: Bug) -> Catch:
    """Try seeds until one finds a planted bug."""
    began = time.perf_counter()
    seeds = [*range(bug.first, bug.first + bug.seeds)]
    if bug.last is not None:
        seeds.insert(0, bug.last)
    for number, seed in enumerate(seeds, 1):
        outcome = simulate(bug.describe(seed), bug)
        if outcome.broken is not None:
            return Catch(number, outcome, time.perf_counter() - began)
    return Catch(bug.seeds, None, time.perf_counter() - began)


_ALL = (
    Bug(
        name="item-counted-twice",
        last=44,
        summary="an item that was tried before counts twice",
        first=35,
        faults=("fail",),
        transition=wrong.CountsAnItemTwice,
    ),
    Bug(
        name="quorum-fires-twice",
        summary="a quorum withdraws nothing and fires again",
        transition=wrong.AQuorumFiresTwice,
    ),
    Bug(
        name="item-never-issued",
        last=16,
        summary="an item that failed makes no other ready",
        faults=("fail",),
        transition=wrong.NeverIssuesAnItem,
    ),
    Bug(
        name="order-of-items-lost",
        last=5,
        summary="what the items gave is gathered in another order",
        store=wrong.LosesTheOrderOfItems,
    ),
    Bug(
        name="no-lease-check",
        last=19,
        summary="a result counts no matter which worker hands it in",
        faults=("kill", "pause"),
        transition=wrong.NoLeaseCheck,
    ),
    Bug(
        name="late-result-applied",
        last=5,
        summary="a result counts after its run is over or its token withdrawn",
        transition=wrong.LateResultApplied,
    ),
    Bug(
        name="late-result-after-another",
        last=140,
        summary="a result counts although the token was taken again since",
        faults=("pause", "slow"),
        haste=4,
        first=120,
        seeds=300,
        transition=wrong.LateResultAfterAnother,
    ),
    Bug(
        name="expiry-is-crash",
        last=221,
        summary="workers that were away count as dead although they have come back",
        faults=("pause", "slow", "clock"),
        without=("forget", "lossy"),
        haste=20,
        first=200,
        seeds=400,
        transition=wrong.EveryExpiryIsACrash,
    ),
    Bug(
        name="lost-lease-stays",
        last=166,
        first=120,
        summary="a worker whose lease expired and was granted again hands in twice",
        faults=("forget", "drop_reply", "fail", "restart", "clock", "disconnect"),
        haste=6,
        transition=wrong.LostLeasesStayLost,
    ),
    Bug(
        name="pause-keeps-slot",
        last=73,
        summary="a paused run keeps the slots of tokens that do not run",
        faults=("slow", "pause", "fail"),
        haste=6,
        first=60,
        seeds=300,
        transition=wrong.PausedRunsKeepTheirSlots,
    ),
    Bug(
        name="mark-before-run",
        summary="a token counts as done once it is handed out; who dies loses it",
        faults=("kill",),
        transition=wrong.ForgetsExpiredToken,
    ),
    Bug(
        name="sweep-race",
        summary="the sweep acts on what it saw the last time",
        faults=("pause", "slow"),
        store=wrong.SweepsByAnOldLook,
    ),
    Bug(
        name="counter-leases",
        last=206,
        summary="lease ids are numbers from the store, which a failover repeats",
        faults=("lossy", "slow", "pause", "latency"),
        without=("crash", "clock", "refuse", "restart"),
        haste=8,
        seeds=600,
        # There the second number that a worker draws is its own id.
        fleet=False,
        store=wrong.CountsLeases,
        ids=wrong.CounterIds,
    ),
    Bug(
        name="blob-on-trust",
        last=47,
        summary="a result stands for a blob that a failover has lost",
        faults=("lossy",),
        seeds=400,
        store=wrong.TakesBlobsOnTrust,
    ),
    Bug(
        name="chunk-on-trust",
        last=238,
        summary="the list of a foreach names a chunk that a failover has lost",
        faults=("lossy",),
        seeds=400,
        transition=wrong.TakesChunksOnTrust,
    ),
    Bug(
        name="content-on-trust",
        last=9,
        summary="a result is committed although its content is not in the blob store",
        faults=("contents",),
        seeds=200,
        outside=wrong.TrustsItsContents,
    ),
    Bug(
        name="content-unverified",
        last=33,
        summary="a content that came out damaged is given to a node",
        faults=("contents",),
        seeds=200,
        outside=wrong.ReadsContentsAsTheyCome,
    ),
    Bug(
        name="send-apart",
        summary="consuming and sending are two steps",
        store=wrong.SendsInASecondStep,
    ),
    Bug(
        name="skip-dropped",
        summary="a skipped node does not pass the skip on",
        transition=wrong.SkipsAreDropped,
    ),
    Bug(
        name="skip-not-counted",
        summary="a join waits for branches that were not taken",
        transition=wrong.SkipsDoNotCount,
    ),
    Bug(
        name="loop-scope-ignored",
        last=5,
        summary="every round of a loop looks like the first",
        transition=wrong.LoopsForgetTheirRound,
    ),
    Bug(
        name="continuation-lost",
        summary="the first part of a fan-out is taken for all of it",
        transition=wrong.LosesTheRestOfAFanOut,
    ),
    Bug(
        name="double-fire",
        summary="a join fires for each arrival once there are enough",
        transition=wrong.JoinsFireAgain,
    ),
    Bug(
        name="arrival-counted-twice",
        last=11,
        summary="an arrival that is sent again counts again",
        transition=wrong.CountsAnArrivalTwice,
    ),
    Bug(
        name="late-arrival-seen",
        summary="an attempt sees inputs that an earlier attempt did not see",
        haste=4,
        faults=("kill", "fail", "slow", "pause"),
        without=("lossy",),
        transition=wrong.LateArrivalsAreSeen,
    ),
    Bug(
        name="late-output-read",
        last=28,
        summary="an attempt reads outputs that an earlier attempt could not read",
        haste=4,
        faults=("kill", "fail", "slow", "pause"),
        without=("lossy",),
        transition=wrong.ReadsWhatCameLater,
    ),
    Bug(
        name="withdraw-uncounted",
        last=5,
        summary="withdrawn tokens still count",
        transition=wrong.WithdrawnStillCount,
    ),
    Bug(
        name="closed-run-alive",
        last=4,
        summary="a run that is over keeps its tokens",
        transition=wrong.ClosedRunsStayAlive,
    ),
    Bug(
        name="pause-ignored",
        last=75,
        summary="a token that comes back to a paused run is handed out",
        first=45,
        transition=wrong.PausedRunsGoOn,
        seeds=100,
    ),
    Bug(
        name="renewal-lost",
        summary="renewing a lease does not extend it",
        transition=wrong.LeasesAreNotRenewed,
    ),
    Bug(
        name="renewal-too-short",
        summary="renewing a lease does not look at its queue",
        transition=wrong.RenewalsForgetTheQueue,
    ),
    Bug(
        name="retries-forgotten",
        last=5,
        summary="the number of attempts starts over",
        faults=("fail",),
        transition=wrong.RetriesForget,
    ),
    Bug(
        name="double-resolve",
        last=68,
        first=20,
        summary="what a token waited for can come twice",
        faults=("latency",),
        transition=wrong.ResolvesTwice,
    ),
    Bug(
        name="data-means-timeout",
        last=8,
        summary="a signal whose data looks like a timeout is taken for one",
        transition=wrong.DataMeansATimeout,
    ),
    Bug(
        name="decision-lost",
        last=6,
        summary="a decision of a quorum is acknowledged and forgotten",
        approvals=True,
        without=("lossy",),
        patch=undecided.decisions_are_forgotten,
    ),
    Bug(
        name="quorum-miscounted",
        last=7,
        summary="one approval too few completes a quorum",
        approvals=True,
        patch=undecided.quorums_are_one_short,
    ),
    Bug(
        name="rejection-overruled",
        last=9,
        summary="approvals after a rejection complete a quorum",
        approvals=True,
        patch=undecided.rejections_are_overruled,
    ),
    Bug(
        name="completed-node-skipped",
        last=5,
        summary="a node that has completed is skipped",
        repairs=True,
        transition=unrepaired.SkipsWhatHasCompleted,
    ),
    Bug(
        name="held-token-lost",
        last=5,
        summary="a token that is held no longer counts",
        repairs=True,
        transition=unrepaired.LosesWhatIsHeld,
    ),
    Bug(
        name="edit-lost",
        summary="a config that was edited is lost when the run is retried",
        repairs=True,
        transition=unrepaired.LosesEditsOnRetry,
    ),
    Bug(
        name="taken-back-and-accepted",
        summary="a worker hands in what was taken back from it",
        first=190,
        repairs=True,
        transition=unrepaired.AcceptsWhatWasTakenBack,
    ),
    Bug(
        name="output-set-and-ignored",
        last=9,
        summary="a node whose output was set runs its handler",
        repairs=True,
        transition=unrepaired.RoutesAnOutputAsAHandlers,
    ),
    Bug(
        name="early-signal-dropped",
        summary="a signal that nobody waits for is acknowledged and lost",
        without=("lossy",),
        transition=wrong.EarlySignalsAreDropped,
    ),
    Bug(
        name="kept-signal-forgotten",
        last=13,
        summary="a node does not look for a signal that came before it began to wait",
        transition=wrong.KeptSignalsAreForgotten,
    ),
    Bug(
        name="signal-received-twice",
        last=13,
        summary="a signal that was received is received again",
        transition=wrong.SignalsStay,
    ),
    Bug(
        name="signal-counted-twice",
        summary="a signal that is sent again with the same id counts again",
        transition=wrong.SignalsCountAgain,
    ),
    Bug(
        name="newest-waiter-first",
        last=211,
        summary="a signal goes to the node that began to wait last",
        first=200,
        seeds=300,
        transition=wrong.NewestWaiterFirst,
    ),
    Bug(
        name="wait-uncounted",
        summary="a waiting token does not count",
        transition=wrong.TimersWithoutCounting,
    ),
    Bug(
        name="slot-not-passed-on",
        last=43,
        summary="a slot that is given back is not offered to those who wait for it",
        first=35,
        faults=("slow",),
        transition=wrong.SlotsAreNotPassedOn,
        seeds=100,
    ),
    Bug(
        name="step-unfenced",
        last=57,
        summary="a step's result is written without a look at the lease",
        first=35,
        faults=("pause", "latency"),
        transition=wrong.StepsHaveNoFence,
        seeds=100,
    ),
    Bug(
        name="step-recorded-again",
        summary="a step that is recorded again has another result",
        functions=True,
        faults=("drop_reply", "pause", "latency"),
        transition=wrong.StepsAreRecordedAgain,
    ),
    Bug(
        name="start-not-idempotent",
        summary="a start that is repeated starts a second run",
        faults=("drop_reply", "client"),
        without=("lossy",),
        store=wrong.StartsAgain,
    ),
    Bug(
        name="own-clock-trusted",
        summary="a worker compares the store's times with its own clock",
        faults=("skew",),
        worker=wrong.TrustsItsOwnClock,
        seeds=150,
    ),
    Bug(
        name="stop-in-outage",
        summary="a worker that is stopped while the store is away ends with an error",
        faults=("drain", "refuse", "drop_reply"),
        worker=wrong.CannotStopInAnOutage,
    ),
    Bug(
        name="replan-gives-up",
        last=265,
        summary="a worker that cannot load a new plan drops the result",
        faults=("drop_request", "drop_reply", "latency", "slow"),
        worker=wrong.GivesUpOnTheNewPlan,
        first=170,
        seeds=300,
    ),
    Bug(
        name="started-after-the-end",
        last=20,
        summary="a worker starts what it has taken without hearing that the run is over",
        faults=("fail",),
        worker=wrong.StartsWhatItHasTaken,
    ),
    Bug(
        name="refused-failure-ends-run",
        last=5,
        summary="a worker drops a run that was retried because of a failure that came too late",
        faults=("fail", "slow"),
        # It costs a lease, which only shows where nothing else does.
        without=tuple(fault for fault in FAULTS if fault not in BENIGN),
        worker=wrong.AnyFailureEndsTheRun,
    ),
    Bug(
        name="missing-plan-released",
        last=3,
        summary="a token whose plan was lost is given back and taken again forever",
        faults=("lossy",),
        haste=20,
        seeds=400,
        worker=wrong.WaitsForThePlan,
    ),
    Bug(
        name="placement-ignored",
        last=16,
        summary="a worker serves queues whose constraints it does not meet",
        fleet=True,
        worker=wrong.ServesEveryQueue,
    ),
    Bug(
        name="parallel-uncounted",
        last=18,
        summary="a worker does not count how often a node runs at once",
        faults=("slow",),
        fleet=True,
        worker=wrong.ForgetsWhatRuns,
    ),
    *(
        Bug(name=f"tenant-{what}", summary=summary, transition=rules)
        for what, summary, rules in (
            ("hand-in", "results are taken from any tenant", open_to_all.AcceptsResultsOfEverybody),
            ("renew", "leases are renewed for any tenant", open_to_all.RenewsForEverybody),
            ("change", "any tenant may change a run", open_to_all.ChangedByEverybody),
            ("resolve", "any tenant may end a wait", open_to_all.ResolvedByEverybody),
            ("step", "any tenant may record a step", open_to_all.StepsOfEverybody),
            ("conflict", "a refusal tells of another's run", open_to_all.ConflictsTellTooMuch),
        )
    ),
    *(
        Bug(name=name, summary=summary, store=store)
        for name, summary, store in (
            ("tenant-take", "tokens go to any tenant", open_to_all.TakesFromEverybody),
            ("tenant-read", "any tenant is shown a run", open_to_all.ShownToEverybody),
            (
                "tenant-repeat",
                "any tenant gets an answer again",
                open_to_all.RepeatsForEverybody,
            ),
            ("tenant-delete", "any tenant may delete a run", open_to_all.DeletesForEverybody),
            ("delete-open", "a run is deleted before its end", open_to_all.DeletesOpenRuns),
            ("delete-leaves-rows", "a deleted run leaves rows", open_to_all.DeletesLeaveArrivals),
        )
    ),
    Bug(
        name="child-end-lost",
        last=4,
        summary="the end of a run is not noted for its relatives",
        families=True,
        transition=wrong.ForgetsRelatives,
    ),
    Bug(
        name="child-end-seen-too-late",
        last=1066,
        summary="a token waits for a child run that is over",
        first=1000,
        families=True,
        faults=("pause",),
        haste=20,
        transition=wrong.WaitsForWhatIsOver,
        seeds=200,
    ),
    Bug(
        name="child-started-twice",
        last=5,
        summary="each process starts its own child run of an instance",
        families=True,
        faults=("kill",),
        patch=wrong.child_of_each_process,
    ),
    Bug(
        name="reported-though-awaited",
        summary="a run counts as reported although its parent waits for it",
        families=True,
        letters=True,
        faults=("lossy",),
        last=1074,
        first=1040,
        transition=wrong.ReportedThoughAwaited,
    ),
    Bug(
        name="cancel-not-passed-down",
        last=5,
        summary="the children of a run that is over go on",
        families=True,
        patch=wrong.children_go_on,
    ),
    Bug(
        name="child-without-lease",
        last=73,
        summary="a child run is started by a worker that has lost the token",
        first=40,
        families=True,
        faults=("pause", "latency"),
        transition=wrong.StartsChildrenWithoutLease,
    ),
    Bug(
        name="version-replaced",
        summary="a workflow that is deployed again replaces the version that its tag names",
        registry=True,
        store=wrong.ReplacesVersions,
    ),
    Bug(
        name="version-of-another",
        summary="a run that is started by a tag gets the number of the newest version",
        registry=True,
        patch=wrong.newest_number,
    ),
    Bug(
        name="unseen-run-refused",
        last=2021,
        summary="a repeated start is refused because its run cannot be read yet",
        registry=True,
        profile="logged",
        first=2015,
        patch=wrong.unseen_means_another,
    ),
    Bug(
        name="key-per-attempt",
        last=5,
        summary="the idempotency key changes with the attempt",
        faults=("fail",),
        patch=wrong.key_per_attempt,
    ),
    Bug(
        name="letter-key-changes",
        summary="a node whose dead letter is retried has another idempotency key",
        last=5,
        letters=True,
        patch=dead.key_per_generation,
    ),
    Bug(
        name="letter-retried-twice",
        summary="a dead letter that was retried is retried again if its run has failed again",
        letters=True,
        patch=dead.retried_again,
    ),
    *(
        Bug(name=f"letter-{name}", summary=summary, letters=True, store=store)
        for name, summary, store in (
            ("lost", "a dead letter that is retried is deleted", dead.LosesLetters),
            ("stays", "a dead letter that is retried stays pending", dead.LettersStay),
            ("undiscarded", "a retry takes up what was discarded", dead.RetriedThoughDiscarded),
        )
    ),
    Bug(
        name="letter-attempts-stay",
        summary="what is retried goes on with the attempt that failed",
        last=5,
        letters=True,
        transition=dead.AttemptsStay,
    ),
    Bug(
        name="no-take-gate",
        summary="a handler with effects begins before its inputs are in the record",
        profile="logged",
        logged=unlogged.NoTakeGate,
    ),
    Bug(
        name="no-report-gate",
        last=5,
        summary="what is not in the log is reported and acknowledged",
        faults=("lossy",),
        profile="logged",
        haste=8,
        seeds=100,
        logged=unlogged.NoReportGate,
    ),
    Bug(
        name="marked-before-appended",
        summary="events count as recorded when they are about to be",
        profile="logged",
        seeds=100,
        patch=unlogged.marks_before_it_appends,
    ),
    Bug(
        name="appended-out-of-order",
        summary="the end of what is new is recorded before its beginning",
        profile="logged",
        patch=unlogged.appends_out_of_order,
    ),
    *(
        Bug(name=f"function-{name}", summary=summary, functions=True, patch=patch)
        for name, summary, patch in (
            ("order-lost", "a journal has what came at once in another order", flawed.order_lost),
            ("miscounted", "a replay counts steps of a name otherwise", flawed.miscounted),
            ("errors-stay", "a failed step is not executed again in a retry", flawed.errors_stay),
            ("no-barrier", "a step starts before what led to it is kept", flawed.no_barrier),
            ("timer-early", "a timer is over too early", flawed.timers_early),
            ("timer-never", "a function forgets until when it waits", flawed.timers_never),
            ("child-again", "a replay starts another child run", flawed.child_again),
            ("child-goes-on", "a child run that nobody waits for goes on", flawed.child_goes_on),
            ("attempts-forgotten", "a wait makes attempts uncounted", flawed.attempts_forgotten),
        )
    ),
    *(
        Bug(name=f"agent-{name}", summary=summary, agents=True, faults=("kill",), patch=patch)
        for name, summary, patch in (
            (
                "asks-again",
                "a model is asked again what it has answered",
                absent_minded.begins_anew,
            ),
            ("tool-again", "a tool is called again after a crash", absent_minded.tool_again),
            ("unspent", "what was spent before a crash is forgotten", absent_minded.unspent),
        )
    ),
    Bug(
        name="function-gap",
        last=47,
        summary="a step is kept, although the store has lost the one before it",
        functions=True,
        faults=("lossy",),
        transition=flawed.StepsFollowNothing,
    ),
    Bug(
        name="function-ignores-kept-signal",
        last=11,
        summary="a function waits for a signal that is kept",
        functions=True,
        faults=("latency",),
        seeds=400,
        transition=flawed.FunctionsIgnoreKeptSignals,
    ),
    Bug(
        name="function-not-woken",
        summary="a signal does not wake the function that waits for it",
        functions=True,
        transition=flawed.SignalsWakeNoFunction,
    ),
    Bug(
        name="function-awaits-ended-child",
        last=2046,
        summary="a function that is retried waits for a child run that has ended meanwhile",
        functions=True,
        first=2000,
        seeds=100,
        patch=flawed.ended_child_awaited,
    ),
    Bug(
        name="lost-child-awaited",
        summary="a function waits for a child run that a failover has lost",
        functions=True,
        faults=("latency", "pause", "lossy"),
        last=571,
        first=530,
        transition=flawed.WaitsForLostChildren,
    ),
    Bug(
        name="child-lost-before-durable",
        last=420,
        summary="the start of a child run that was lost is acknowledged, and it is waited for",
        functions=True,
        profile="logged",
        first=380,
        patch=flawed.lost_child_acknowledged,
        transition=flawed.WaitsForLostChildren,
    ),
    Bug(
        name="function-child-stays-lost",
        last=459,
        summary="a function is put back without the ended child run that it waits for",
        functions=True,
        profile="logged",
        first=420,
        seeds=100,
        patch=flawed.children_stay_lost,
    ),
    Bug(
        name="undone-twice",
        summary="what was undone is undone again by the next undo",
        undo=True,
        patch=undoing.undone_is_undone_again,
    ),
    Bug(
        name="undone-in-wrong-order",
        summary="nodes are undone in the order in which they completed",
        undo=True,
        patch=undoing.the_first_is_undone_first,
    ),
    Bug(
        name="incomplete-node-undone",
        summary="a node that failed, and whose failure was handled, is undone",
        faults=("fail",),
        undo=True,
        patch=undoing.failed_nodes_are_undone,
    ),
    Bug(
        name="undo-ends-at-a-failure",
        last=5,
        summary="after a compensator that failed, no other is run",
        faults=("fail",),
        undo=True,
        patch=undoing.a_failure_ends_the_undo,
    ),
    Bug(
        name="undo-lost-in-a-crash",
        summary="an undo ends when the worker of a compensator dies",
        faults=("kill", "crash"),
        undo=True,
        transition=undoing.LosesAnUndoInACrash,
    ),
    Bug(
        name="undo-forgotten",
        last=9,
        summary="a run that fails is not undone although it asks for that",
        faults=("fail",),
        undo=True,
        transition=undoing.ForgetsToUndo,
    ),
    Bug(
        name="compensator-key-changes",
        last=5,
        summary="each attempt of a compensator has another idempotency key",
        faults=("fail",),
        undo=True,
        patch=undoing.keys_change_with_attempts,
    ),
    Bug(
        name="reminders-give-time",
        summary="the time of an approval begins again with each reminder",
        approvals=True,
        patch=undecided.reminders_give_more_time,
    ),
    Bug(
        name="webhook-forgotten",
        summary="what is notable is forgotten before it is in the outbox",
        approvals=True,
        webhooks=True,
        without=("lossy",),
        patch=unsent.notes_are_cleared_first,
    ),
    Bug(
        name="webhook-removed-first",
        summary="a webhook leaves the outbox before it is sent",
        approvals=True,
        webhooks=True,
        without=("lossy",),
        patch=unsent.webhooks_are_removed_first,
    ),
    Bug(
        name="webhook-order",
        summary="webhooks of one run are sent at once",
        approvals=True,
        webhooks=True,
        without=("lossy",),
        patch=unsent.runs_do_not_wait_for_themselves,
    ),
    Bug(
        name="webhook-before-commit",
        last=45,
        summary="webhooks are about events that are not in the log yet",
        approvals=True,
        webhooks=True,
        profile="logged",
        logged=unsent.SendsWhatMayBeLost,
    ),
    Bug(
        name="webhook-last-event-only",
        summary="of several notable events only the last one is noted",
        approvals=True,
        webhooks=True,
        without=("lossy",),
        transition=unsent.NotesTheLastEventOnly,
    ),
    Bug(
        name="webhook-later-events",
        last=42,
        summary="what happens while events are passed on counts as passed on",
        approvals=True,
        webhooks=True,
        without=("lossy",),
        transition=unsent.ForgetsLaterEvents,
    ),
    *(
        Bug(name=f"stall-{name}", summary=summary, stalls=True, patch=patch)
        for name, summary, patch in (
            (
                "reported-by-all",
                "each process reports a stall that it sees",
                unsent.stalls_are_reported_by_all,
            ),
            ("reported-again", "a stall is reported at every look", unsent.stalls_are_forgotten),
        )
    ),
    Bug(
        name="stall-not-sent",
        summary="nobody outside learns that a run stalls",
        stalls=True,
        webhooks=True,
        without=("lossy",),
        transition=unsent.StallsAreNotNotable,
    ),
    Bug(
        name="bytes-not-limited",
        last=7,
        summary="a result is committed although the run's outputs have too many bytes then",
        volume=True,
        transition=wrong.BytesNotLimited,
    ),
    Bug(
        name="bytes-not-kept",
        summary="bytes are counted in the history, and not in the run's row",
        volume=True,
        transition=wrong.BytesNotKept,
    ),
    Bug(
        name="full-run-goes-on",
        last=7,
        summary="a worker drops a result that its run has no room for, instead of failing",
        volume=True,
        patch=wrong.full_runs_go_on,
    ),
)

#: The planted mistakes, by name.
BUGS: dict[str, Bug] = {bug.name: bug for bug in _ALL}
