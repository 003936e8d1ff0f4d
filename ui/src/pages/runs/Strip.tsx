import { useEffect, useRef, useState, type PointerEvent } from "react";
import { get } from "../../api/client.ts";
import type { Shape } from "../../api/types.ts";
import { useQuery } from "../../api/useQuery.ts";
import { Button, statusKey } from "../../components/index.ts";
import { showCount, showLocal } from "../../lib/format.ts";
import { useFeed } from "../../live/feed.ts";
import type { Filter } from "./list.ts";

type Histogram = Shape<"Histogram">;

const BUCKETS = 96;
const HEIGHT = 44;
/** Between two questions about what goes on. */
const PAUSE = 4000;
/** From the bottom up. */
const ORDER = ["COMPLETED", "CANCELLED", "FAILED", "COMPENSATING", "PAUSED", "PENDING", "RUNNING"];
const HOUR = 3_600_000;
const WINDOWS: Record<string, number> = { "10m": HOUR / 6, "1h": HOUR, "6h": 6 * HOUR, "1d": 24 * HOUR, "7d": 168 * HOUR, "30d": 720 * HOUR };

interface StripProps {
  filter: Filter;
  /** When the oldest run of the list's first page was created; null: there is none yet. */
  oldest: string | null;
  onZoom: (since: string, until: string) => void;
}

const windowOf = (ms: number): string => Object.keys(WINDOWS).find((name) => WINDOWS[name]! >= ms) ?? "30d";

/** What happened over time, coloured by result. Dragging over a part zooms in: the list shows only these runs. */
export function Strip({ filter, oldest, onZoom }: StripProps) {
  // Until somebody chooses one, the window that has the runs of the list.
  const fitting = oldest === null ? "1d" : windowOf(Date.now() - Date.parse(oldest));
  const [round, setRound] = useState(0);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const query = { q: filter.q || null, since: filter.since || (filter.until ? null : fitting), until: filter.until || null, buckets: BUCKETS };
  const key = JSON.stringify(query);
  const { data } = useQuery(key, (signal) => get<Histogram>("/runs/histogram", { query, signal }), round);
  // Another filter does not empty the strip before its answer is there.
  const [kept, setKept] = useState<Histogram | null>(null);
  if (data && data !== kept) setKept(data);
  useFeed({
    onEvents: (events) => {
      if (!events.some((one) => one.type.startsWith("run."))) return;
      timer.current ??= setTimeout(() => {
        timer.current = undefined;
        setRound((before) => before + 1);
      }, PAUSE);
    },
    onReset: () => setRound((before) => before + 1),
  });
  useEffect(() => () => clearTimeout(timer.current), []);
  const chosen = filter.until ? "" : filter.since || fitting;
  return (
    <div className="strip">
      <div className="row strip-head">
        {Object.keys(WINDOWS).map((one) => (
          <button key={one} type="button" className="chip" aria-pressed={chosen === one} onClick={() => onZoom(filter.since === one ? "" : one, "")}>
            {one}
          </button>
        ))}
        {filter.until && <Button onClick={() => onZoom("", "")}>Zoom out</Button>}
        <span className="grow" />
        {kept && <Counts found={kept} />}
      </div>
      {kept ? <Bars found={kept} onZoom={onZoom} /> : <div style={{ height: HEIGHT }} />}
    </div>
  );
}

function Counts({ found }: { found: Histogram }) {
  return (
    <span className="row strip-counts nums">
      {ORDER.filter((status) => found.counts[status]).map((status) => (
        <span key={status} className="row">
          <span className="dot" data-status={statusKey(status)} />
          {showCount(found.counts[status]!)} {statusKey(status)}
        </span>
      ))}
      {!found.complete && <span className="muted">of the newest {showCount(found.counted)}</span>}
    </span>
  );
}

function Bars({ found, onZoom }: { found: Histogram; onZoom: (since: string, until: string) => void }) {
  const box = useRef<HTMLDivElement>(null);
  const [brush, setBrush] = useState<[number, number] | null>(null);
  const [from, to] = [Date.parse(found.from), Date.parse(found.to)];
  const most = Math.max(1, ...found.buckets.map(({ counts }) => sum(counts)));
  const partAt = (event: PointerEvent): number => {
    const { left, width } = box.current!.getBoundingClientRect();
    return Math.max(0, Math.min(1, (event.clientX - left) / width));
  };
  const iso = (part: number): string => new Date(from + part * (to - from)).toISOString();
  const release = (): void => {
    setBrush(null);
    if (!brush) return;
    const [begin, end] = brush[0] < brush[1] ? brush : [brush[1], brush[0]];
    if (end - begin > 0.01) onZoom(iso(begin), iso(end));
  };
  const width = 100 / found.buckets.length;
  return (
    <div
      ref={box}
      className="strip-bars"
      style={{ height: HEIGHT }}
      role="img"
      aria-label={`Runs from ${showLocal(from)} to ${showLocal(to)}: ${ORDER.filter((one) => found.counts[one]).map((one) => `${found.counts[one]} ${statusKey(one)}`).join(", ") || "none"}`}
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId);
        setBrush([partAt(event), partAt(event)]);
      }}
      onPointerMove={(event) => brush && setBrush([brush[0], partAt(event)])}
      onPointerUp={release}
      onPointerCancel={() => setBrush(null)}
    >
      {found.buckets.map((bucket, at) => {
        const total = sum(bucket.counts);
        if (total === 0) return null;
        const text = ORDER.filter((one) => bucket.counts[one]).map((one) => `${bucket.counts[one]} ${statusKey(one)}`);
        return (
          <div key={at} className="strip-bar" style={{ left: `${at * width}%`, width: `calc(${width}% - 1px)`, height: `${Math.max(6, (total / most) * 100)}%` }} title={`${showLocal(Date.parse(bucket.from))}\n${text.join("\n")}`}>
            {ORDER.map((one) => (bucket.counts[one] ? <span key={one} data-status={statusKey(one)} style={{ flex: bucket.counts[one] }} /> : null))}
          </div>
        );
      })}
      {brush && <span className="brush" style={{ left: `${Math.min(...brush) * 100}%`, width: `${Math.abs(brush[1] - brush[0]) * 100}%` }} />}
      <span className="strip-time muted nums">{showLocal(from).slice(5, 16)}</span>
      <span className="strip-time muted nums" data-end>
        {showLocal(to).slice(5, 16)}
      </span>
    </div>
  );
}

const sum = (counts: Record<string, number>): number => Object.values(counts).reduce((a, b) => a + b, 0);
