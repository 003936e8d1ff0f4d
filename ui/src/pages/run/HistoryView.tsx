import { useDeferredValue, useMemo, useState } from "react";
import { Button, CopyButton, Icon, Json, Rows, SplitPane, Time } from "../../components/index.ts";
import { eventStatus } from "../../fold/meanings.ts";
import { authorOf, decodeScope, showScope } from "../../fold/scope.ts";
import type { RunEvent } from "../../fold/types.ts";
import { showCount, showDuration } from "../../lib/format.ts";
import { useQueryParam } from "../../lib/router.tsx";
import type { RunModel } from "./model.ts";
import "./timeline.css";

/** An event, or the events of one node together. */
type HistoryRow = { event: RunEvent; isInner: boolean } | { name: string; events: RunEvent[]; isOpen: boolean };

/** Every event, raw or by node, with search; each has an address of its own. */
export function HistoryView({ model, onMove }: { model: RunModel; onMove: (at: number | null) => void }) {
  const [text, setText] = useQueryParam("find");
  const [chosen, setChosen] = useQueryParam("event");
  const [order, setOrder] = useQueryParam("order");
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set());
  const words = useDeferredValue(text.toLowerCase());
  const { events, begin } = model.history;
  const count = events.length;
  const found = useMemo(() => (words ? events.filter((one) => textOf(one).includes(words)) : events.slice()), [events, count, words]);
  const rows = useMemo(
    () => (order === "grouped" ? group(found, opened) : found.map((event): HistoryRow => ({ event, isInner: false }))),
    [found, order, opened],
  );
  const event = chosen ? model.event(Number(chosen)) : null;
  const at = useMemo(() => (event ? rows.findIndex((row) => "event" in row && row.event === event) : -1), [rows, event]);
  const toggle = (name: string): void => {
    const next = new Set(opened);
    if (!next.delete(name)) next.add(name);
    setOpened(next);
  };
  const side = event && (
    <div className="section" style={{ display: "grid", gap: 12 }}>
      <div className="row">
        <h2 className="grow mono truncate">
          {event.seq} {event.type}
        </h2>
        <CopyButton text={() => location.href} label="Copy the address of this event" />
        <Button kind="plain" icon="close" aria-label="Close" onClick={() => setChosen("")} />
      </div>
      <p className="muted">
        <Time at={event.at} />
        {event.cause && (
          <>
            {" "}
            · because of{" "}
            <button type="button" className="chip" onClick={() => setChosen(String(event.cause))}>
              event {event.cause}
            </button>
          </>
        )}
      </p>
      <span className="row">
        <Button disabled={event.seq <= 1} onClick={() => setChosen(String(event.seq - 1))}>
          Before
        </Button>
        <Button disabled={event.seq >= count} onClick={() => setChosen(String(event.seq + 1))}>
          After
        </Button>
        <Button onClick={() => onMove(event.seq)}>Show the run then</Button>
      </span>
      <Json value={event.data} label="Data" maxHeight={520} />
    </div>
  );
  return (
    <SplitPane name="history" side={side} width={440}>
      <div className="filter-row">
        <label className="search">
          <Icon name="search" />
          <input className="field" placeholder="Find in the history: a type, a node, any value" aria-label="Find in the history" value={text} onChange={(change) => setText(change.target.value)} />
        </label>
        <button type="button" className="chip" aria-pressed={order === "grouped"} onClick={() => setOrder(order === "grouped" ? "" : "grouped")}>
          By node
        </button>
        <span className="muted nums">{showCount(found.length)} events</span>
      </div>
      <Rows
        rows={rows}
        height={28}
        label="History"
        follow={at < 0 ? null : at}
        row={(row, top) =>
          "event" in row ? (
            <button
              key={row.event.seq}
              type="button"
              className="event-row"
              style={{ top }}
              data-status={eventStatus(row.event.type)}
              data-chosen={chosen === String(row.event.seq) || undefined}
              data-later={row.event.seq > model.cursor.seq || undefined}
              data-inner={row.isInner || undefined}
              onClick={() => setChosen(String(row.event.seq))}
            >
              <span className="muted nums">{row.event.seq}</span>
              <span className="muted nums">+{showDuration(Date.parse(row.event.at) - begin)}</span>
              <EventType type={row.event.type} />
              <Summary event={row.event} />
            </button>
          ) : (
            <button key={row.name} type="button" className="event-row" data-group data-status={eventStatus(row.events.at(-1)!.type)} style={{ top }} aria-expanded={row.isOpen} onClick={() => toggle(row.name)}>
              <span>{row.isOpen ? "▾" : "▸"}</span>
              <span className="muted nums">+{showDuration(Date.parse(row.events[0]!.at) - begin)}</span>
              <span className="event-type">
                <span className="dot" />
                <b className="truncate">{row.name}</b>
              </span>
              <span className="truncate muted">
                {row.events.length === 1 ? "1 event" : `${row.events.length} events`} · {row.events.at(-1)!.type}
                {row.events.length > 1 && ` · ${showDuration(Date.parse(row.events.at(-1)!.at) - Date.parse(row.events[0]!.at))}`}
              </span>
            </button>
          )
        }
      />
    </SplitPane>
  );
}

/** Events of one node together, in the order of their first ones; those of the run itself come first. */
function group(events: readonly RunEvent[], opened: ReadonlySet<string>): HistoryRow[] {
  const groups = new Map<string, RunEvent[]>();
  for (const event of events) {
    const name = typeof event.data.node === "string" ? authorOf(event.data.node) : "the run";
    const known = groups.get(name);
    if (known) known.push(event);
    else groups.set(name, [event]);
  }
  return [...groups].flatMap(([name, own]): HistoryRow[] => {
    const isOpen = opened.has(name);
    return [{ name, events: own, isOpen }, ...(isOpen ? own.map((event) => ({ event, isInner: true })) : [])];
  });
}

function whereOf({ data }: RunEvent): string {
  return typeof data.node === "string" ? authorOf(data.node) + showScope(decodeScope(String(data.scope ?? ""))) : "";
}

const EventType = ({ type }: { type: string }) => (
  <span className="event-type">
    <span className="dot" />
    <code className="truncate">{type}</code>
  </span>
);

function Summary({ event }: { event: RunEvent }) {
  const { data } = event;
  const error = (data.error as { message?: string } | null | undefined)?.message;
  const where = whereOf(event);
  const what = error ?? data.reason ?? data.why ?? data.key ?? data.name;
  return (
    <span className="truncate">
      {where}
      {where && what ? " · " : ""}
      {what ? <span className={error ? "run-error" : "muted"}>{String(what)}</span> : null}
    </span>
  );
}

const texts = new WeakMap<RunEvent, string>();

function textOf(event: RunEvent): string {
  let text = texts.get(event);
  if (text === undefined) {
    text = `${event.seq} ${event.type} ${JSON.stringify(event.data)}`.toLowerCase();
    texts.set(event, text);
  }
  return text;
}
