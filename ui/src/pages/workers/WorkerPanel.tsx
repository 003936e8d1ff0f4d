import { useState } from "react";
import { post } from "../../api/client.ts";
import type { Queue, Worker } from "../../api/types.ts";
import { Button, Countdown, Dialog, Duration, Meter, StatusBadge, Time, toast } from "../../components/index.ts";
import { shellWord } from "../../lib/format.ts";
import { Link } from "../../lib/router.tsx";
import { useIsShown } from "../../lib/shown.ts";
import { statusOf, type Lease } from "./WorkersPage.tsx";

interface WorkerPanelProps {
  worker: Worker;
  others: readonly Worker[];
  queues: readonly Queue[];
  leases: readonly Lease[];
  onClose: () => void;
  onChanged: () => void;
}

export function WorkerPanel({ worker, others, queues, leases, onClose, onChanged }: WorkerPanelProps) {
  const [asks, setAsks] = useState(false);
  const held = leases.filter((one) => one.worker === worker.id);
  const alone = onlyServed(worker, others, queues);
  const offers = Object.entries(worker.capabilities);
  return (
    <div className="worker-panel">
      <header className="section">
        <div className="row">
          <h2 className="grow truncate">{worker.name}</h2>
          <StatusBadge status={statusOf(worker)} />
          <Button kind="plain" icon="close" aria-label="Close" onClick={onClose} />
        </div>
      </header>
      <section className="section worker-facts">
        <dl className="facts">
          <dt>Process</dt>
          <dd>
            {worker.host} · {worker.pid}
          </dd>
          <dt>Version</dt>
          <dd>{worker.version}</dd>
          <dt>Since</dt>
          <dd>
            <Time at={worker.registered_at} />
          </dd>
          <dt>Seen</dt>
          <dd>
            <Time at={worker.last_seen_at} />
          </dd>
          <dt>Busy</dt>
          <dd>
            {worker.busy} of {worker.concurrency}
            <Meter value={worker.busy} most={worker.concurrency} label="Busy" />
          </dd>
          {worker.leftover > 0 && (
            <>
              <dt>Left over</dt>
              <dd>{worker.leftover} handlers still run although they timed out</dd>
            </>
          )}
        </dl>
        {worker.status !== "dead" && !worker.draining && (
          <div>
            <Button icon="stop" twin={`minuet workers drain ${shellWord(worker.id)}`} onClick={() => setAsks(true)}>
              Drain…
            </Button>
          </div>
        )}
        {worker.draining && worker.status !== "dead" && <p className="muted">It takes nothing more, finishes what it has, and ends.</p>}
      </section>
      <section className="section">
        <h3>In progress</h3>
        {held.length ? (
          <ul className="held">
            {held.slice(0, 100).map((one) => (
              <li key={`${one.run_id} ${one.node} ${one.scope.join(".")}`}>
                <Link className="truncate grow" to={`/runs/${one.run_id}?node=${encodeURIComponent(one.node)}`}>
                  {one.workflow} · {one.node}
                </Link>
                <Duration since={one.since} />
                {one.until && <Countdown until={one.until} short calm />}
              </li>
            ))}
          </ul>
        ) : (
          <p className="muted">Nothing.</p>
        )}
      </section>
      <section className="section">
        <h3>Queues it takes from</h3>
        <ul className="tags">
          {worker.queues.map((one) => (
            <li key={one} className="tag">
              {one || "default"}
            </li>
          ))}
        </ul>
      </section>
      <section className="section">
        <h3>Executors</h3>
        <ul className="tags">
          {worker.executors.map((one) => (
            <li key={one} className="tag">
              {one}
            </li>
          ))}
        </ul>
      </section>
      {offers.length > 0 && (
        <section className="section">
          <h3>Capabilities</h3>
          <dl className="facts">
            {offers.map(([name, value]) => (
              <div key={name}>
                <dt>{name}</dt>
                <dd className="nums">{typeof value === "object" ? JSON.stringify(value) : String(value)}</dd>
              </div>
            ))}
          </dl>
        </section>
      )}
      {asks && <Drain worker={worker} held={held} alone={alone} onClose={() => setAsks(false)} onChanged={onChanged} />}
    </div>
  );
}

/** Queues with something in them that no other worker takes from. */
function onlyServed(worker: Worker, others: readonly Worker[], queues: readonly Queue[]): Queue[] {
  const namesakes = others.filter((one) => one.name === worker.name && one.id !== worker.id && one.status === "healthy" && !one.draining).length;
  if (namesakes) return [];
  return queues.filter((one) => one.served_by.length > 0 && one.served_by.every((name) => name === worker.name));
}

function Drain({ worker, held, alone, onClose, onChanged }: { worker: Worker; held: readonly Lease[]; alone: readonly Queue[]; onClose: () => void; onChanged: () => void }) {
  const [busy, setBusy] = useState(false);
  const isShown = useIsShown();
  const drain = async (): Promise<void> => {
    setBusy(true);
    try {
      await post("/workers/{id}/drain", { path: { id: worker.id } });
      toast(`${worker.name} takes nothing more, and ends when it has finished`);
      onChanged();
    } catch (error) {
      toast((error as Error).message, "failed");
    }
    if (isShown()) onClose();
  };
  return (
    <Dialog
      title={`Drain ${worker.name}`}
      onClose={onClose}
      foot={
        <>
          <Button onClick={onClose}>Not now</Button>
          <Button kind="danger" icon="stop" disabled={busy} twin={`minuet workers drain ${shellWord(worker.id)}`} onClick={() => void drain()}>
            Drain
          </Button>
        </>
      }
    >
      <ul className="drain-preview">
        <li>It takes nothing more from now on.</li>
        <li>{held.length ? `It finishes what it holds: ${held.length} node ${held.length === 1 ? "instance" : "instances"}. What does not finish in time goes to other workers.` : "It holds nothing, so it ends at once."}</li>
        <li>The process ends. This page cannot start it again.</li>
        {alone.length > 0 ? (
          <li className="drain-warning">
            Nobody else serves {alone.map((one) => one.queue || "default").join(", ")}: {alone.reduce((sum, one) => sum + one.ready, 0)} waiting and{" "}
            {alone.reduce((sum, one) => sum + one.running, 0)} running there wait until another worker comes.
          </li>
        ) : (
          <li>What waits in queues now is served by others.</li>
        )}
      </ul>
    </Dialog>
  );
}
