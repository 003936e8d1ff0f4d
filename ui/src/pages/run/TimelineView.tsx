import { useMemo, useRef, useState, type PointerEvent } from "react";
import { Button, Rows, StatusDot } from "../../components/index.ts";
import { criticalPath } from "../../fold/critical.ts";
import { authorOf, decodeScope, showScope } from "../../fold/scope.ts";
import type { Segment } from "../../fold/types.ts";
import { useNow } from "../../lib/clock.ts";
import { showCount, showDuration } from "../../lib/format.ts";
import { useQueryParam } from "../../lib/router.tsx";
import type { RunModel } from "./model.ts";
import "./timeline.css";
import { groupPlaces, readZoom, ticksOf, type TimelineRow } from "./timeline.ts";

const ROW = 28;
const KINDS: Record<Segment["kind"], string> = {
  queued: "in the queue",
  running: "running",
  backoff: "pause before a retry",
  waiting: "waiting for something outside",
  held: "with a worker that was lost",
};
const LEGEND: readonly { kind: Segment["kind"]; status?: string; label: string }[] = [
  { kind: "running", status: "completed", label: "ran" },
  { kind: "running", status: "failed", label: "failed" },
  { kind: "running", status: "running", label: "runs" },
  { kind: "queued", label: "in the queue" },
  { kind: "backoff", label: "before a retry" },
  { kind: "waiting", label: "waits" },
  { kind: "held", label: "worker lost" },
];

interface Scale {
  from: number;
  to: number;
  /** Up to here something is known. */
  limit: number;
}

/** Each instance as a bar: where its time went. Instances of one node are one row until somebody opens it. */
export function TimelineView({ model, chosen, onChoose }: { model: RunModel; chosen: string; onChoose: (id: string) => void }) {
  const { history, cursor, version } = model;
  const now = useNow();
  const [zoomText, setZoom] = useQueryParam("zoom");
  const [path, setPath] = useQueryParam("path");
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set());
  const begin = history.begin;
  const end = Math.max(model.isOver ? history.end : now, begin + 1);
  const zoom = readZoom(zoomText);
  const scale: Scale = { from: begin + (zoom?.[0] ?? 0), to: zoom ? begin + zoom[1] : end, limit: model.isLive ? end : cursor.time };
  const critical = useMemo(() => (path ? criticalPath(cursor) : null), [path, cursor, version]);
  const rows = useMemo(() => groupPlaces(history, cursor, opened, critical), [history, cursor, version, opened, critical]);
  const toggle = (node: string): void => {
    const next = new Set(opened);
    if (!next.delete(node)) next.add(node);
    setOpened(next);
  };
  return (
    <>
      <div className="legend">
        {LEGEND.map(({ kind, status, label }) => (
          <span key={label} {...(kind === "running" ? {} : { title: KINDS[kind] })}>
            <i className="segment" data-kind={kind} data-status={status} /> {label}
          </span>
        ))}
        <span className="grow" />
        <label className="row">
          <input type="checkbox" checked={path !== ""} onChange={(event) => setPath(event.target.checked ? "critical" : "")} />
          Critical path
        </label>
        {zoom && <Button onClick={() => setZoom("")}>All of it</Button>}
      </div>
      <Ruler scale={scale} begin={begin} onZoom={(from, to) => setZoom(`${Math.round(from - begin)}-${Math.round(to - begin)}`)} />
      <Rows
        rows={rows}
        height={ROW}
        label="Timeline"
        row={(row, top) => <Row key={`${row.node} ${row.place}`} model={model} row={row} top={top} scale={scale} critical={critical} isChosen={authorOf(row.node) === chosen} onChoose={onChoose} onToggle={toggle} />}
      />
    </>
  );
}

/** Times above the bars. Dragging over them zooms. */
function Ruler({ scale, begin, onZoom }: { scale: Scale; begin: number; onZoom: (from: number, to: number) => void }) {
  const bar = useRef<HTMLDivElement>(null);
  const [brush, setBrush] = useState<[number, number] | null>(null);
  const timeAt = (event: PointerEvent): number => {
    const { left, width } = bar.current!.getBoundingClientRect();
    return scale.from + Math.max(0, Math.min(1, (event.clientX - left) / width)) * (scale.to - scale.from);
  };
  const release = (): void => {
    setBrush(null);
    if (!brush) return;
    const [from, to] = brush[0] < brush[1] ? brush : [brush[1], brush[0]];
    if (to - from > (scale.to - scale.from) / 200) onZoom(from, to);
  };
  return (
    <div className="timeline-ruler">
      <span className="muted">Drag to zoom</span>
      <div
        ref={bar}
        className="timeline-bars"
        data-ruler
        onPointerDown={(event) => {
          event.currentTarget.setPointerCapture(event.pointerId);
          setBrush([timeAt(event), timeAt(event)]);
        }}
        onPointerMove={(event) => brush && setBrush([brush[0], timeAt(event)])}
        onPointerUp={release}
        onPointerCancel={() => setBrush(null)}
      >
        {ticksOf(scale.from - begin, scale.to - begin - (scale.to - scale.from) / 20).map((at) => (
          <span key={at} className="tick nums" style={{ left: percent(scale, begin + at) }}>
            {showDuration(at)}
          </span>
        ))}
        {brush && <span className="brush" style={{ left: percent(scale, Math.min(...brush)), width: `${(Math.abs(brush[1] - brush[0]) / (scale.to - scale.from)) * 100}%` }} />}
      </div>
      <span />
    </div>
  );
}

