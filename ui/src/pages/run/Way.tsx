import type { EdgeProps } from "@xyflow/react";
import { memo, use } from "react";
import { get } from "../../api/client.ts";
import type { Explanation } from "../../api/types.ts";
import { useQuery } from "../../api/useQuery.ts";
import type { GraphEdge } from "../../fold/types.ts";
import { curve, loop } from "../../graph/path.ts";
import { cut, labelOf } from "../../graph/label.ts";
import type { FlowEdge } from "./drawing.ts";
import { GraphContext, type GraphModel } from "./graphContext.ts";
import { useNodeState } from "./model.ts";
import { operandsOf, type Decision } from "./Why.tsx";

const LABEL_ABOVE = 9;
const LABEL_LINE = 13;
const LABEL_SLOT = 13;

/** An edge. One of a branch shows its rule and, once taken, the values that decided. */
export const Way = memo(({ source, target, sourceX, sourceY, targetX, targetY, data }: EdgeProps<FlowEdge>) => {
  const { model, chosen, asksAll } = use(GraphContext)!;
  const from = useNodeState(model, source);
  const to = useNodeState(model, target);
  const taken = from?.event !== undefined && from.event > 0 && to !== null && to.place >= 0 && to.status !== "SKIPPED";
  const { edge, role, points, slot } = data!;
  const won = taken && role === "branch";
  const values = useValues(model, won && (asksAll || chosen === source || chosen === target) ? source : "", from?.event ?? 0, edge);
  const [begin, end] = [{ x: sourceX, y: sourceY }, { x: targetX, y: targetY }];
  const path = role === "back" ? loop(begin, end) : curve([begin, ...points, end]);
  const label = labelOf(edge);
  const middle = { x: targetX, y: targetY - LABEL_ABOVE - slot * LABEL_SLOT - (values ? LABEL_LINE : 0) };
  return (
    <>
      <path className="edge" data-role={role} data-taken={taken || undefined} data-won={won || undefined} d={path} />
      {label && (
        <text className="edge-label" data-won={won || undefined} x={middle.x} y={middle.y} textAnchor="middle">
          <title>{values ? `${label}\n${values}` : label}</title>
          <tspan x={middle.x}>{cut(label)}</tspan>
          {values && (
            <tspan className="edge-values" x={middle.x} dy={LABEL_LINE}>
              {cut(values)}
            </tspan>
          )}
        </text>
      )}
    </>
  );
});

/** The values with which a branch has decided for an edge, as the server explains it. */
function useValues(model: GraphModel, source: string, event: number, edge: GraphEdge): string {
  const path = { run_id: model.id, node: source };
  const { data } = useQuery(source ? `${source} ${event}` : null, (signal) => get<Explanation>("/runs/{run_id}/why/{node}", { path, signal }));
  const decisions = (data?.details.decisions ?? []) as Decision[];
  const tried = decisions.find((one) => one.node === source)?.rules ?? [];
  // An edge that is taken if no rule fits shows what the rules have seen.
  const deciding = edge.rules.length ? tried.filter((rule) => rule.result) : tried;
  return deciding.map(operandsOf).filter(Boolean).join(", ");
}
