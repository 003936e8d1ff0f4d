"""Every setting there is: its name in the environment, type, bounds, default and meaning.

The reference page and `minuet settings` are made from this table.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Value: TypeAlias = str | int | float | bool | None

Kind: TypeAlias = Literal[
    "text", "secret", "store", "blobs", "choice", "whole", "seconds", "number", "flag"
]

Environment: TypeAlias = Literal["dev", "test", "prod"]

ENVIRONMENTS: tuple[Environment, ...] = ("dev", "test", "prod")

#: The store when none is chosen.
DEFAULT_STORE = "sqlite:///minuet.db"

#: URL schemes of stores.
SCHEMES = ("sqlite", "memory", "postgresql", "postgres", "redis", "rediss")

#: URL schemes of blob stores.
BLOB_SCHEMES = ("file", "s3")

#: Handlers that run at once in a process with work of its own: a program that embeds an App,
#: `minuet run`, `minuet resume`.
EMBEDDED_CONCURRENCY = 32

#: Bytes that are kept of what an attempt prints and logs.
LOG_BYTES = 1024 * 1024

#: Ends the name of a row that stands for a family: `STALE_TIMEOUT_*`.
FAMILY = "*"


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One row."""

    name: str
    kind: Kind
    help: str
    default: Value = None
    #: Where an environment (`MINUET_ENV`) has another default.
    defaults: dict[Environment, Value] = {}
    #: Environments in which it is required.
    required: tuple[Environment, ...] = ()
    #: What a number may be, both ends included.
    least: float = 0
    most: float = 1e9
    choices: tuple[str, ...] = ()
    #: The name is accepted and checked, but nothing depends on it; `help` says why.
    unused: bool = False

    @property
    def is_family(self) -> bool:
        return self.name.endswith(FAMILY)

    def default_in(self, environment: Environment) -> Value:
        """The value when it is not set."""
        return self.defaults.get(environment, self.default)

    @property
    def allowed(self) -> str:
        """What a value must be, in words."""
        bounds = f"from {self.least:.9g} to {self.most:.9g}"
        schemes = ", ".join(f"{scheme}://" for scheme in SCHEMES)
        words = {
            "text": "text",
            "secret": "text",
            "store": f"the URL of a store ({schemes})",
            "blobs": "the URL of a blob store (file:///FOLDER, s3://BUCKET/PREFIX)",
            "choice": f"one of {', '.join(self.choices)}",
            "whole": f"a whole number {bounds}",
            "seconds": f"seconds, a number {bounds}",
            "number": f"a number {bounds}",
            "flag": "true or false",
        }
        return words[self.kind]


DAY_S = 86_400

