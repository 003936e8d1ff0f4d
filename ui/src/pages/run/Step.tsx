import { Handle, Position, type NodeProps } from "@xyflow/react";
import { memo, use } from "react";
import { Icon, statusKey } from "../../components/index.ts";
import type { GraphNode, NodeState, NodeStatus } from "../../fold/types.ts";
import { iconOf } from "../../graph/icons.ts";
import { showCount, showDuration } from "../../lib/format.ts";
import type { StepNode } from "./drawing.ts";
import { GraphContext } from "./graphContext.ts";
import { Inside } from "./Inside.tsx";
import { useMark, useNodeState } from "./model.ts";

/** Whether there is something inside a node to be seen: its rounds, its items, its child runs. */
export const canOpen = (node: GraphNode, state: NodeState | null): boolean => node.foreach || node.child !== null || (state?.instances ?? 0) > 1;

/** A node of the graph; an open one shows what is inside it. */
export const Step = memo(({ data: { node, isOpen }, width, height }: NodeProps<StepNode>) => {
  const { model, run, chosen, onChoose, onOpen } = use(GraphContext)!;
  const state = useNodeState(model, node.id);
  const status = statusKey(state?.status ?? "PENDING");
  const mark = useMark(model, node.id);
  const opens = run !== null && canOpen(node, state);
  return (
    <>
      <Handle type="target" position={Position.Top} />
      <Handle type="target" position={Position.Right} id="side" />
      <div className="node-frame" data-open={isOpen || undefined} style={isOpen ? { width, height } : undefined}>
        <button
          type="button"
          className="node"
          data-status={run ? (state?.undo ? "undone" : status) : undefined}
          data-declared={!run || undefined}
          data-node={node.id}
          data-mark={mark || undefined}
          data-several={(node.foreach && !isOpen) || undefined}
          data-opens={opens || undefined}
          data-chosen={chosen === node.id || undefined}
          onClick={() => onChoose(node.id)}
        >
          {!run && <Icon name={iconOf(node.type)} />}
          <span className="node-name">
            <span className="truncate grow">{node.is_output ? "output" : node.id}</span>
            {run && <span className="visually-hidden">{status}</span>}
            {state && state.attempts > 1 && <span className="node-count">×{state.attempts}</span>}
            {run && node.child && <Icon name="workflows" />}
            {!run && node.loop && <Icon name="loop" />}
          </span>
          <span className="node-line">{state ? <Line node={node} state={state} /> : run ? node.type : <span className="truncate">{aboutOf(node)}</span>}</span>
        </button>
        {opens && (
          <button type="button" className="node-toggle" aria-expanded={isOpen} aria-label={isOpen ? `Close ${node.id} in the graph` : `Open ${node.id} in the graph`} onClick={() => onOpen(node.id)}>
            <Icon name={isOpen ? "down" : "right"} />
          </button>
        )}
        {isOpen && run && <Inside model={run} node={node} />}
      </div>
      <Handle type="source" position={Position.Bottom} />
      <Handle type="source" position={Position.Right} id="side" />
    </>
  );
});

/** What a node does, as it is declared: `charge`, `runs order`, `each · charge`. */
function aboutOf({ type, handler, child, foreach, loop, need }: GraphNode): string {
  const does = child ? `runs ${child}` : (handler ?? type);
  return [foreach && "each", does, loop && `${loop.max_iterations} rounds at most`, need > 1 && `needs ${need}`].filter(Boolean).join(" · ");
}

function joinText({ live, skipped, need, total }: NonNullable<NodeState["join"]>): string {
  if (need > 0 && need < total) return `${live} of ${need} needed, ${total} expected`;
  return `${live + skipped} of ${total} arrived`;
}

/** What a wait is for, in a word. */
export function waitName({ kind, key }: { kind: string; key: string }): string {
  if (kind === "hold") return "a decision";
  return kind === "signal" && key ? `signal ${key}` : kind;
}

const ORDER: readonly NodeStatus[] = ["COMPLETED", "FAILED", "RUNNING", "WAITING", "QUEUED", "SKIPPED", "CANCELLED"];

function Line({ node, state }: { node: GraphNode; state: NodeState }) {
  if (state.instances > 1 || (node.foreach && state.instances > 0)) {
    const total = Math.max(state.items ?? 0, state.instances);
    const done = (state.counts.COMPLETED ?? 0) + (state.counts.SKIPPED ?? 0) + (state.counts.FAILED ?? 0) + (state.counts.CANCELLED ?? 0);
    return (
      <>
        {!node.foreach && <Icon name="loop" />}
        <span className="nums">
          {showCount(done)}/{showCount(total)}
        </span>
        <span className="node-bar">
          {ORDER.map((status) => {
            const count = state.counts[status];
            return count ? <span key={status} data-status={statusKey(status)} style={{ flex: count }} /> : null;
          })}
          {total > state.instances && <span data-status="pending" style={{ flex: total - state.instances }} />}
        </span>
      </>
    );
  }
  if (state.waiting) return <b className="truncate">waits for {waitName(state.waiting)}</b>;
  if (state.place < 0) {
    const { join } = state;
    if (join) return <>{joinText(join)}</>;
    return <span className="truncate">{node.handler ?? node.type}</span>;
  }
  if (state.startedAt !== null && state.endedAt !== null) {
    return (
      <>
        <span className="truncate">{node.handler ?? node.type}</span>
        <span className="nums">{showDuration(state.endedAt - state.startedAt)}</span>
      </>
    );
  }
  return <b>{statusKey(state.status)}</b>;
}

