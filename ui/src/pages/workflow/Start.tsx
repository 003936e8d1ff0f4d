import { useMemo, useState, type FormEvent } from "react";
import { ApiError, post } from "../../api/client.ts";
import type { Run } from "../../api/types.ts";
import { Button, toast } from "../../components/index.ts";
import { findProblems, initialOf, readProblems, type Problems, type Schema } from "../../form/schema.ts";
import { FormOrJson } from "../../form/SchemaForm.tsx";
import { shellWord } from "../../lib/format.ts";
import { useShortcuts } from "../../lib/keys.ts";
import { isLarge } from "../../lib/large.ts";
import { navigate } from "../../lib/router.tsx";

interface StartProps {
  /** Of a run that this one is to be like. */
  like: { input: unknown } | null;
  reference: string;
  schema: Readonly<Record<string, unknown>> | null;
  newest: readonly { run_id: string; input: unknown; created_at: string }[];
}

const ANYTHING: Schema = {};

/** Starts a run, with a form for its input. */
export function Start({ like, reference, schema: given, newest }: StartProps) {
  const schema = given ?? ANYTHING;
  const [input, setInput] = useState<unknown>(() => (like ? structuredClone(like.input) : initialOf(schema, schema)));
  const [key, setKey] = useState("");
  const [tried, setTried] = useState(false);
  const [said, setSaid] = useState<Problems>(new Map());
  const [refused, setRefused] = useState("");
  const [busy, setBusy] = useState(false);
  const own = useMemo(() => findProblems(schema, input, schema), [schema, input]);
  const problems: Problems = tried ? new Map([...said, ...own]) : said;
  const examples = useMemo(() => examplesOf(schema, newest), [schema, newest]);
  const twin = `minuet start ${shellWord(reference)} -i ${shellWord(JSON.stringify(input ?? null))}${key ? ` --idempotency-key ${shellWord(key)}` : ""}`;
  const start = async (event?: FormEvent): Promise<void> => {
    event?.preventDefault();
    setTried(true);
    setSaid(new Map());
    setRefused("");
    if (own.size || busy) return;
    setBusy(true);
    try {
      const run = await post<Run>("/runs", { body: { workflow: reference, inputs: input ?? null, ...(key ? { idempotency_key: key } : {}) } });
      toast(`Started ${reference}`);
      navigate(`/runs/${run.run_id}`);
    } catch (error) {
      const found = error instanceof ApiError ? (error.problem?.problems ?? []) : [];
      if (found.length) setSaid(readProblems(found, "input"));
      else setRefused((error as Error).message);
      setBusy(false);
    }
  };
  useShortcuts([{ keys: "Ctrl+ENTER", label: "Start", everywhere: true, run: () => void start() }]);
  return (
    <div className="workflow-start">
      <form onSubmit={(event) => void start(event)} noValidate>
        <FormOrJson schema={schema} value={input} onChange={setInput} problems={problems} head={<h2>Input</h2>} />
        {given === null && <p className="muted">The workflow does not say what its input must be: any JSON, or nothing.</p>}
        <label className="form-field">
          <span className="form-label">
            Idempotency key <span className="form-optional">optional</span>
          </span>
          <input className="field" value={key} onChange={(event) => setKey(event.target.value)} />
          <span className="form-about">Starting with the same key and input again gives the same run.</span>
        </label>
        {refused && (
          <p className="form-problem" role="alert">
            {refused}
          </p>
        )}
        <div>
          <Button kind="primary" icon="play" type="submit" disabled={busy} twin={twin}>
            {busy ? "Starting…" : "Start"}
          </Button>
        </div>
      </form>
      <div>
        {examples.length > 0 && (
          <section>
            <h3>Fill in: examples, and inputs of the newest runs</h3>
            <p className="examples">
              {examples.map((one, at) => (
                <Button key={at} title={JSON.stringify(one.value)} onClick={() => setInput(structuredClone(one.value))}>
                  {one.label}
                </Button>
              ))}
            </p>
          </section>
        )}
      </div>
    </div>
  );
}

function shortOf(input: unknown): string {
  const text = JSON.stringify(input) ?? "";
  return text.length > 36 ? `${text.slice(0, 35)}…` : text;
}

/** Inputs to begin with: the schema's examples, and those of the newest runs. */
function examplesOf(schema: Schema, newest: StartProps["newest"]): { label: string; value: unknown }[] {
  const found: { label: string; value: unknown }[] = [];
  const seen = new Set<string>();
  const add = (label: string, value: unknown): void => {
    const text = JSON.stringify(value);
    if (value === null || value === undefined || isLarge(value) || seen.has(text)) return;
    seen.add(text);
    found.push({ label, value });
  };
  if (Array.isArray(schema.examples)) schema.examples.forEach((one, at) => add(`Example ${at + 1}`, one));
  const properties = schema.properties;
  if (typeof properties === "object" && properties !== null) {
    const made: Record<string, unknown> = {};
    for (const [name, one] of Object.entries(properties as Record<string, Record<string, unknown>>)) {
      if (Array.isArray(one?.examples) && one.examples.length) made[name] = one.examples[0];
      else if (one && "default" in one) made[name] = one.default;
    }
    if (Object.keys(made).length) add("Examples of the fields", made);
  }
  for (const run of newest.slice(0, 10)) {
    if (found.length >= 6) break;
    add(shortOf(run.input), run.input);
  }
  return found;
}
