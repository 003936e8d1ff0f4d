import { useEffect, useRef, useState, type FormEvent, type ReactNode } from "react";
import { ApiError, call, post, type Options } from "../../api/client.ts";
import type { Shape } from "../../api/types.ts";
import { useQuery } from "../../api/useQuery.ts";
import { Button, CodeBlock, StatusBadge, toast } from "../../components/index.ts";
import { Link } from "../../lib/router.tsx";
import { useIsShown } from "../../lib/shown.ts";
import { ACTIONS, callOf, previewOf, readData, twinOf, type Asked, type Given } from "./actions.ts";
import type { RunModel } from "./model.ts";
import "./panel.css";

type Consequences = Shape<"Consequences">;

/** An action before it is done: what it would do, here and in the graph, why, and its twin. */
export function ActionPanel({ model, asked, onClose }: { model: RunModel; asked: Asked; onClose: () => void }) {
  const { action, node } = asked;
  const about = ACTIONS[action];
  const [given, setGiven] = useState<Given>({ why: "", data: "", name: asked.name ?? "", to: "", undone: false });
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);
  const form = useRef<HTMLFormElement>(null);
  const isShown = useIsShown();
  const isRetryAsOther = action === "retry" && model.history.run.undos > 0;
  const badData = problemOf(given.data);
  const incomplete = badData !== null || (about.fields.includes("name") && !given.name);
  const { seq } = model.history;
  const body = incomplete ? null : previewOf(asked, given);
  const ask = async (signal?: AbortSignal): Promise<{ at: number; found: Consequences }> => {
    const at = model.history.seq;
    return { at, found: await post<Consequences>("/runs/{run_id}/preview", { path: { run_id: model.id }, body, signal }) };
  };
  const preview = useQuery(body && JSON.stringify(body), ask, seq);
  const last = useLast(preview.data);
  const shown = last?.found ?? null;
  // What somebody has seen is what they agree to: if the run has gone on since, the server refuses.
  const seen = last?.at ?? seq;
  const isStillSeen = async (): Promise<boolean> => JSON.stringify((await ask()).found) === JSON.stringify(shown);
  useEffect(() => {
    model.highlight(marksOf(shown));
    return () => model.highlight(new Map());
  }, [model, shown]);
  const isReady = shown !== null || preview.error !== null;
  // The first field at once; without one, the button as soon as it can be pressed.
  useEffect(() => {
    if (!form.current?.contains(document.activeElement)) form.current?.querySelector<HTMLElement>("input, textarea, select, button[type=submit]")?.focus();
  }, [isReady]);
  const set = (part: Partial<Given>): void => setGiven({ ...given, ...part });
  const isRefused = shown !== null && !shown.allowed && !given.undone;
  const title = node && !["signal", "retry"].includes(action) ? `${about.title} ${node}` : about.title;
  const submit = async (event: FormEvent): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      const [path, options] = callOf(model.id, asked, given);
      const send = (guard: Options): Promise<{ run_id?: string }> => call("POST", path, { ...options, ...guard });
      const done = await send(about.isGuarded ? { ifMatch: seen } : {}).catch(async (failure: unknown) => {
        // A busy run goes on all the time: that matters only if something else would happen now.
        if (!isOutdated(failure) || !(await isStillSeen())) throw failure;
        return send({});
      });
      toast(given.undone && done.run_id && done.run_id !== model.id ? `It starts over as ${done.run_id}.` : about.said);
      // The event may come before the answer: by then, somebody may look at another action.
      if (isShown()) onClose();
    } catch (failure) {
      if (!isShown()) return toast(`${title}: ${(failure as Error).message}`, "failed");
      setError(failure as Error);
      setBusy(false);
    }
  };
  return (
    <form ref={form} className="action-panel" aria-label={title} onSubmit={(event) => void submit(event)}>
      <div className="section row">
        <h1 className="truncate grow">{title}</h1>
        <Button kind="plain" icon="close" aria-label="Close" onClick={onClose} />
      </div>
      <div className="section action-fields">
        {about.fields.includes("name") && (
          <Field label="Name of the signal">
            <input className="field" required value={given.name} list="signal-names" onChange={(event) => set({ name: event.target.value })} />
            <datalist id="signal-names">
              {signalNames(model).map((one) => (
                <option key={one} value={one} />
              ))}
            </datalist>
          </Field>
        )}
        {about.fields.includes("data") && (
          <Field label={action === "signal" ? "Data, as JSON" : "Output, as JSON"} problem={badData}>
            <textarea className="field mono" rows={5} spellCheck={false} placeholder="null" value={given.data} onChange={(event) => set({ data: event.target.value })} />
          </Field>
        )}
        {about.fields.includes("to") && (
          <Field label="How far">
            <select className="field" value={given.to} onChange={(event) => set({ to: event.target.value })}>
              <option value="">everything</option>
              {model.graph!.nodes
                .filter((one) => !one.is_output && model.node(one.id)?.status === "COMPLETED")
                .map((one) => (
                  <option key={one.id} value={one.id}>{`what came after ${one.id}`}</option>
                ))}
            </select>
          </Field>
        )}
        {about.fields.includes("why") && (
          <Field label={about.needsWhy ? "Why" : "Why (may be left out)"}>
            <input className="field" required={about.needsWhy} value={given.why} placeholder="Kept in the history of the run" onChange={(event) => set({ why: event.target.value })} />
          </Field>
        )}
        {isRetryAsOther && (
          <label className="row">
            <input type="checkbox" checked={given.undone} onChange={(event) => set({ undone: event.target.checked })} />
            Start it over, as another run
          </label>
        )}
      </div>
      <div className="section" aria-live="polite" aria-busy={preview.loading}>
        <h3>What would happen</h3>
        {preview.error && <p className="run-error">{preview.error.message}</p>}
        {shown && <Outcome found={shown} before={model.history.run.status} />}
        {!shown && !preview.error && <p className="muted">{incomplete ? "Fill in the fields to see it." : "Asking the server…"}</p>}
      </div>
      <div className="section">
        <h3>The same on the command line</h3>
        <CodeBlock text={twinOf(model.id, asked, given)} />
      </div>
      {/* It stays where it is while what is above it grows: nobody clicks beside a button that moves. */}
      <div className="action-foot">
        {error && <Refusal error={error} />}
        <div className="row">
          <Button type="submit" kind={about.isDanger ? "danger" : "primary"} disabled={busy || incomplete || isRefused || !isReady}>
            {about.does}
          </Button>
          <Button kind="plain" onClick={onClose}>
            Leave it
          </Button>
        </div>
      </div>
    </form>
  );
}

