import { get } from "../../api/client.ts";
import type { Page, Queue, Shape, Worker } from "../../api/types.ts";
import { useEvery, useQuery } from "../../api/useQuery.ts";
import { CodeBlock, Countdown, Duration, Empty, Failure, Icon, Loading, Meter, Segments, SplitPane, StatusBadge, Table, Time, type Column } from "../../components/index.ts";
import { showCount } from "../../lib/format.ts";
import { useShortcuts } from "../../lib/keys.ts";
import { Link, navigate, useQueryParam } from "../../lib/router.tsx";
import { WorkerPanel } from "./WorkerPanel.tsx";
import "./workers.css";

export type Lease = Shape<"Lease">;

const PACE = 2000;

export const statusOf = (one: Worker): string => (one.draining && one.status === "healthy" ? "draining" : one.status);
/** The open runs that may have something in a queue. */
const runsOf = (one: Queue): string => `/runs?q=${encodeURIComponent(`status:open${one.workflow ? ` workflow:${one.workflow}` : ""}`)}`;
const queueKey = (one: Queue): string => `${one.queue} ${one.needs} ${one.workflow} ${one.node}`;

const QUEUES: readonly Column<Queue>[] = [
  {
    id: "queue",
    head: "Queue",
    cell: (one) => (
      <span className="queue-name">
        <span className="truncate">
          <Link to={runsOf(one)}>{one.queue || "default"}</Link>
          {one.needs && <span className="tag">{one.needs}</span>}
        </span>
        {one.workflow && (
          <span className="muted truncate">
            {one.workflow} · {one.node}
          </span>
        )}
      </span>
    ),
  },
  { id: "ready", head: "Waiting", width: "84px", align: "right", cell: (one) => <span className="nums">{showCount(one.ready)}</span> },
  { id: "running", head: "Running", width: "92px", align: "right", minor: true, cell: (one) => <span className="nums">{showCount(one.running)}{one.limit !== null && ` / ${one.limit}`}</span> },
  { id: "oldest", head: "Oldest", width: "110px", align: "right", cell: (one) => (one.oldest_at ? <Duration since={one.oldest_at} /> : <span className="muted">–</span>) },
  {
    id: "served",
    head: "Served by",
    width: "36%",
    minor: true,
    cell: (one) =>
      one.served_by.length ? (
        <span className="truncate">{one.served_by.join(", ")}</span>
      ) : (
        <span className="nobody" title={one.why ?? undefined}>
          <Icon name="dlq" />
          <span className="truncate">Nobody{one.why ? `: ${one.why}` : ""}</span>
        </span>
      ),
  },
];

const WORKERS: readonly Column<Worker>[] = [
  { id: "status", head: "Status", width: "112px", cell: (one) => <StatusBadge status={statusOf(one)} /> },
  { id: "name", head: "Worker", cell: (one) => <Link to={`/workers?worker=${encodeURIComponent(one.id)}`}>{one.name}</Link> },
  { id: "host", head: "Host", width: "18%", minor: true, cell: (one) => <span className="muted">{`${one.host} · ${one.pid}`}</span> },
  {
    id: "busy",
    head: "Busy",
    width: "190px",
    minor: true,
    cell: (one) => (
      <span className="meter">
        <Meter value={one.busy} most={one.concurrency} tone={one.busy >= one.concurrency ? "orange" : undefined} label={`${one.name} busy`} />
        <span className="nums">{`${one.busy} / ${one.concurrency}`}</span>
      </span>
    ),
  },
  { id: "version", head: "Version", width: "84px", minor: true, cell: (one) => <span className="nums muted">{one.version}</span> },
  { id: "seen", head: "Seen", width: "110px", align: "right", cell: (one) => <Time at={one.last_seen_at} /> },
];

const LEASES: readonly Column<Lease>[] = [
  {
    id: "node",
    head: "Node",
    cell: (one) => (
      <Link to={`/runs/${one.run_id}?node=${encodeURIComponent(one.node)}`}>
        {one.workflow} · {one.node}
        {one.scope.length > 0 && ` [${one.scope.join(".")}]`}
      </Link>
    ),
  },
  { id: "worker", head: "Worker", width: "22%", minor: true, cell: (one) => one.worker_name ?? <span className="muted">unknown</span> },
  { id: "queue", head: "Queue", width: "16%", minor: true, cell: (one) => <span className="muted">{one.queue}</span> },
  { id: "attempt", head: "Attempt", width: "84px", align: "right", minor: true, cell: (one) => <span className="nums">{one.attempt}</span> },
  { id: "since", head: "For", width: "100px", align: "right", cell: (one) => <Duration since={one.since} /> },
  { id: "until", head: "Lease", width: "84px", align: "right", cell: (one) => (one.until ? <Countdown until={one.until} short calm /> : <span className="muted">–</span>) },
];

