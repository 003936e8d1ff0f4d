import type { ReactNode } from "react";
import { get } from "../../api/client.ts";
import type { Explanation, LogLine, Page } from "../../api/types.ts";
import { useQuery } from "../../api/useQuery.ts";
import { Button, CodeBlock, Duration, Json, StatusBadge, StatusDot, Time } from "../../components/index.ts";
import { showScope } from "../../fold/scope.ts";
import { shellWord, showCount } from "../../lib/format.ts";
import { Link, useQueryParam } from "../../lib/router.tsx";
import { waitName } from "./GraphView.tsx";
import { useNodeState, type RunModel } from "./model.ts";

const REASONS: Record<string, string> = {
  all_arrivals_skipped: "everything that leads here was skipped",
  not_reached: "nothing led here",
  upstream_failed: "a node before it failed",
  run_ended: "the run ended before",
  withdrawn_by_join: "a join went on without it",
  skipped_by_hand: "somebody skipped it",
};
const SHOWN_MAX = 200;

/** All about one node, or one of its instances. */
export function NodePanel({ model, id, onClose }: { model: RunModel; id: string; onClose: () => void }) {
  const summary = useNodeState(model, id);
  const [scope, setScope] = useQueryParam("instance");
  const node = model.graph?.nodes.find((one) => one.id === id);
  if (!node || !summary) return null;
  const all = summary.instances > 1 || node.foreach ? (model.view?.instances(id, model.isHeld) ?? []) : [];
  const one = all.find((instance) => instance.scope.join(".") === scope);
  const state = one ?? summary;
  const output = state.event ? model.event(state.event)?.data.output : undefined;
  const wait = state.waiting ? model.event(state.waiting.event)?.data.data : undefined;
  const token = state.place >= 0 ? model.cursor.tokens[state.place] : undefined;
  const segments = state.place >= 0 ? model.history.segments[state.place]! : [];
  const attempts = segments.filter((segment) => segment.kind === "running" && segment.seq <= model.cursor.seq);
  const name = id + (one ? showScope(one.scope) : "");
  return (
    <div>
      <div className="section">
        <div className="row">
          <h1 className="truncate grow">{name}</h1>
          <StatusBadge status={state.status} />
          <Button kind="plain" icon="close" aria-label="Close" onClick={onClose} />
        </div>
        <dl className="facts" style={{ marginTop: 8 }}>
          <dt>Type</dt>
          <dd>
            {node.type}
            {node.handler && <> · <code>{node.handler}</code></>}
          </dd>
          {state.reason && (
            <>
              <dt>Because</dt>
              <dd>{REASONS[state.reason] ?? state.reason}</dd>
            </>
          )}
          {state.startedAt !== null && (
            <>
              <dt>Started</dt>
              <dd>
                <Time at={state.startedAt} />
              </dd>
              <dt>Took</dt>
              <dd>
                <Duration ms={state.endedAt === null ? null : state.endedAt - state.startedAt} since={state.startedAt} />
              </dd>
            </>
          )}
          {summary.join && (
            <>
              <dt>Arrived</dt>
              <dd>
                {summary.join.live} of {summary.join.need || summary.join.total} needed
                {summary.join.skipped > 0 && `, ${summary.join.skipped} skipped`}: {Object.keys(summary.join.sources).join(", ")}
              </dd>
            </>
          )}
          {token?.session && (
            <>
              <dt>Worker</dt>
              <dd>
                <code>{token.session}</code>
              </dd>
            </>
          )}
          {token?.decidedBy && (
            <>
              <dt>Decided</dt>
              <dd>
                {token.decided} by {token.decidedBy}
                {token.decidedWhy && `: ${token.decidedWhy}`}
              </dd>
            </>
          )}
        </dl>
      </div>
      {state.status !== "COMPLETED" && model.isLive && <Why model={model} name={name} seq={model.history.seq} />}
      {state.waiting && (
        <Section title={`Waits for ${waitName(state.waiting)}`}>
          {state.waiting.kind === "approval" && (
            <p>
              <Link to={`/approvals/${encodeURIComponent(`${model.id}:${name}`)}`}>Open the approval</Link>
            </p>
          )}
          {wait != null && <Json value={wait} label="Data" />}
        </Section>
      )}
      {state.error && (
        <Section title="Error">
          <p className="run-error" style={{ marginBottom: 8 }}>
            {String(state.error.message ?? state.error.code ?? "")}
          </p>
          <Json value={state.error} label="Error" />
        </Section>
      )}
      {state.event > 0 && (
        <Section title="Output">
          <Json value={output} label={`Event ${state.event}`} maxHeight={420} />
        </Section>
      )}
      {token?.notes && token.notes.length > 0 && (
        <Section title="How it decided">
          <Json value={token.notes} label="Rules" />
        </Section>
      )}
      {attempts.length > 0 && (
        <Section title={`Attempts: ${attempts.length}`}>
          {attempts.map((attempt) => (
            <div key={attempt.seq} className="row">
              <StatusDot status={attempt.failed ? "failed" : "completed"} />
              <span className="nums">{attempt.attempt}</span>
              <span className="grow">
                <Time at={attempt.from} />
              </span>
              <Duration ms={attempt.to === null ? null : attempt.to - attempt.from} />
            </div>
          ))}
        </Section>
      )}
      {all.length > 1 && (
        <Section title={`Instances: ${showCount(all.length)}`}>
          {one && (
            <button type="button" className="chip" onClick={() => setScope("")}>
              All of them
            </button>
          )}
          {all.slice(0, SHOWN_MAX).map((instance) => (
            <button key={instance.place} type="button" className="sidebar-button" onClick={() => setScope(instance.scope.join("."))}>
              <StatusDot status={instance.status} />
              {showScope(instance.scope)}
              <span className="grow" />
              {instance.startedAt !== null && instance.endedAt !== null && <Duration ms={instance.endedAt - instance.startedAt} />}
            </button>
          ))}
          {all.length > SHOWN_MAX && <p className="muted">and {showCount(all.length - SHOWN_MAX)} more</p>}
        </Section>
      )}
      <Logs model={model} name={name} seq={state.event} />
    </div>
  );
}

const Section = ({ title, children }: { title: string; children: ReactNode }) => (
  <section className="section">
    <h3>{title}</h3>
    {children}
  </section>
);

/** Why it has not run, or is in its state: in the server's words. */
function Why({ model, name, seq }: { model: RunModel; name: string; seq: number }) {
  const path = { run_id: model.id, node: name };
  const { data } = useQuery(`${name} ${seq}`, (signal) => get<Explanation>("/runs/{run_id}/why/{node}", { path, signal }));
  if (!data) return null;
  return (
    <Section title="Why">
      <p>{data.summary}</p>
      {data.reasons.length > 0 && (
        <ul>
          {data.reasons.map((reason) => (
            <li key={reason} className="muted">
              {reason}
            </li>
          ))}
        </ul>
      )}
      <CodeBlock text={`minuet runs why ${model.id} ${shellWord(name)}`} />
    </Section>
  );
}

function Logs({ model, name, seq }: { model: RunModel; name: string; seq: number }) {
  const { data } = useQuery(`${name} ${seq}`, (signal) => get<Page<LogLine>>("/runs/{run_id}/logs", { path: { run_id: model.id }, query: { node: name }, signal }));
  if (!data?.items.length) return null;
  return (
    <Section title="Logs">
      <CodeBlock text={data.items.map((line) => `${line.at.slice(11, 23)} ${line.level.padEnd(8)} ${line.text}`).join("\n")} />
    </Section>
  );
}
