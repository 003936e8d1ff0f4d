import type { ReactNode } from "react";
import { get } from "../../api/client.ts";
import type { Shape } from "../../api/types.ts";
import { useQuery } from "../../api/useQuery.ts";
import { Button, CopyButton, Duration, Json, StatusBadge, Time } from "../../components/index.ts";
import { encodeScope, showScope } from "../../fold/scope.ts";
import { sourcesOf, type GraphNode, type InstanceState, type Join } from "../../fold/types.ts";
import { Link, useQueryParam } from "../../lib/router.tsx";
import { ACTIONS, nodeActions, type Asked } from "./actions.ts";
import { Attempts, Steps } from "./Attempts.tsx";
import { Children } from "./Children.tsx";
import { waitName } from "./Step.tsx";
import { Instances } from "./Instances.tsx";
import { Logs } from "./Logs.tsx";
import { useNodeState, type RunModel } from "./model.ts";
import "./panel.css";
import { Why } from "./Why.tsx";
import { WorkerName } from "./WorkerName.tsx";

const REASONS: Record<string, string> = {
  all_arrivals_skipped: "everything that leads here was skipped",
  not_reached: "nothing led here",
  upstream_failed: "a node before it failed",
  run_ended: "the run ended before",
  withdrawn_by_join: "a join went on without it",
  skipped_by_hand: "somebody skipped it",
};

const GOING_ON: Record<string, string> = { RUNNING: "Running for", WAITING: "Waiting for" };

interface PanelProps {
  model: RunModel;
  id: string;
  onAsk: (asked: Asked) => void;
  onClose: () => void;
}

/** All about one node, or one of its instances. */
export function NodePanel({ model, id, onAsk, onClose }: PanelProps) {
  const summary = useNodeState(model, id);
  const [scope, setScope] = useQueryParam("instance");
  const node = model.graph?.nodes.find((one) => one.id === id);
  const view = model.view;
  if (!node || !summary || !view) {
    return (
      <div className="section row">
        <p className="grow muted">There is no node {id} in this run.</p>
        <Button kind="plain" icon="close" aria-label="Close" onClick={onClose} />
      </div>
    );
  }
  const several = summary.instances > 1 || node.foreach;
  const place = scope && several ? placeOf(model, node, scope) : -1;
  const one = place < 0 ? null : view.at(place, model.isHeld);
  const state = one ?? summary;
  const name = id + (one ? showScope(one.scope) : "");
  const address = (): string => {
    const url = new URL(location.href);
    url.searchParams.set("node", id);
    return url.href;
  };
  return (
    <div>
      <div className="section">
        <div className="row">
          {one && <Button kind="plain" icon="back" aria-label="All instances" onClick={() => setScope("")} />}
          <h1 className="truncate grow">{name}</h1>
          <StatusBadge status={state.status} />
          <CopyButton text={address} label="Copy the address of this view" />
          <Button kind="plain" icon="close" aria-label="Close" onClick={onClose} />
        </div>
        <Facts model={model} node={node} state={state} join={one ? null : summary.join} />
        <Actions model={model} name={name} state={state} onAsk={onAsk} />
      </div>
      {state.status !== "COMPLETED" && model.isLive && <Why model={model} name={name} />}
      <Waits model={model} name={name} state={state} onAsk={onAsk} />
      {node.child && <Children model={model} node={id} scope={one ? one.scope : null} />}
      {several && !one && <Instances model={model} id={id} onChoose={setScope} />}
      {(one || !several) && <Details model={model} node={node} name={name} state={state} />}
      {several && !one && state.event > 0 && (
        <Section title="Output">
          <Json value={model.event(state.event)?.data.output} label={`Event ${state.event}`} maxHeight={420} />
        </Section>
      )}
      <Logs model={model} name={name} isRunning={state.status === "RUNNING"} />
    </div>
  );
}

function placeOf(model: RunModel, node: GraphNode, scope: string): number {
  const text = encodeScope(scope.split(".").map(Number));
  const item = node.foreach ? model.history.placeOf(`${node.id}$item`, text) : -1;
  return item >= 0 ? item : model.history.placeOf(node.id, text);
}

