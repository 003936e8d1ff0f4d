import { use, useEffect, useMemo, useState } from "react";
import { get } from "../../api/client.ts";
import type { Run, RunRow, Shape } from "../../api/types.ts";
import { useQuery } from "../../api/useQuery.ts";
import { Button, Duration, MiniGraph, miniLayout, StatusDot, statusKey } from "../../components/index.ts";
import { decodeScope } from "../../fold/scope.ts";
import type { Graph, GraphNode, NodeStatus } from "../../fold/types.ts";
import { showCount } from "../../lib/format.ts";
import { Link, navigate } from "../../lib/router.tsx";
import { useFeed } from "../../live/feed.ts";
import { useChildren } from "./children.ts";
import { HEIGHT, type Size } from "./drawing.ts";
import { GraphContext } from "./graphContext.ts";
import { useNodeState, type RunModel } from "./model.ts";

const WIDTH = 300;
const ROW = 24;
/** Instances on a page. */
const PAGE = 8;
/** What filters them and what turns the pages. */
const BARS = 62;
const CHILD_HEAD = 34;
const CHILD_WIDTH_MAX = 560;
const CHILD_HEIGHT_MAX = 420;
/** A larger child has a page of its own. */
const CHILD_NODES_MAX = 400;

export const OPEN_SIZE: Size = { width: WIDTH, height: HEIGHT + BARS + PAGE * ROW };

/** What is inside a node: the rounds of a loop or the items of a foreach, and the graph of the child run that one of them started. */
export function Inside({ model, node }: { model: RunModel; node: GraphNode }) {
  const { onSize } = use(GraphContext)!;
  const state = useNodeState(model, node.id);
  const { own: children } = useChildren(model, node.child === null ? null : node.id);
  const [scope, setScope] = useState<string | null>(null);
  const [room, setRoom] = useState<Size>({ width: 0, height: 0 });
  const several = node.foreach || (state?.instances ?? 0) > 1;
  const child = children.find((run) => (several ? run.parent_scope.join(".") === scope : true)) ?? null;
  const rows = several ? Math.min(PAGE, Math.max(1, state?.items ?? 0, state?.instances ?? 0)) : 0;
  const below = child ? room.height + CHILD_HEAD : several ? 0 : CHILD_HEAD;
  const width = Math.max(WIDTH, child ? room.width : 0);
  const height = HEIGHT + (several ? BARS + rows * ROW : 0) + below;
  useEffect(() => onSize(node.id, { width, height }), [onSize, node.id, width, height]);
  return (
    <div className="inside nowheel nopan">
      {several && <Items model={model} node={node} rows={rows} runs={children} shown={scope} onShow={(next) => setScope(next === scope ? null : next)} />}
      {child ? <Child key={child.run_id} run={child} onRoom={setRoom} /> : !several && <p className="inside-head muted">No child run yet.</p>}
    </div>
  );
}

interface ItemsProps {
  model: RunModel;
  node: GraphNode;
  rows: number;
  runs: readonly RunRow[];
  /** The scope of the instance whose child run is shown. */
  shown: string | null;
  onShow: (scope: string) => void;
}

