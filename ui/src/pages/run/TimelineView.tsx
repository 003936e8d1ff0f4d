import { useMemo } from "react";
import { Rows, StatusDot } from "../../components/index.ts";
import { authorOf, decodeScope, showScope } from "../../fold/scope.ts";
import type { Segment } from "../../fold/types.ts";
import { statusOf } from "../../fold/view.ts";
import { useNow } from "../../lib/clock.ts";
import { showDuration } from "../../lib/format.ts";
import type { RunModel } from "./model.ts";

const ROW = 28;
const KINDS: readonly [Segment["kind"], string][] = [
  ["queued", "in the queue"],
  ["running", "running"],
  ["backoff", "pause before a retry"],
  ["waiting", "waiting for something outside"],
  ["held", "with a worker that was lost"],
];

/** Each instance as a bar: where its time went. */
export function TimelineView({ model, chosen, onChoose }: { model: RunModel; chosen: string; onChoose: (id: string) => void }) {
  const { history, cursor } = model;
  const now = useNow();
  const begin = history.begin;
  const end = Math.max(model.isOver ? history.end : now, begin + 1);
  const limit = model.isLive ? end : cursor.time;
  const count = history.places.length;
  const places = useMemo(() => history.places.flatMap(({ node }, place) => (node.includes("$") && !node.endsWith("$item") && !node.endsWith("$undo") ? [] : [place])), [history, count]);
  const shown = places.filter((place) => cursor.tokens[place] !== undefined);
  const percent = (time: number): string => `${((time - begin) / (end - begin)) * 100}%`;
  return (
    <>
      <div className="legend">
        {KINDS.map(([kind, label]) => (
          <span key={kind}>
            <i className="segment" data-kind={kind} data-status="running" /> {label}
          </span>
        ))}
      </div>
      <Rows
        rows={shown}
        height={ROW}
        label="Timeline"
        row={(place, top) => {
          const { node, scope } = history.places[place]!;
          const token = cursor.tokens[place]!;
          const status = statusOf(token, () => model.isHeld(place));
          const segments = history.segments[place]!.filter((one) => one.from <= limit);
          const taken = model.isLive ? model.held.get(place) : undefined;
          return (
            <button
              key={place}
              type="button"
              className="timeline-row"
              style={{ top }}
              data-chosen={authorOf(node) === chosen || undefined}
              onClick={() => onChoose(authorOf(node))}
            >
              <span className="row">
                <StatusDot status={status} />
                <span className="truncate">
                  {node.endsWith("$undo") ? `undo ${authorOf(node)}` : authorOf(node)}
                  <span className="muted">{showScope(decodeScope(scope))}</span>
                </span>
              </span>
              <span className="timeline-bars">
                {segments.map((one, at) => {
                  const until = Math.min(one.to ?? limit, limit);
                  const isRun = one.kind === "running";
                  return (
                    <span
                      key={at}
                      className="segment"
                      data-kind={one.kind}
                      data-status={isRun ? (one.failed ? "failed" : one.seq > cursor.seq ? "running" : "completed") : undefined}
                      title={`${KINDS.find(([kind]) => kind === one.kind)![1]}: ${showDuration(until - one.from)}`}
                      style={{ left: percent(one.from), width: `calc(${percent(until)} - ${percent(one.from)})` }}
                    />
                  );
                })}
                {taken !== undefined && (
                  <span className="segment" data-kind="running" data-status="running" style={{ left: percent(taken), width: `calc(${percent(limit)} - ${percent(taken)})` }} />
                )}
              </span>
              <span className="muted nums">{segments[0] ? showDuration((token.endedAt ?? limit) - segments[0].from) : ""}</span>
            </button>
          );
        }}
      />
    </>
  );
}