TABLE: tuple[Setting, ...] = (
    Setting(
        name="MINUET_ENV",
        kind="choice",
        choices=ENVIRONMENTS,
        default="dev",
        help="Which defaults count: those for developing, for tests, or for production.",
    ),
    Setting(
        name="MINUET_STORE",
        kind="store",
        default=DEFAULT_STORE,
        defaults={"test": "memory://", "prod": None},
        required=("prod",),
        help="Where runs are kept. `redis://` and `postgresql://` alone stand for what REDIS_* "
        "or POSTGRES_* say. When it is not set, POSTGRES_HOST chooses PostgreSQL, else "
        "REDIS_HOST chooses Redis.",
    ),
    Setting(
        name="MINUET_BLOBS",
        kind="blobs",
        help="Where large contents of runs are kept, instead of in the store: `file:///FOLDER`, or "
        "`s3://BUCKET/PREFIX` with `?endpoint=URL` and `?region=NAME` as needed (extra `s3`; "
        "credentials from AWS_*). All processes on a store need the same. Not for `memory://`.",
    ),
    Setting(
        name="MINUET_LEASE",
        kind="seconds",
        default=30.0,
        least=0.1,
        most=3600,
        help="After this time without a renewal, a worker's nodes are given to others.",
    ),
    Setting(
        name="MINUET_STALL_SECONDS",
        kind="seconds",
        default=300.0,
        least=1,
        most=DAY_S,
        help="A run that waits for nobody and to which nothing happens for this long is stalled: "
        "workers log it once, and `minuet runs list --stalled` and `minuet doctor` show it.",
    ),
    Setting(
        name="MINUET_LOG_BYTES",
        kind="whole",
        default=LOG_BYTES,
        most=1e8,
        help="How many bytes of what an attempt prints and logs are kept (`minuet runs logs`); 0 "
        "keeps nothing.",
    ),
    Setting(
        name="MINUET_LOG_RETENTION",
        kind="seconds",
        default=30.0 * DAY_S,
        least=DAY_S,
        help="How long what nodes print and log is kept; it is deleted with its run in any case.",
    ),
    Setting(
        name="MINUET_AUDIT_RETENTION",
        kind="seconds",
        default=365.0 * DAY_S,
        least=0,
        help="How old entries of the audit log are when `minuet gc` deletes them; 0: never.",
    ),
    Setting(
        name="MINUET_CANCEL_SECONDS",
        kind="seconds",
        default=30.0,
        least=0,
        most=DAY_S,
        help="A handler that is asked to stop, because its run was cancelled or its time is over, "
        "keeps its place in the worker for this long. After that, another handler runs there.",
    ),
    Setting(
        name="MINUET_EGRESS_ALLOW",
        kind="text",
        help="Hosts and networks that http and llm nodes may call although they are loopback, "
        "private or otherwise not public: `localhost:8080,*.internal,10.0.0.0/8`. `run` and "
        "`resume` allow loopback and private addresses without it. Addresses of cloud metadata "
        "services must be listed one by one.",
    ),
    Setting(
        name="OPENAI_BASE_URL",
        kind="text",
        default="https://api.openai.com/v1",
        help="The service that llm nodes ask, unless they name another. A worker with its own "
        "provider of secrets asks it for this name.",
    ),
    Setting(
        name="OPENAI_API_KEY",
        kind="secret",
        help="The key for that service, and for no other; read as OPENAI_BASE_URL is.",
    ),
    Setting(
        name="MINUET_LLM_PRICES",
        kind="text",
        help="What models cost, in US dollars for a million tokens: JSON, or the name of a file "
        'with JSON: `{"gpt-4o*": {"input": 2.5, "output": 10, "cached_input": 1.25}}`. A name '
        "that ends with `*` stands for all that begin so.",
    ),
    Setting(
        name="MINUET_SECRETS",
        kind="text",
        help="Where secrets come from: `env:NAME,…` (these environment variables; `*` stands for "
        "any characters), `env` (any variable), `folder:PATH` (one file for each secret), "
        "`python:MODULE:NAME` (a function of a name, or an object with `get(name)`) or `none`. "
        "When it is not set, `run` and `resume` read any variable, and `worker` none.",
    ),
    Setting(
        name="MINUET_LOG",
        kind="choice",
        choices=("text", "json"),
        default="text",
        help="How log lines are written: for people, or as one JSON object each, with run, node "
        "and trace.",
    ),
    Setting(
        name="MINUET_METRICS",
        kind="text",
        help="Where `worker` serves metrics for Prometheus: a port of this machine, or "
        "`HOST:PORT` (extra `server`). 0: a free port.",
    ),
    Setting(
        name="MINUET_TRACING",
        kind="flag",
        default=False,
        help="Make OpenTelemetry spans of runs and nodes (extra `otel`). The OTEL_* variables say "
        "where they go.",
    ),
    Setting(
        name="MINUET_WEBHOOKS",
        kind="text",
        help="Who is sent webhooks: URLs, separated by spaces. Each can end with `#` and, with `&` "
        "between them, `name=…`, `events=run.failed,approval.*` (all without it) and `secret=NAME` "
        "(the secret that signs them). All processes of a store need the same.",
    ),
    Setting(
        name="MINUET_WEBHOOK_SECRET",
        kind="secret",
        help="Signs the webhooks of receivers that name no other secret. A process with its own "
        "provider of secrets asks it for this name.",
    ),
    Setting(
        name="MINUET_WEBHOOK_GIVE_UP",
        kind="seconds",
        default=3 * 24 * 3600.0,
        least=60,
        help="After this time, a webhook that was not accepted is given up.",
    ),
    Setting(
        name="MINUET_PUBLIC_URL",
        kind="text",
        help="Where the HTTP API is reached from outside, such as `https://minuet.example.com`: "
        "webhooks name the addresses of decisions there.",
    ),
    Setting(
        name="MINUET_URL",
        kind="text",
        help="The server that client commands and `minuet.Client` use: `http://127.0.0.1:7800`. "
        "Several are separated by commas: the next one is used when one cannot be reached.",
    ),
    Setting(
        name="MINUET_API_KEY",
        kind="secret",
        help="For clients: the API key that they send to a server. For a server: a key that opens "
        "everything, beside those that `minuet keys create` makes. Never printed.",
    ),
    Setting(
        name="MINUET_REQUIRE_KEY",
        kind="flag",
        default=False,
        help="Whether a server on a loopback address asks for an API key; on other addresses it "
        "always does, unless it is started with `--insecure`.",
    ),
    Setting(
        name="MINUET_OIDC_ISSUER",
        kind="text",
        help="An OpenID Connect provider whose tokens a server accepts beside API keys: its "
        "issuer URL, such as `https://login.example.com/realms/shop` (extra `oidc`).",
    ),
    Setting(
        name="MINUET_OIDC_AUDIENCE",
        kind="text",
        help="The audience (`aud`) that its tokens must be for; required with an issuer.",
    ),
    Setting(
        name="MINUET_OIDC_NAME_CLAIM",
        kind="text",
        default="sub",
        help="The claim with the name of the caller. A dot leads into an object, here and below.",
    ),
    Setting(
        name="MINUET_OIDC_ROLES_CLAIM",
        kind="text",
        default="roles",
        help="The claim with the caller's roles: `minuet:viewer`, `minuet:operator` and so on; "
        "others are ignored.",
    ),
    Setting(
        name="MINUET_OIDC_GROUPS_CLAIM",
        kind="text",
        default="groups",
        help="The claim with the caller's groups, for approvals.",
    ),
    Setting(
        name="MINUET_OIDC_TENANT_CLAIM",
        kind="text",
        help="The claim with the caller's tenant. Without it, all callers are of the tenant "
        "`default`.",
    ),
    Setting(
        name="MINUET_ALLOWED_HOSTS",
        kind="text",
        help="Names under which a server is reached beside its address: `runs.example.com`. A "
        "server on a loopback address refuses requests for other hosts.",
    ),
    Setting(
        name="MINUET_BODY_BYTES_MAX",
        kind="whole",
        default=16 << 20,
        least=1_024,
        most=1 << 30,
        help="Bytes of the largest body that a server reads. Contents of blobs may be larger.",
    ),
    Setting(
        name="MINUET_REQUESTS_PER_SECOND",
        kind="number",
        least=0.001,
        most=1_000_000,
        help="How many requests one caller (an API key, or an address without one) may make to a "
        "server in a second. Without it, any number.",
    ),
    Setting(
        name="MINUET_OPEN_RUNS_MAX",
        kind="whole",
        least=1,
        most=1_000_000_000,
        help="How many runs of one tenant may be open when a server starts another; counted every "
        "second, so that servers together can exceed it a little. Without it, any number.",
    ),
    Setting(
        name="MINUET_DEBUG",
        kind="flag",
        default=False,
        help="Show where in the code an error came from.",
    ),
    Setting(
        name="REDIS_HOST",
        kind="text",
        default="localhost",
        help="Redis server. Setting it chooses Redis, unless MINUET_STORE or POSTGRES_HOST is set.",
    ),
    Setting(
        name="REDIS_PORT",
        kind="whole",
        default=6379,
        least=1,
        most=65535,
        help="Its port.",
    ),
    Setting(
        name="REDIS_MAX_CONNECTIONS",
        kind="whole",
        default=50,
        least=1,
        most=100_000,
        unused=True,
        help="Accepted without effect: a worker makes one exchange at a time, so a process needs "
        "few connections, and the store opens what it needs.",
    ),
    Setting(
        name="REDIS_SOCKET_TIMEOUT",
        kind="seconds",
        default=10.0,
        least=0.1,
        most=3600,
        unused=True,
        help="Accepted without effect: the store has its own time limits, and a call that was not "
        "answered is repeated.",
    ),
    Setting(
        name="REDIS_STREAM_BLOCK_MS",
        kind="whole",
        default=5000,
        least=1,
        most=3_600_000,
        unused=True,
        help="Accepted without effect: an idle worker waits for at most a second at a time, "
        "because it also checks for what has fallen due.",
    ),
    Setting(
        name="POSTGRES_HOST",
        kind="text",
        default="localhost",
        help="PostgreSQL server. Setting it chooses PostgreSQL, unless MINUET_STORE is set.",
    ),
    Setting(
        name="POSTGRES_PORT",
        kind="whole",
        default=5432,
        least=1,
        most=65535,
        help="Its port.",
    ),
    Setting(name="POSTGRES_USER", kind="text", default="postgres", help="Who logs in."),
    Setting(name="POSTGRES_PASSWORD", kind="secret", help="With which password. Never printed."),
    Setting(
        name="POSTGRES_DB",
        kind="text",
        help="Name of the database; without it, the same as POSTGRES_USER.",
    ),
    Setting(
        name="WORKER_CONCURRENCY",
        kind="whole",
        default=4,
        least=1,
        most=10_000,
        help="Handlers that run at once in a `minuet worker`. When it is set, also in `run` and "
        f"`resume`, which otherwise run {EMBEDDED_CONCURRENCY}.",
    ),
    Setting(
        name="WORKER_GRACEFUL_SHUTDOWN_TIMEOUT",
        kind="seconds",
        default=30.0,
        defaults={"test": 1.0},
        most=DAY_S,
        help="How long handlers of a `minuet worker` may take to finish when it is stopped.",
    ),
    Setting(
        name="WORKER_HEARTBEAT_INTERVAL",
        kind="seconds",
        default=5.0,
        least=0.1,
        most=DAY_S,
        help="How often a worker sends a heartbeat. What it holds depends on its leases alone, "
        "which it renews every third of MINUET_LEASE.",
    ),
    Setting(
        name="WORKER_HEARTBEAT_TIMEOUT",
        kind="seconds",
        default=15.0,
        least=0.1,
        most=DAY_S,
        help="A worker that sent no heartbeat for this long is shown as `stale`.",
    ),
    Setting(
        name="MINUET_HEARTBEAT_TIMEOUT_SECONDS",
        kind="seconds",
        default=30.0,
        least=0.1,
        most=DAY_S,
        help="A worker that sent no heartbeat for this long is shown as `dead`. Its nodes are "
        "given to others when its leases run out, whichever status is shown then.",
    ),
    Setting(
        name="MINUET_WORKER_NAME",
        kind="text",
        help="What a worker is called: in lists, and in `allowed_nodes` and `forbidden_nodes`. "
        "Without it, the name of its machine.",
    ),
    Setting(
        name="MINUET_WORKER_CAPABILITIES",
        kind="text",
        help="What a worker offers: `gpu=1,zone=eu`. Its `cpu_cores` and `memory_gb` are "
        "detected unless they are given here.",
    ),
    Setting(
        name="MINUET_WORKER_LABELS",
        kind="text",
        help="Its labels: `ssd,batch`.",
    ),
    Setting(
        name="MINUET_WORKER_EXECUTORS",
        kind="text",
        help="What it executes beside its node types and handlers: `docker_executor`.",
    ),
    Setting(
        name="STALE_TIMEOUT_CALL_EXTERNAL_SERVICE",
        kind="seconds",
        default=120.0,
        least=0.1,
        most=3600,
        help="As STALE_TIMEOUT_*, for http nodes and the handler `call_external_service`.",
    ),
    Setting(
        name="STALE_TIMEOUT_LLM_SERVICE",
        kind="seconds",
        default=180.0,
        least=0.1,
        most=3600,
        help="As STALE_TIMEOUT_*, for llm nodes and the handler `llm_service`.",
    ),
    Setting(
        name="STALE_TIMEOUT_*",
        kind="seconds",
        least=0.1,
        most=3600,
        help="For a handler, its name in capitals (STALE_TIMEOUT_SHOP_PAY for `shop:pay`): its "
        "nodes, and no others, are left to a silent worker for this long, if that is longer than "
        "MINUET_LEASE. A handler that takes longer needs none of this, because leases are renewed "
        "while it runs.",
    ),
    Setting(
        name="ORCHESTRATOR_CHECKPOINT_INTERVAL",
        kind="seconds",
        default=10.0,
        most=DAY_S,
        unused=True,
        help="Accepted without effect: there is no orchestrator whose state could be lost; every "
        "result is durable at once.",
    ),
    Setting(
        name="ORCHESTRATOR_RECOVERY_TIMEOUT",
        kind="seconds",
        default=60.0,
        most=DAY_S,
        unused=True,
        help="Accepted without effect: nothing is recovered by age; leases that run out are found "
        "by any worker.",
    ),
    Setting(
        name="ORCHESTRATOR_STALE_CLAIM_INTERVAL",
        kind="seconds",
        default=15.0,
        most=DAY_S,
        unused=True,
        help="Accepted without effect: every worker checks for what has run out or fallen due at "
        "least once a second.",
    ),
    Setting(
        name="ORCHESTRATOR_STALE_RESULT_TIMEOUT",
        kind="seconds",
        default=30.0,
        most=DAY_S,
        unused=True,
        help="Accepted without effect: results do not wait; the worker that has one commits "
        "it together with what follows from it.",
    ),
    Setting(
        name="RETRY_MAX_RETRIES",
        kind="whole",
        default=3,
        least=1,
        most=1_000_000,
        help="Attempts of a node in all, the first one included.",
    ),
    Setting(
        name="RETRY_INITIAL_DELAY",
        kind="seconds",
        default=1.0,
        defaults={"test": 0.01},
        most=DAY_S,
        help="Time until the second attempt.",
    ),
    Setting(
        name="RETRY_MAX_DELAY",
        kind="seconds",
        default=60.0,
        most=DAY_S,
        help="The longest time between two attempts.",
    ),
    Setting(
        name="RETRY_EXPONENTIAL_BASE",
        kind="number",
        default=2.0,
        least=1,
        most=1000,
        help="Factor between a delay and the next one.",
    ),
    Setting(
        name="RETRY_JITTER",
        kind="flag",
        default=True,
        help="Make each delay a little longer, by chance, so that retries do not come all at once.",
    ),
)

BY_NAME = {setting.name: setting for setting in TABLE}


def default_seconds(name: str) -> float:
    """The default of a setting that is a duration, for programs that read no settings."""
    default = BY_NAME[name].default
    assert isinstance(default, float), name
    return default


#: Node types that do what a handler does: they share its setting.
_TYPES_OF_HANDLERS = {"call_external_service": "http", "llm_service": "llm"}


def queues_of(handler: str) -> list[str]:
    """The queues whose leases the setting of a handler is about."""
    own = _TYPES_OF_HANDLERS.get(handler)
    return [f"task:{handler}", *([own] if own else [])]


def default_queue_leases() -> dict[str, float]:
    """The leases of queues that have their own, for programs that read no settings."""
    return {
        queue: default_seconds(f"STALE_TIMEOUT_{handler.upper()}")
        for handler in _TYPES_OF_HANDLERS
        for queue in queues_of(handler)
    }