/** What the instance route knows: what it was given, what came out, its attempts and steps. */
function Details({ model, node, name, state }: { model: RunModel; node: GraphNode; name: string; state: InstanceState }) {
  const path = { run_id: model.id, node: name };
  const version = `${state.status} ${state.attempts} ${state.event}`;
  const { data, error } = useQuery(state.place < 0 ? null : name, (signal) => get<Shape<"InstanceDetails">>("/runs/{run_id}/nodes/{node}/attempts", { path, signal }), version);
  const notes = model.cursor.tokens[state.place]?.notes;
  return (
    <>
      {state.error && (
        <Section title="Error">
          <p className="run-error">{String(state.error.message ?? state.error.code ?? "")}</p>
          {causesOf(state.error).map((cause, at) => (
            <p key={at} className="muted">
              because of {cause}
            </p>
          ))}
          <Json value={state.error} label="Error" />
        </Section>
      )}
      {error && !data && (
        <Section title="Attempts">
          <p className="run-error">{error.message}</p>
        </Section>
      )}
      {data && data.attempts.length > 0 && state.status !== "SKIPPED" && <Attempts model={model} attempts={data.attempts} />}
      {data && data.result.steps.length > 0 && <Steps steps={data.result.steps} />}
      {data?.given && (
        <Section title="Input">
          <Json value={data.given} label="What it was given" maxHeight={300} />
          {node.config != null && (
            <details>
              <summary>As it was written</summary>
              <Json value={node.config} label="With templates" />
            </details>
          )}
        </Section>
      )}
      {state.event > 0 && (
        <Section title="Output">
          <Json value={model.event(state.event)?.data.output} label={`Event ${state.event}`} maxHeight={420} />
        </Section>
      )}
      {notes && notes.length > 0 && (
        <Section title="How it decided">
          <Json value={notes} label="Rules" />
        </Section>
      )}
      {data && (
        <Section title="Idempotency key">
          <span className="row">
            <code className="truncate grow">{data.idempotency_key}</code>
            <CopyButton text={data.idempotency_key} />
          </span>
        </Section>
      )}
    </>
  );
}

function Facts({ model, node, state, join }: { model: RunModel; node: GraphNode; state: InstanceState; join: Join | null }) {
  const token = state.place >= 0 ? model.cursor.tokens[state.place] : undefined;
  const facts: [string, ReactNode][] = [["Type", node.handler ? <>{node.type} · <code>{node.handler}</code></> : node.type]];
  if (node.loop) facts.push(["Loop", <>back to {node.loop.entry} while <code>{node.loop.condition}</code>, {node.loop.max_iterations} times at most</>]);
  if (state.reason) facts.push(["Because", REASONS[state.reason] ?? state.reason]);
  if (state.startedAt !== null) {
    facts.push(["Started", <Time at={state.startedAt} />]);
    facts.push([state.endedAt === null ? (GOING_ON[state.status] ?? "So far") : "Took", <Duration ms={state.endedAt === null ? null : state.endedAt - state.startedAt} since={state.waiting?.since ?? state.startedAt} />]);
  }
  if (join) {
    const sources = [...sourcesOf(join)].slice(0, 20).map(([source, isLive]) => (isLive ? source : `${source} (skipped)`));
    facts.push(["Arrived", `${join.live} of ${join.need || join.total} needed${join.skipped ? `, ${join.skipped} skipped` : ""}${sources.length ? `: ${sources.join(", ")}` : ""}`]);
  }
  if (node.queue && node.queue !== "default") facts.push(["Queue", <code>{node.queue}</code>]);
  if (token?.session) facts.push(["Worker", <WorkerName session={token.session} />]);
  if (token?.decidedBy || token?.decided) facts.push(["Decided", `${token.decided}${token.decidedBy ? ` by ${token.decidedBy}` : ""}${token.decidedWhy ? `: ${token.decidedWhy}` : ""}`]);
  return (
    <dl className="facts">
      {facts.map(([label, value]) => (
        <div key={label}>
          <dt>{label}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function Actions({ model, name, state, onAsk }: { model: RunModel; name: string; state: InstanceState; onAsk: (asked: Asked) => void }) {
  if (!model.isLive) return null;
  const offered = nodeActions(model.history.run.status, state.status);
  if (offered.length === 0) return null;
  return (
    <div className="row node-actions">
      {offered.map((action) => (
        <Button key={action} onClick={() => onAsk({ action, node: name })}>
          {ACTIONS[action].does}…
        </Button>
      ))}
    </div>
  );
}

function Waits({ model, name, state, onAsk }: { model: RunModel; name: string; state: InstanceState; onAsk: (asked: Asked) => void }) {
  const { waiting } = state;
  if (!waiting) return null;
  const data = model.event(waiting.event)?.data.data;
  return (
    <Section title={`Waits for ${waitName(waiting)}`}>
      <p className="muted">
        <Time at={waiting.since} word="since" />
        {waiting.until !== null && (
          <>
            ; due <Time at={waiting.until} word="at" />
          </>
        )}
      </p>
      {waiting.kind === "approval" && <Link to={`/approvals/${encodeURIComponent(approvalOf(waiting.key))}`}>Open the approval</Link>}
      {waiting.kind === "signal" && model.isLive && <Button onClick={() => onAsk({ action: "signal", node: name, name: waiting.key })}>Send the signal…</Button>}
      {data != null && <Json value={data} label="Data" />}
    </Section>
  );
}

/** The id of what is asked: the key of the wait has more behind it once somebody has decided. */
const approvalOf = (key: string): string => key.split("#")[0]!;

export const Section = ({ title, children }: { title: ReactNode; children: ReactNode }) => (
  <section className="section">
    <h3>{title}</h3>
    {children}
  </section>
);

/** What an error says about its causes, the nearest first. */
export function causesOf(error: Record<string, unknown>): string[] {
  const found: string[] = [];
  for (let one = error.cause; one && found.length < 8; one = typeof one === "object" ? (one as Record<string, unknown>).cause : null) {
    if (typeof one === "string") found.push(one);
    else {
      const { type, message, code } = one as Record<string, unknown>;
      found.push([type ?? code, message].filter(Boolean).join(": "));
    }
  }
  return found;
}
