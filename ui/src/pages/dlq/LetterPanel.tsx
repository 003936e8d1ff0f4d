import { useState } from "react";
import { get, post } from "../../api/client.ts";
import type { Shape } from "../../api/types.ts";
import { useQuery } from "../../api/useQuery.ts";
import { Button, CodeEditor, Failure, Fault, faultLine, Json, Loading, Readable, readJson, StatusBadge, Time, toast } from "../../components/index.ts";
import { shellOption, shellWord } from "../../lib/format.ts";
import { given } from "../../lib/me.ts";
import { Link } from "../../lib/router.tsx";
import { DiscardDialog } from "./actions.tsx";
import { retryOne } from "./retrying.ts";

type Details = Shape<"LetterDetails">;

/** One dead letter: what its handler was given, what happened, and another try with other input. */
export function LetterPanel({ id, onClose, onChanged }: { id: string; onClose: () => void; onChanged: () => void }) {
  const { data, error, reload } = useQuery(id, (signal) => get<Details>("/dlq/{id}", { path: { id }, signal }));
  const [open, setOpen] = useState<"edit" | "discard" | null>(null);
  if (error) return <Failure error={error} onRetry={reload} />;
  if (!data) return <Loading />;
  const changed = (): void => {
    reload();
    onChanged();
  };
  const retry = async (): Promise<void> => {
    try {
      await retryOne(id);
    } catch (problem) {
      toast((problem as Error).message, "failed");
    }
    changed();
  };
  const done = (): void => {
    setOpen(null);
    changed();
  };
  const { config, ...others } = (data.input ?? {}) as Record<string, unknown>;
  return (
    <div className="letter-panel">
      <header className="section">
        <div className="row">
          <Button kind="plain" icon="back" aria-label="Back to the cause" onClick={onClose} />
          <h2 className="grow truncate">
            {data.workflow} · {data.node_id}
            {data.scope.length > 0 && ` [${data.scope.join(".")}]`}
          </h2>
          <StatusBadge status={data.status === "pending" ? "failed" : data.status} label={data.status === "pending" ? "To do" : data.status === "reprocessed" ? "Retried" : "Discarded"} />
        </div>
        <p className="muted">
          <Link to={`/runs/${data.run_id}?node=${encodeURIComponent(data.node_id)}`}>run …{data.run_id.slice(-10)}</Link> · <Time at={data.at} /> · {data.reason} ·{" "}
          {data.attempts === 1 ? "1 attempt" : `${data.attempts} attempts`}
        </p>
        {data.why && <p>Discarded: {data.why}</p>}
      </header>
      <section className="section">
        <Fault error={data.error} />
      </section>
      {data.status === "pending" && (
        <section className="section letter-actions">
          <Button kind="primary" icon="retry" twin={`minuet dlq retry ${shellWord(id)}`} onClick={() => void retry()}>
            Retry
          </Button>
          {config !== undefined && (
            <Button icon="edit" aria-expanded={open === "edit"} onClick={() => setOpen(open === "edit" ? null : "edit")}>
              Edit the input
            </Button>
          )}
          <span className="grow" />
          <Button kind="danger" icon="trash" onClick={() => setOpen("discard")}>
            Discard…
          </Button>
        </section>
      )}
      {open === "edit" && <Edit id={id} config={config} onDone={done} />}
      <section className="section">
        {data.input ? (
          <div className="letter-input">
            {open !== "edit" && <Readable value={config ?? null} label="Config, as the handler got it" />}
            {Object.entries(others)
              .filter(([, value]) => value !== null && !(typeof value === "object" && Object.keys(value as object).length === 0))
              .map(([name, value]) => (
                <Json key={name} value={value} label={name === "inputs" ? "Outputs of the nodes before" : name === "input" ? "Input of the run" : "Item"} maxHeight={240} />
              ))}
          </div>
        ) : (
          <p className="muted">What its handler was given cannot be made again: it is lost, or too large.</p>
        )}
      </section>
      <section className="section grow">
        <h3>What happened</h3>
        <ol className="letter-history">
          {data.history.map((one, at) => {
            const event = one as unknown as { type: string; at: string; data: Record<string, unknown> };
            return (
              <li key={at}>
                <span className="dot" data-status={event.type === "failed" ? "failed" : event.type === "completed" ? "completed" : "queued"} />
                <span className="grow">
                  {event.type}
                  {event.type === "failed" && <span className="muted"> {faultLine(event.data)}</span>}
                </span>
                <Time at={event.at} />
              </li>
            );
          })}
        </ol>
      </section>
      {open === "discard" && (
        <DiscardDialog find={() => Promise.resolve([id])} count={1} words={shellWord(id)} onClose={() => setOpen(null)} onChanged={changed} />
      )}
    </div>
  );
}

function Edit({ id, config, onDone }: { id: string; config: unknown; onDone: () => void }) {
  const [text, setText] = useState(() => JSON.stringify(config ?? {}, null, 2));
  const [why, setWhy] = useState("");
  const [said, setSaid] = useState("");
  const [busy, setBusy] = useState(false);
  const read = readJson(text);
  const isObject = typeof read.value === "object" && read.value !== null && !Array.isArray(read.value);
  const problem = read.error ?? (isObject ? null : { message: "expected an object: { … }", line: 1 });
  const hidden = text.includes('"***"');
  const save = async (retries: boolean): Promise<void> => {
    setBusy(true);
    setSaid("");
    try {
      await post("/dlq/{id}/edit", { path: { id }, body: { config: read.value, why, by: given.get().name } });
      if (retries) await retryOne(id);
      toast(retries ? "Saved, and retried" : "Saved. It is used when it is retried");
      onDone();
    } catch (error) {
      setSaid((error as Error).message);
    }
    setBusy(false);
  };
  const twin = `minuet dlq edit ${shellWord(id)} -i ${shellWord(JSON.stringify(read.value ?? {}))}${why ? ` ${shellOption("--why", why)}` : ""}`;
  return (
    <section className="section letter-edit">
      <h3>Config for its further attempts</h3>
      <CodeEditor text={text} onChange={setText} language="json" label="Config" rows={8} problem={problem} />
      {hidden && (
        <p className="form-problem" role="alert">
          <code>***</code> stands for a secret: write the template of the document in its place, or the handler gets three stars.
        </p>
      )}
      <p className="muted">Templates such as {"{{ input.amount }}"} are filled in, as in the document.</p>
      <input className="field" aria-label="Why" placeholder="Why: kept in the history of the run" value={why} onChange={(event) => setWhy(event.target.value)} />
      {said && (
        <p className="form-problem" role="alert">
          {said}
        </p>
      )}
      <div className="letter-actions">
        <Button kind="primary" icon="retry" disabled={busy || problem !== null} twin={`${twin}\nminuet dlq retry ${shellWord(id)}`} onClick={() => void save(true)}>
          Save and retry
        </Button>
        <Button disabled={busy || problem !== null} onClick={() => void save(false)}>
          Save
        </Button>
        <span className="muted">Only this node instance of this run.</span>
      </div>
    </section>
  );
}
