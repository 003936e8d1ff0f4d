import { useState } from "react";
import type { Shape } from "../../api/types.ts";
import { Button, Diff, Duration, Json, StatusDot, Time } from "../../components/index.ts";
import { showDuration } from "../../lib/format.ts";
import { Link, useQueryParam } from "../../lib/router.tsx";
import type { RunModel } from "./model.ts";
import { Section } from "./NodePanel.tsx";
import { WorkerName } from "./WorkerName.tsx";

type Attempt = Shape<"Attempt">;

/** Every time that a worker had it: how long, which worker, what came of it, and what changed since the time before. */
export function Attempts({ model, attempts }: { model: RunModel; attempts: Attempt[] }) {
  const [open, setOpen] = useState<number | null>(null);
  const [, setTab] = useQueryParam("tab", "graph");
  const [, setEvent] = useQueryParam("event");
  const resultOf = (one: Attempt): unknown => {
    const data = one.event === null ? null : model.event(one.event)?.data;
    return data?.output === undefined ? { error: one.error ?? data?.error ?? null } : { output: data.output };
  };
  return (
    <Section title={`Attempts: ${attempts.length}`}>
      {attempts.map((one, at) => {
        const before = attempts[at - 1];
        return (
          <div key={at} className="attempt">
            <button type="button" className="attempt-head" aria-expanded={open === at} onClick={() => setOpen(open === at ? null : at)}>
              <StatusDot status={one.outcome === "lost" ? "dead" : one.outcome} />
              <span className="nums">{at + 1}</span>
              <span className="truncate grow">
                {one.error ? <span className="run-error">{String(one.error.message ?? one.error.code)}</span> : one.outcome}
              </span>
              {one.started_at && one.ended_at && <Duration ms={Date.parse(one.ended_at) - Date.parse(one.started_at)} />}
              {one.started_at && one.outcome === "running" && <Duration since={one.started_at} />}
            </button>
            {open === at && (
              <div className="attempt-body">
                <p className="muted">
                  {one.started_at ? <Time at={one.started_at} /> : "not begun"}
                  {one.ready_at && one.started_at && <> · {showDuration(Math.max(0, Date.parse(one.started_at) - Date.parse(one.ready_at)))} in the queue</>}
                  {one.session && (
                    <>
                      {" "}
                      · worker <WorkerName session={one.session} name={one.worker} />
                    </>
                  )}
                  {one.lease_until && (
                    <>
                      {" "}
                      · leased <Time at={one.lease_until} word="until" />
                    </>
                  )}
                </p>
                {one.error && <Json value={one.error} label="Error" />}
                {before && one.event !== null && (
                  <>
                    <p className="muted">Changed since attempt {at}:</p>
                    <Diff before={resultOf(before)} after={resultOf(one)} />
                  </>
                )}
                {one.event !== null && (
                  <Button
                    kind="plain"
                    onClick={() => {
                      setEvent(String(one.event));
                      setTab("history", true);
                    }}
                  >
                    Event {one.event}
                  </Button>
                )}
              </div>
            )}
          </div>
        );
      })}
    </Section>
  );
}

/** What a durable function or an agent has done, step by step. */
export function Steps({ steps }: { steps: Record<string, unknown>[] }) {
  return (
    <Section title={`Steps: ${steps.length}`}>
      {steps.map((step, at) => (
        <details key={at} className="attempt">
          <summary className="attempt-head">
            <StatusDot status={String(step.status)} />
            <span className="nums">{at + 1}</span>
            <span className="truncate grow">
              {String(step.name)} <span className="muted">{String(step.kind)}</span>
            </span>
            {typeof step.attempts === "number" && step.attempts > 1 && <span className="node-count">×{step.attempts}</span>}
            {typeof step.duration_ms === "number" && <span className="nums muted">{showDuration(step.duration_ms)}</span>}
          </summary>
          <div className="attempt-body">
            {typeof step.child === "string" && step.child && <Link to={`/runs/${step.child}`}>Open the child run</Link>}
            {step.input != null && <Json value={step.input} label="Input" maxHeight={200} />}
            {step.output != null && <Json value={step.output} label="Output" maxHeight={240} />}
            {step.error != null && <Json value={step.error} label="Error" maxHeight={200} />}
          </div>
        </details>
      ))}
    </Section>
  );
}
