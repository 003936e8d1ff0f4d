"""What a result or an error is to the outside: an exit code, an HTTP status.

One table, so that the command line and a server cannot disagree.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from minuet import errors
from minuet.types import RunStatus

#: Exit codes. 0: done; of a run, COMPLETED.
COMPLETED: Final = 0
#: The run failed, or its state refuses the change.
FAILED: Final = 1
#: Wrong usage, document, input, handlers or store.
INVALID: Final = 2
#: CANCELLED, or out of time.
CANCELLED: Final = 3

#: The exit code of a run that is over.
OF_STATUS: dict[RunStatus, int] = {
    "COMPLETED": COMPLETED,
    "FAILED": FAILED,
    "CANCELLED": CANCELLED,
}


class Outcome(NamedTuple):
    """What an error is to the outside."""

    exit_code: int
    http_status: int
    #: What kind of problem it is, in a few words that are the same each time.
    title: str


#: Every error that Minuet raises on purpose. A class that is not here is what its base is.
OUTCOMES: dict[type[BaseException], Outcome] = {
    errors.MinuetError: Outcome(INVALID, 500, "Error"),
    errors.DocumentError: Outcome(INVALID, 422, "Invalid document"),
    errors.InputError: Outcome(INVALID, 422, "Invalid input"),
    errors.ExpressionError: Outcome(INVALID, 422, "Invalid expression"),
    errors.ConditionError: Outcome(INVALID, 422, "Invalid condition"),
    errors.TemplateError: Outcome(INVALID, 422, "Invalid template"),
    errors.OutputError: Outcome(INVALID, 422, "Value cannot be stored"),
    errors.InputLimitError: Outcome(INVALID, 422, "Inputs too large"),
    errors.SignalTimeoutError: Outcome(FAILED, 504, "No signal came in time"),
    errors.HandlerError: Outcome(INVALID, 422, "Handler not usable"),
    errors.FunctionError: Outcome(INVALID, 422, "Durable function not usable"),
    errors.ReplayError: Outcome(FAILED, 409, "Code does not fit the run"),
    errors.StepFailed: Outcome(FAILED, 409, "Step failed"),
    errors.CannotWaitError: Outcome(INVALID, 422, "Cannot wait"),
    errors.SecretError: Outcome(INVALID, 422, "Secret not available"),
    errors.ServiceError: Outcome(FAILED, 502, "Service failed"),
    errors.ServiceUnavailableError: Outcome(FAILED, 503, "Service unavailable"),
    errors.ServiceRefusedError: Outcome(FAILED, 502, "Service refused"),
    errors.EgressError: Outcome(FAILED, 403, "Address not allowed"),
    errors.AgentError: Outcome(FAILED, 502, "Agent failed"),
    errors.WebhookError: Outcome(FAILED, 401, "Webhook not verified"),
    errors.RunError: Outcome(INVALID, 400, "Run error"),
    errors.RunNotFoundError: Outcome(INVALID, 404, "Run not found"),
    errors.NodeNotFoundError: Outcome(INVALID, 404, "Node not found"),
    errors.AmbiguousRunError: Outcome(INVALID, 409, "Ambiguous run id"),
    errors.RunConflictError: Outcome(FAILED, 409, "Refused by the state of the run"),
    errors.AlreadyDecidedError: Outcome(FAILED, 409, "Already decided"),
    errors.NotAnApproverError: Outcome(FAILED, 403, "Not an approver"),
    errors.ApprovalNotFoundError: Outcome(INVALID, 404, "Approval not found"),
    errors.ApprovalTimeoutError: Outcome(FAILED, 504, "Nobody decided in time"),
    errors.StartError: Outcome(FAILED, 409, "Some runs were refused"),
    errors.DamagedRowError: Outcome(INVALID, 500, "Damaged row"),
    errors.RunFailed: Outcome(FAILED, 409, "Run failed"),
    errors.RunTimeoutError: Outcome(CANCELLED, 504, "Run did not end in time"),
    errors.PlayError: Outcome(FAILED, 409, "Play cannot go on"),
    errors.ChildFailedError: Outcome(FAILED, 409, "Child run failed"),
    errors.ChildDepthError: Outcome(FAILED, 409, "Child run too deep"),
    errors.WorkflowNotFoundError: Outcome(INVALID, 404, "Workflow not found"),
    errors.DeadLetterNotFoundError: Outcome(INVALID, 404, "Dead letter not found"),
    errors.RedriveNotFoundError: Outcome(INVALID, 404, "Redrive not found"),
    errors.KeyNotFoundError: Outcome(INVALID, 404, "API key not found"),
    errors.StoreError: Outcome(INVALID, 500, "Store error"),
    errors.StoreUnavailableError: Outcome(INVALID, 503, "Store unavailable"),
    errors.ServerUnavailableError: Outcome(INVALID, 503, "Server unavailable"),
    errors.StoreUnusableError: Outcome(INVALID, 500, "Store unusable"),
    errors.PositionError: Outcome(FAILED, 410, "Position lost"),
    errors.BlobError: Outcome(INVALID, 404, "Blob cannot be read"),
    errors.SessionError: Outcome(INVALID, 409, "Unknown session"),
    errors.NotOpenError: Outcome(INVALID, 500, "App not open"),
    errors.InvariantError: Outcome(INVALID, 500, "Invariant broken"),
    errors.ConfigError: Outcome(INVALID, 400, "Wrong option or setting"),
    # Raised by handlers, and by workers to handlers: they end in a node's error, not here.
    errors.NonRetryable: Outcome(FAILED, 500, "Handler failed"),
    errors.Retryable: Outcome(FAILED, 500, "Handler failed"),
    errors.LeaseLost: Outcome(FAILED, 500, "Lease lost"),
}


def outcome_of(error: BaseException) -> Outcome:
    """What an error is to the outside; of one that is not Minuet's, an internal error.

    Errors that only a server raises are not in the table: they carry their own outcome.
    """
    own = getattr(error, "outcome", None)
    if isinstance(own, Outcome):
        return own
    for kind in type(error).__mro__:
        if kind in OUTCOMES:
            return OUTCOMES[kind]
    return Outcome(FAILED, 500, "Internal error")
