import { useDeferredValue, useMemo, useState } from "react";
import { Icon, Json, Rows, SplitPane, Time, Button } from "../../components/index.ts";
import { authorOf, decodeScope, showScope } from "../../fold/scope.ts";
import type { RunEvent } from "../../fold/types.ts";
import { showDuration } from "../../lib/format.ts";
import { useQueryParam } from "../../lib/router.tsx";
import type { RunModel } from "./model.ts";

/** Every event, with search; each has an address of its own. */
export function HistoryView({ model, onMove }: { model: RunModel; onMove: (at: number | null) => void }) {
  const [text, setText] = useState("");
  const [chosen, setChosen] = useQueryParam("event");
  const words = useDeferredValue(text.toLowerCase());
  const { events, begin } = { events: model.history.events, begin: model.history.begin };
  const count = events.length;
  const shown = useMemo(() => (words ? events.filter((one) => textOf(one).includes(words)) : events.slice()), [events, count, words]);
  const event = chosen ? model.event(Number(chosen)) : null;
  const side = event && (
    <div className="section" style={{ display: "grid", gap: 12 }}>
      <div className="row">
        <h2 className="grow mono">
          {event.seq} {event.type}
        </h2>
        <Button onClick={() => onMove(event.seq)}>Show the run then</Button>
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
        <span className="muted nums">{shown.length} events</span>
      </div>
      <Rows
        rows={shown}
        height={28}
        label="History"
        row={(one, top) => (
          <button
            key={one.seq}
            type="button"
            className="event-row"
            style={{ top }}
            data-chosen={chosen === String(one.seq) || undefined}
            data-later={one.seq > model.cursor.seq || undefined}
            onClick={() => setChosen(String(one.seq))}
          >
            <span className="muted nums">{one.seq}</span>
            <span className="muted nums">+{showDuration(Date.parse(one.at) - begin)}</span>
            <span className="event-type truncate">{one.type}</span>
            <span className="truncate">{summaryOf(one)}</span>
          </button>
        )}
      />
    </SplitPane>
  );
}

function summaryOf({ data }: RunEvent): string {
  const where = typeof data.node === "string" ? authorOf(data.node) + showScope(decodeScope(String(data.scope ?? ""))) : "";
  const error = data.error as { message?: string } | null | undefined;
  const what = error?.message ?? data.reason ?? data.why ?? data.key ?? data.name ?? "";
  return [where, what].filter(Boolean).join(" · ");
}

const texts = new WeakMap<RunEvent, string>();

function textOf(event: RunEvent): string {
  let text = texts.get(event);
  if (text === undefined) {
    text = `${event.type} ${JSON.stringify(event.data)}`.toLowerCase();
    texts.set(event, text);
  }
  return text;
}