interface RowProps {
  model: RunModel;
  row: TimelineRow;
  top: number;
  scale: Scale;
  critical: Set<number> | null;
  isChosen: boolean;
  onChoose: (id: string) => void;
  onToggle: (node: string) => void;
}

function Row({ model, row, top, scale, critical, isChosen, onChoose, onToggle }: RowProps) {
  const { history, cursor } = model;
  const name = row.node.endsWith("$undo") ? `undo ${authorOf(row.node)}` : authorOf(row.node);
  const isDim = critical !== null && !row.isCritical;
  if (row.place < 0) {
    const state = model.node(authorOf(row.node));
    return (
      <div className="timeline-row" style={{ top }} data-chosen={isChosen || undefined} data-dim={isDim || undefined}>
        <span className="row">
          <StatusDot status={state?.status ?? "pending"} />
          <button type="button" className="timeline-name truncate" onClick={() => onChoose(authorOf(row.node))}>
            {name} <span className="muted nums">×{showCount(row.count)}</span>
          </button>
          <button type="button" className="json-toggle" aria-expanded={row.isOpen} aria-label={`Instances of ${name}`} onClick={() => onToggle(row.node)}>
            {row.isOpen ? "▾" : "▸"}
          </button>
        </span>
        <span className="timeline-bars">
          <Bar scale={scale} from={row.from} to={row.to ?? scale.limit} kind="running" status={statusName(state?.status)} title={`${showCount(row.count)} instances: ${showDuration((row.to ?? scale.limit) - row.from)}`} />
        </span>
        <span className="muted nums">{showDuration((row.to ?? scale.limit) - row.from)}</span>
      </div>
    );
  }
  const token = cursor.tokens[row.place];
  if (!token) return null;
  const segments = history.segments.all[row.place]!.filter((one) => one.from <= scale.limit);
  const taken = model.isLive ? model.held.get(row.place) : undefined;
  return (
    <button type="button" className="timeline-row" style={{ top }} data-chosen={isChosen || undefined} data-dim={isDim || undefined} data-critical={row.isCritical || undefined} onClick={() => onChoose(authorOf(row.node))}>
      <span className="row" style={{ paddingLeft: row.isInner ? 22 : 0 }}>
        <StatusDot status={model.statusAt(row.place)} />
        <span className="truncate">
          {row.isInner ? "" : name}
          <span className="muted">{showScope(decodeScope(history.places[row.place]!.scope))}</span>
        </span>
      </span>
      <span className="timeline-bars">
        {segments.map((one, at) => {
          const until = Math.min(one.to ?? scale.limit, scale.limit);
          const status = one.kind !== "running" ? undefined : one.failed ? "failed" : one.seq > cursor.seq ? "running" : "completed";
          return <Bar key={at} scale={scale} from={one.from} to={until} kind={one.kind} status={status} title={`${KINDS[one.kind]}: ${showDuration(until - one.from)}`} />;
        })}
        {taken !== undefined && <Bar scale={scale} from={taken} to={scale.limit} kind="running" status="running" title="running" />}
      </span>
      <span className="muted nums">{segments[0] ? showDuration((token.endedAt ?? scale.limit) - segments[0].from) : ""}</span>
    </button>
  );
}

const statusName = (status: string | undefined): string => (status ?? "pending").toLowerCase();

interface BarProps {
  scale: Scale;
  from: number;
  to: number;
  kind: Segment["kind"];
  status?: string | undefined;
  title: string;
}

function Bar({ scale, from, to, kind, status, title }: BarProps) {
  if (to < scale.from || from > scale.to) return null;
  const begin = Math.max(from, scale.from);
  const width = ((Math.min(to, scale.to) - begin) / (scale.to - scale.from)) * 100;
  return <span className="segment" data-kind={kind} data-status={status} title={title} style={{ left: `min(${percent(scale, begin)}, 100% - 2px)`, width: `${Math.max(0, width)}%` }} />;
}

const percent = ({ from, to }: Scale, time: number): string => `${((time - from) / (to - from)) * 100}%`;