function Items({ model, node, rows, runs, shown, onShow }: ItemsProps) {
  const { onChoose } = use(GraphContext)!;
  const state = useNodeState(model, node.id);
  const [page, setPage] = useState(0);
  const [status, setStatus] = useState<NodeStatus | null>(null);
  const all = useMemo(() => {
    const places = model.view!.places(node.id);
    return status === null ? places : places.filter((place) => model.statusAt(place) === status);
  }, [model, node.id, status, state]);
  const byScope = useMemo(() => new Map(runs.map((run) => [run.parent_scope.join("."), run])), [runs]);
  const counts = state && Object.keys(state.counts).length ? state.counts : state ? { [state.status]: state.instances } : {};
  const total = status === null ? Math.max(state?.items ?? 0, all.length) : all.length;
  const last = Math.max(0, Math.ceil(all.length / PAGE) - 1);
  const at = Math.min(page, last);
  const first = at * PAGE;
  return (
    <>
      <div className="inside-filter">
        {(Object.entries(counts) as [NodeStatus, number][]).map(([name, count]) => (
          <button
            key={name}
            type="button"
            className="chip"
            aria-pressed={status === name}
            aria-label={`${showCount(count)} ${statusKey(name)}`}
            title={statusKey(name)}
            onClick={() => {
              setStatus(status === name ? null : name);
              setPage(0);
            }}
          >
            <span className="dot" data-status={statusKey(name)} />
            <span className="nums">{showCount(count)}</span>
          </button>
        ))}
      </div>
      <div style={{ height: rows * ROW }}>
        {all.slice(first, first + PAGE).map((place) => {
          const token = model.cursor.tokens[place];
          if (!token) return null;
          const scope = decodeScope(model.history.places[place]!.scope).join(".");
          const run = byScope.get(scope);
          return (
            <div key={place} className="inside-row">
              <button type="button" className="inside-item" data-instance={scope} onClick={() => onChoose(node.id, scope)}>
                <StatusDot status={model.statusAt(place)} />
                <span className="nums">[{scope}]</span>
                <span className="truncate grow run-error">{token.error ? String(token.error.message ?? token.error.code ?? "") : ""}</span>
                {token.attempt > 1 && <span className="node-count">×{token.attempt}</span>}
                {run ? <Duration ms={run.duration_ms} since={run.created_at} /> : token.startedAt !== null && token.endedAt !== null && <Duration ms={token.endedAt - token.startedAt} />}
              </button>
              {run && <Button kind="plain" icon={shown === scope ? "down" : "right"} aria-expanded={shown === scope} aria-label={`The child run of [${scope}]`} onClick={() => onShow(scope)} />}
            </div>
          );
        })}
      </div>
      <div className="inside-pager">
        <span className="muted nums grow">
          {all.length ? `${showCount(first + 1)}–${showCount(Math.min(first + PAGE, all.length))} of ${showCount(total)}` : "none yet"}
          {status === null && total > all.length && all.length > 0 ? `, ${showCount(total - all.length)} not begun` : ""}
        </span>
        <Button kind="plain" icon="back" aria-label="Page before" disabled={at === 0} onClick={() => setPage(at - 1)} />
        <Button kind="plain" icon="right" aria-label="Next page" disabled={at === last} onClick={() => setPage(at + 1)} />
      </div>
    </>
  );
}

/** The graph of a child run, as it is now. Its nodes lead to its own page. */
function Child({ run, onRoom }: { run: RunRow; onRoom: (room: Size) => void }) {
  const path = { run_id: run.run_id };
  const graph = useQuery(run.run_id, (signal) => get<Shape<"Graph">>("/runs/{run_id}/graph", { path, signal })).data as unknown as Graph | null;
  const { data, reload } = useQuery(run.run_id, (signal) => get<Run>("/runs/{run_id}", { path, signal }));
  useFeed({ onEvents: (events) => events.some((one) => one.run_id === run.run_id) && reload(), onReset: reload });
  const layout = useMemo(() => (graph && graph.nodes.length <= CHILD_NODES_MAX ? miniLayout(graph) : null), [graph]);
  const statuses = useMemo(() => new Map(Object.entries(data?.nodes ?? {}).map(([id, one]) => [id, statusKey(one.status)])), [data]);
  const width = layout ? Math.min(CHILD_WIDTH_MAX, layout.width + 28) : 0;
  const height = layout ? Math.min(CHILD_HEIGHT_MAX, layout.height + 24) : 32;
  useEffect(() => onRoom({ width, height }), [onRoom, width, height]);
  return (
    <>
      <div className="inside-head">
        <StatusDot status={data?.status ?? run.status} />
        <Link to={`/runs/${run.run_id}`} className="truncate grow">
          {run.workflow}
        </Link>
        <Duration ms={data ? data.duration_ms : run.duration_ms} since={run.created_at} />
      </div>
      <div className="inside-child" style={{ height }}>
        {graph && layout ? (
          <MiniGraph graph={graph} layout={layout} statuses={statuses} label={`The graph of ${run.workflow}`} size={1} onChoose={(id) => navigate(`/runs/${run.run_id}?node=${encodeURIComponent(id)}`)} />
        ) : (
          graph && <Link to={`/runs/${run.run_id}`}>{showCount(graph.nodes.length)} nodes: open the run</Link>
        )}
      </div>
    </>
  );
}
