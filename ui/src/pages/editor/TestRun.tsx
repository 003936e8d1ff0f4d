import { useMemo, useState } from "react";
import { ApiError, get, post } from "../../api/client.ts";
import type { Run } from "../../api/types.ts";
import { useQuery } from "../../api/useQuery.ts";
import { Button, Dialog, Duration, faultLine, StatusBadge } from "../../components/index.ts";
import { findProblems, initialOf, readProblems, type Problems, type Schema } from "../../form/schema.ts";
import { FormOrJson } from "../../form/SchemaForm.tsx";
import { shellWord } from "../../lib/format.ts";
import { useShortcuts } from "../../lib/keys.ts";
import { Link } from "../../lib/router.tsx";
import { useFeed } from "../../live/feed.ts";

const ANYTHING: Schema = {};

interface StartDialogProps {
  name: string;
  text: string;
  schema: Schema | null;
  /** What the last test began with. */
  last: { input: unknown } | null;
  onStarted: (run: string, input: unknown) => void;
  onClose: () => void;
}

/** Asks for the test data, and starts a run of the text as it is: nothing is deployed. */
export function StartDialog({ name, text, schema: given, last, onStarted, onClose }: StartDialogProps) {
  const schema = given ?? ANYTHING;
  const [input, setInput] = useState<unknown>(() => (last ? last.input : (exampleOf(schema) ?? initialOf(schema, schema))));
  const [tried, setTried] = useState(false);
  const [said, setSaid] = useState<Problems>(new Map());
  const [refused, setRefused] = useState("");
  const [busy, setBusy] = useState(false);
  const own = useMemo(() => findProblems(schema, input, schema), [schema, input]);
  const start = async (): Promise<void> => {
    setTried(true);
    setRefused("");
    if (own.size || busy) return;
    setBusy(true);
    try {
      const run = await post<Run>("/runs", { body: { document: text, inputs: input ?? null, tags: { test: "editor" } } });
      onStarted(run.run_id, input);
    } catch (error) {
      const found = error instanceof ApiError ? (error.problem?.problems ?? []) : [];
      if (found.length) setSaid(readProblems(found, "input"));
      else setRefused((error as Error).message);
      setBusy(false);
    }
  };
  useShortcuts([{ keys: "Ctrl+ENTER", label: "Run it", everywhere: true, run: () => void start() }]);
  return (
    <Dialog
      title={`Run ${name} with test data`}
      onClose={onClose}
      foot={
        <>
          <Button onClick={onClose}>Not now</Button>
          <Button kind="primary" icon="play" disabled={busy} twin={`minuet run ${shellWord(`${name}.yaml`)}${input === undefined ? "" : ` -i ${shellWord(JSON.stringify(input))}`}`} onClick={() => void start()}>
            {busy ? "Starting…" : "Run it"}
          </Button>
        </>
      }
    >
      <FormOrJson schema={schema} value={input} onChange={setInput} problems={tried ? new Map([...said, ...own]) : said} head={<h2>Input</h2>} />
      <p className="muted">The text runs as it is, with the workers that are there. Nothing is deployed; the run has the tag test=editor.</p>
      {refused && (
        <p className="form-problem" role="alert">
          {refused}
        </p>
      )}
    </Dialog>
  );
}

/** Test data from the examples of the fields. */
function exampleOf(schema: Schema): unknown {
  if (Array.isArray(schema.examples) && schema.examples.length) return schema.examples[0];
  const made: Record<string, unknown> = {};
  for (const [name, one] of Object.entries((schema.properties ?? {}) as Record<string, Record<string, unknown>>)) {
    if (Array.isArray(one?.examples) && one.examples.length) made[name] = one.examples[0];
  }
  return Object.keys(made).length ? made : undefined;
}

/** A run while it goes on; null: there is none. */
export function useTestRun(id: string): { run: Run | null; statuses: Record<string, string> } {
  const { data, reload } = useQuery(id ? `run ${id}` : null, (signal) => get<Run>("/runs/{run_id}", { path: { run_id: id }, signal }));
  useFeed({
    onEvents: (events) => void (events.some((one) => one.run_id === id) && reload()),
    onReset: reload,
  });
  const statuses = useMemo(() => Object.fromEntries(Object.entries(data?.nodes ?? {}).map(([node, one]) => [node, one.status])), [data]);
  return { run: data, statuses };
}

export function RunStrip({ run, onClose }: { run: Run; onClose: () => void }) {
  return (
    <div className="run-strip" role="status">
      <StatusBadge status={run.status} />
      <span className="muted">test run</span>
      <Duration ms={run.duration_ms} since={run.started_at} />
      {run.error && <span className="truncate run-strip-error">{faultLine(run.error)}</span>}
      <span className="grow" />
      <Link to={`/runs/${run.run_id}`}>Open the run</Link>
      <Button kind="plain" icon="close" aria-label="Forget the test run" onClick={onClose} />
    </div>
  );
}