export default function WorkersPage() {
  const [show, setShow] = useQueryParam("show", "queues");
  const [chosen, setChosen] = useQueryParam("worker");
  const workers = useQuery("workers", (signal) => get<Page<Worker>>("/workers", { signal }));
  const queues = useQuery("queues", (signal) => get<Page<Queue>>("/queues", { signal }));
  const leases = useQuery("leases", (signal) => get<Page<Lease> & { complete: boolean }>("/leases", { signal }));
  const reload = (): void => {
    workers.reload();
    queues.reload();
    leases.reload();
  };
  useEvery(PACE, reload);
  useShortcuts([{ keys: "Escape", label: "Close the panel", run: () => setChosen("") }]);
  const all = workers.data?.items ?? [];
  const waiting = [...(queues.data?.items ?? [])].sort((a, b) => Number(b.ready > 0 && !b.served_by.length) - Number(a.ready > 0 && !a.served_by.length) || b.ready - a.ready);
  const held = leases.data?.items ?? [];
  const one = all.find((worker) => worker.id === chosen) ?? null;
  const error = workers.error ?? queues.error;
  const unserved = waiting.filter((queue) => queue.ready > 0 && !queue.served_by.length);
  return (
    <div className="page">
      <div className="page-head">
        <h1>Workers</h1>
        <Segments
          label="What to see"
          chosen={show}
          onChoose={setShow}
          options={[
            { id: "queues", label: "Queues and workers" },
            { id: "leases", label: "In progress", ...(leases.data ? { count: held.length } : {}) },
          ]}
        />
      </div>
      <SplitPane name="workers" width={420} side={one && <WorkerPanel key={one.id} worker={one} others={all} queues={waiting} leases={held} onClose={() => setChosen("")} onChanged={workers.reload} />}>
        <div className="page-body">
          {workers.data && queues.data ? (
            show === "leases" ? (
              held.length ? (
                <>
                  <Table columns={LEASES} rows={held} keyOf={(lease) => `${lease.run_id} ${lease.node} ${lease.scope.join(".")}`} onOpen={(lease) => navigate(`/runs/${lease.run_id}?node=${encodeURIComponent(lease.node)}`)} label="In progress" />
                  <p className="muted page-pad">
                    A worker renews its leases while it works. One that is not renewed in time goes to another worker.
                    {leases.data && !leases.data.complete && " Only the newest open runs were looked at."}
                  </p>
                </>
              ) : (
                <Empty icon="check" title="Nothing is in progress">
                  <p>What workers hold at this moment appears here, with the time until its lease ends.</p>
                </Empty>
              )
            ) : (
              <>
                <Numbers workers={all} queues={waiting} />
                {unserved.length > 0 && (
                  <p className="workers-alarm" role="alert">
                    <Icon name="dlq" />
                    <span>
                      {unserved.length === 1 ? "One queue waits, and nobody serves it" : `${unserved.length} queues wait, and nobody serves them`}
                      {unserved[0]!.why && <span>: {unserved[0]!.why}</span>}
                    </span>
                  </p>
                )}
                <h2 className="list-head">Queues</h2>
                {waiting.length ? (
                  <Table columns={QUEUES} rows={waiting} keyOf={queueKey} onOpen={(queue) => navigate(runsOf(queue))} label="Queues" />
                ) : (
                  <p className="muted page-pad">Nothing waits, and nothing runs.</p>
                )}
                <h2 className="list-head">Workers</h2>
                {all.length ? (
                  <Table columns={WORKERS} rows={all} keyOf={(worker) => worker.id} onOpen={(worker) => setChosen(worker.id, true)} label="Workers" open={chosen || null} />
                ) : (
                  <Empty icon="workers" title="No workers">
                    <p>Runs can be started, but nothing runs until a worker is there:</p>
                    <CodeBlock text="minuet worker --handlers my_handlers.py" />
                  </Empty>
                )}
              </>
            )
          ) : error ? (
            <Failure error={error} onRetry={reload} />
          ) : (
            <Loading />
          )}
        </div>
      </SplitPane>
    </div>
  );
}

function Numbers({ workers, queues }: { workers: readonly Worker[]; queues: readonly Queue[] }) {
  const live = workers.filter((one) => one.status !== "dead");
  const takes = workers.filter((one) => statusOf(one) === "healthy");
  const busy = takes.reduce((sum, one) => sum + one.busy, 0);
  const room = takes.reduce((sum, one) => sum + one.concurrency, 0);
  const ready = queues.reduce((sum, one) => sum + one.ready, 0);
  const oldest = queues.flatMap((one) => (one.oldest_at && one.ready ? [Date.parse(one.oldest_at)] : []));
  const versions = new Set(live.map((one) => one.version));
  return (
    <dl className="numbers">
      <div>
        <dt>Workers</dt>
        <dd>{showCount(takes.length)}</dd>
        <dd className="muted">{live.length > takes.length ? `${live.length - takes.length} more take nothing` : versions.size > 1 ? `${versions.size} versions` : [...versions].map((one) => `version ${one}`)}</dd>
      </div>
      <div>
        <dt>Busy</dt>
        <dd>
          {showCount(busy)} <small>of {showCount(room)}</small>
        </dd>
        <dd>
          <Meter value={busy} most={room} tone={room > 0 && busy >= room ? "orange" : undefined} label="Busy" />
        </dd>
      </div>
      <div>
        <dt>Waiting</dt>
        <dd>{showCount(ready)}</dd>
        <dd className="muted">{ready > room - busy && room > 0 ? "more than there is room for" : "ready to run"}</dd>
      </div>
      <div>
        <dt>Oldest</dt>
        <dd>{oldest.length ? <Duration since={Math.min(...oldest)} /> : "–"}</dd>
        <dd className="muted">has waited for a worker</dd>
      </div>
    </dl>
  );
}
