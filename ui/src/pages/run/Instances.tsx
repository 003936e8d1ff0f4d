import { useDeferredValue, useMemo, useState } from "react";
import { Duration, Rows, StatusDot, statusKey } from "../../components/index.ts";
import { decodeScope } from "../../fold/scope.ts";
import type { NodeStatus } from "../../fold/types.ts";
import { showCount } from "../../lib/format.ts";
import type { RunModel } from "./model.ts";
import { Section } from "./NodePanel.tsx";

const ROW = 28;
const SHOWN = 12;

/** All instances of a node: rounds of a loop, items of a foreach. However many there are, only those in sight are drawn. */
export function Instances({ model, id, onChoose }: { model: RunModel; id: string; onChoose: (scope: string) => void }) {
  const [text, setText] = useState("");
  const [status, setStatus] = useState<NodeStatus | null>(null);
  const wanted = useDeferredValue(text.trim());
  const { version } = model;
  const all = useMemo(() => model.view!.places(id), [model, id, version]);
  const counts = model.node(id)?.counts ?? {};
  const shown = useMemo(
    () =>
      status === null && !wanted
        ? all
        : all.filter((place) => (status === null || model.statusAt(place) === status) && (!wanted || scopeOf(model, place).includes(wanted))),
    [all, model, status, wanted],
  );
  return (
    <Section title={`Instances: ${showCount(all.length)}`}>
      <div className="row instances-filter">
        <input className="field" aria-label="Find an instance" placeholder="Number" inputMode="decimal" value={text} onChange={(event) => setText(event.target.value)} />
        {(Object.entries(counts) as [NodeStatus, number][]).map(([name, count]) => (
          <button key={name} type="button" className="chip" aria-pressed={status === name} onClick={() => setStatus(status === name ? null : name)}>
            <span className="dot" data-status={statusKey(name)} />
            {statusKey(name)} <span className="nums">{showCount(count)}</span>
          </button>
        ))}
      </div>
      <div className="instances" style={{ height: Math.min(SHOWN, Math.max(1, shown.length)) * ROW }}>
        {shown.length === 0 && <p className="muted">None like that.</p>}
        <Rows
          rows={shown}
          height={ROW}
          label="Instances"
          row={(place, top) => {
            const token = model.cursor.tokens[place];
            if (!token) return null;
            const scope = scopeOf(model, place);
            return (
              <button key={place} type="button" className="instance-row" style={{ top }} data-instance={scope} onClick={() => onChoose(scope)}>
                <StatusDot status={model.statusAt(place)} />
                <span className="nums">[{scope}]</span>
                <span className="truncate grow run-error">{token.error ? String(token.error.message ?? token.error.code ?? "") : ""}</span>
                {token.attempt > 1 && <span className="node-count">×{token.attempt}</span>}
                {token.startedAt !== null && token.endedAt !== null && <Duration ms={token.endedAt - token.startedAt} />}
              </button>
            );
          }}
        />
      </div>
    </Section>
  );
}

const scopeOf = (model: RunModel, place: number): string => decodeScope(model.history.places[place]!.scope).join(".");
