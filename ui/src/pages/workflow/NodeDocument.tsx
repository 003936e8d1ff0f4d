import type { ReactNode } from "react";
import type { Workflow } from "../../api/types.ts";
import { Button, Icon, Source } from "../../components/index.ts";
import type { Graph, GraphEdge } from "../../fold/types.ts";
import { iconOf } from "../../graph/icons.ts";
import { Link } from "../../lib/router.tsx";
import { inOrder, toYaml } from "../../lib/yaml.ts";
import "../run/panel.css";
import { labelOf } from "../../graph/label.ts";

interface NodeDocumentProps {
  workflow: Workflow;
  graph: Graph;
  id: string;
  onChoose: (id: string) => void;
  onClose: () => void;
}

/** What a workflow says about one of its nodes: what it does, what comes before and after it, and its part of the document. */
export function NodeDocument({ workflow, graph, id, onChoose, onClose }: NodeDocumentProps) {
  const node = graph.nodes.find((one) => one.id === id);
  const nodes = (workflow.document?.nodes ?? []) as unknown as Record<string, unknown>[];
  const own = nodes.find((one) => one.id === id);
  const facts: [string, ReactNode][] = [];
  const ways = (edges: readonly GraphEdge[], end: "from" | "to"): ReactNode => <Ways edges={edges} end={end} onChoose={onChoose} />;
  if (node) {
    const { type, handler, child, loop, queue, max_attempts } = node;
    facts.push(["Type", handler ? <>{type} · <code>{handler}</code></> : type]);
    if (child) facts.push(["Runs", <Link to={`/workflows/${encodeURIComponent(child)}`}>{child}</Link>]);
    if (loop) facts.push(["Loop", <>back to {loop.entry} while <code>{loop.condition}</code>, {loop.max_iterations} times at most</>]);
    if (max_attempts > 1) facts.push(["Attempts", `${max_attempts} at most`]);
    if (queue && queue !== "default") facts.push(["Queue", <code>{queue}</code>]);
    if (node.has_compensator) facts.push(["Undo", "it can be undone"]);
    const forward = graph.edges.filter((edge) => !edge.roles.includes("back"));
    const before = forward.filter((edge) => edge.to === id);
    const after = forward.filter((edge) => edge.from === id);
    if (before.length) facts.push(["Comes after", ways(before, "from")]);
    if (after.length) facts.push(["Leads to", ways(after, "to")]);
  }
  return (
    <div>
      <header className="section">
        <div className="row">
          {node && <Icon name={iconOf(node.type)} />}
          <h2 className="grow truncate">{id}</h2>
          <Button kind="plain" icon="close" aria-label="Close" onClick={onClose} />
        </div>
        {typeof own?.description === "string" && <p className="muted">{own.description}</p>}
        <dl className="facts">
          {facts.map(([label, value]) => (
            <div key={label}>
              <dt>{label}</dt>
              <dd>{value}</dd>
            </div>
          ))}
        </dl>
      </header>
      <div className="section">
        <h3>Document</h3>
        {own ? <Source text={toYaml(inOrder(own)).trimEnd()} language="yaml" label={`Document of ${id}`} /> : <p className="muted">{node ? "It was made by the compiler, and is not in the document." : "There is no such node in this version."}</p>}
      </div>
    </div>
  );
}

function Ways({ edges, end, onChoose }: { edges: readonly GraphEdge[]; end: "from" | "to"; onChoose: (id: string) => void }) {
  return (
    <ul className="node-ways">
      {edges.map((edge) => {
        const label = labelOf(edge);
        return (
          <li key={`${edge[end]} ${label}`}>
            <button type="button" className="link-button" onClick={() => onChoose(edge[end])}>
              {edge[end]}
            </button>
            {label && (edge.rules.length ? <code> if {label}</code> : <span className="muted"> {WAYS[label] ?? label}</span>)}
          </li>
        );
      })}
    </ul>
  );
}

const WAYS: Record<string, string> = { reject: "if rejected", error: "if it fails", timeout: "if the time is over" };