function Field({ label, problem, children }: { label: string; problem?: string | null; children: ReactNode }) {
  return (
    <label className="action-field">
      <span className="muted">{label}</span>
      {children}
      {problem && <span className="run-error">{problem}</span>}
    </label>
  );
}

const LISTS: readonly [keyof Consequences, string, string][] = [
  ["ready", "ready", "Ready to run at once"],
  ["cut_off", "cut_off", "Cut off"],
  ["undone", "undone", "Undone, in this order"],
  ["skipped", "skipped", "Skipped as well"],
  ["next", "ahead", "Can come next"],
];
const SHOWN_MAX = 12;

function Outcome({ found, before }: { found: Consequences; before: string }) {
  if (!found.allowed) return <p className="run-error">Not possible now: {found.why}</p>;
  const lists = LISTS.map(([key, mark, label]) => [mark, label, found[key] as string[]] as const).filter(([, , names]) => names.length);
  return (
    <div className="consequences">
      <p>
        {found.status === before ? "The run stays " : "The run becomes "}
        <StatusBadge status={found.status} />
      </p>
      {lists.map(([mark, label, names]) => (
        <div key={label} data-mark={mark}>
          <b>{label}</b>
          <span className="nums muted"> {names.length}</span>
          <div className="names">
            {names.slice(0, SHOWN_MAX).map((name) => (
              <code key={name}>{name}</code>
            ))}
            {names.length > SHOWN_MAX && <span className="muted">and {names.length - SHOWN_MAX} more</span>}
          </div>
        </div>
      ))}
      {found.children.length > 0 && (
        <div data-mark="cut_off">
          <b>Child runs that are cancelled</b>
          <div className="names">
            {found.children.map((id) => (
              <Link key={id} to={`/runs/${id}`} className="mono">{`…${id.slice(-8)}`}</Link>
            ))}
          </div>
        </div>
      )}
      {lists.length === 0 && found.children.length === 0 && <p className="muted">Nothing else changes at once.</p>}
    </div>
  );
}

/** Whether the run had gone on when the server was asked. */
function isOutdated(failure: unknown): boolean {
  return failure instanceof ApiError && failure.status === 412;
}

/** Why the server refused, and what to do about it. */
function Refusal({ error }: { error: Error }) {
  const status = error instanceof ApiError ? error.status : 0;
  const hint =
    isOutdated(error)
      ? "The run went on while you looked at this. What would happen has been worked out again above: look, then repeat."
      : status === 403
        ? "Your key does not allow it: ask somebody with the role operator."
        : status === 409
          ? "The run is not in a state for it any more."
          : status === 0
            ? "The server does not answer. Nothing was changed, as far as this page knows: look at the history first, then repeat."
            : "";
  return (
    <div className="action-refused" role="alert">
      <p className="run-error">{error.message}</p>
      {hint && <p>{hint}</p>}
    </div>
  );
}

function problemOf(data: string): string | null {
  try {
    readData(data);
    return null;
  } catch (error) {
    return `not JSON: ${(error as Error).message}`;
  }
}

/** Names that nodes of the run wait for. */
function signalNames(model: RunModel): string[] {
  const names = model.cursor.tokens.flatMap((token) => (token?.state === "waiting" && token.wait === "signal" && token.waitKey ? [token.waitKey] : []));
  return [...new Set(names)];
}

/** Which nodes of the graph a change concerns, and how. The first mark of a node counts. */
function marksOf(found: Consequences | null): Map<string, string> {
  const marks = new Map<string, string>();
  if (!found?.allowed) return marks;
  for (const [key, mark] of [...LISTS, ["ahead", "ahead", ""] as const]) {
    for (const name of found[key as keyof Consequences] as string[]) {
      const id = name.replace(/\[[\d.]*\]$/, "");
      if (!marks.has(id)) marks.set(id, mark);
    }
  }
  return marks;
}

/** The last value that was there: what is shown does not flicker while the next one is on its way. */
function useLast<T>(value: T | null): T | null {
  const last = useRef<T | null>(null);
  if (value !== null) last.current = value;
  return last.current;
}
