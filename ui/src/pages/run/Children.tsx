import { useState } from "react";
import { get } from "../../api/client.ts";
import type { Run } from "../../api/types.ts";
import { useQuery } from "../../api/useQuery.ts";
import { Duration, StatusDot } from "../../components/index.ts";
import type { Scope } from "../../fold/scope.ts";
import { showCount } from "../../lib/format.ts";
import { Link } from "../../lib/router.tsx";
import { useChildren } from "./children.ts";
import type { RunModel } from "./model.ts";
import { Section } from "./NodePanel.tsx";

const SHOWN = 100;

/** The child runs that a node has started: each linked, and open to its nodes. */
export function Children({ model, node, scope }: { model: RunModel; node: string; scope: Scope | null }) {
  const { own: all, hasOlder } = useChildren(model, node);
  const own = all.filter((run) => scope === null || run.parent_scope.join(".") === scope.join("."));
  if (own.length === 0 && !hasOlder) return null;
  return (
    <Section title={own.length === 1 ? "Child run" : `Child runs: ${hasOlder ? "the newest " : ""}${showCount(own.length)}`}>
      {own.slice(0, SHOWN).map((run) => (
        <Child key={run.run_id} id={run.run_id} workflow={run.workflow} status={run.status} seq={run.seq} ms={run.duration_ms} scope={run.parent_scope} />
      ))}
      {(own.length > SHOWN || hasOlder) && <Link to={`/runs?q=parent:${model.id}`}>All child runs</Link>}
    </Section>
  );
}

interface ChildProps {
  id: string;
  workflow: string;
  status: string;
  seq: number;
  ms: number | null;
  scope: readonly number[];
}

function Child({ id, workflow, status, seq, ms, scope }: ChildProps) {
  const [open, setOpen] = useState(false);
  const { data } = useQuery(open ? id : null, (signal) => get<Run>("/runs/{run_id}", { path: { run_id: id }, signal }), seq);
  return (
    <div className="attempt">
      <div className="attempt-head">
        <button type="button" className="json-toggle" aria-expanded={open} aria-label={`Nodes of ${workflow}`} onClick={() => setOpen(!open)}>
          {open ? "▾" : "▸"}
        </button>
        <StatusDot status={status} />
        <Link to={`/runs/${id}`} className="truncate grow">
          {workflow}
          {scope.length > 0 && <span className="muted"> [{scope.join(".")}]</span>}
        </Link>
        <Duration ms={ms} />
      </div>
      {open && data && (
        <div className="attempt-body">
          {Object.entries(data.nodes).map(([name, node]) => (
            <Link key={name} to={`/runs/${id}?node=${encodeURIComponent(name)}`} className="row">
              <StatusDot status={node.status} />
              <span className="truncate">{name}</span>
            </Link>
          ))}
        </div>
      )}
    </div>
  );
}
