import { useMemo, useRef } from "react";
import { get } from "../../api/client.ts";
import type { Page, Shape, Workflow } from "../../api/types.ts";
import { useEvery, useQuery } from "../../api/useQuery.ts";
import { CodeBlock, Empty, Failure, Icon, Loading, Squares, Table, Time, type Column } from "../../components/index.ts";
import { showCount, showDuration } from "../../lib/format.ts";
import { useShortcuts } from "../../lib/keys.ts";
import { Link, navigate, useQueryParam } from "../../lib/router.tsx";
import "./workflows.css";

export type Statistics = Shape<"WorkflowStatistics">;

interface Row {
  name: string;
  workflow: Workflow | null;
  statistics: Statistics | null;
}

const leadsTo = (one: Row): string => (one.workflow ? `/workflows/${encodeURIComponent(one.name)}` : `/runs?q=${encodeURIComponent(`workflow:${one.name}`)}`);
export const openOf = (counts: Readonly<Record<string, number>>): number => ["PENDING", "RUNNING", "PAUSED", "COMPENSATING"].reduce((sum, one) => sum + (counts[one] ?? 0), 0);

export function Rate({ rate }: { rate: number | null }) {
  if (rate === null) return <span className="muted">–</span>;
  const text = rate === 1 ? "100 %" : `${Math.min(99.9, rate * 100).toFixed(rate > 0.99 ? 1 : 0)} %`;
  return (
    <span className="nums rate" data-tone={rate < 0.8 ? "red" : rate < 0.98 ? "orange" : "green"}>
      {text}
    </span>
  );
}

const Span = ({ ms }: { ms: number | null | undefined }) => <span className={ms === null || ms === undefined ? "muted" : "nums"}>{ms === null || ms === undefined ? "–" : showDuration(ms)}</span>;

const COLUMNS: readonly Column<Row>[] = [
  {
    id: "name",
    head: "Workflow",
    cell: (one) => (
      <span className="workflow-name">
        <span className="truncate">
          <Link to={leadsTo(one)}>{one.name}</Link>
          {one.workflow ? <span className="muted nums"> v{one.workflow.version}</span> : <span className="tag">not deployed</span>}
        </span>
        {one.workflow?.description && <span className="muted truncate">{one.workflow.description}</span>}
      </span>
    ),
  },
  { id: "last", head: "Last runs", width: "220px", minor: true, cell: (one) => (one.statistics?.newest.length ? <Squares runs={one.statistics.newest} /> : <span className="muted">none yet</span>) },
  { id: "rate", head: "Success", width: "84px", align: "right", cell: (one) => <Rate rate={one.statistics?.success_rate ?? null} /> },
  { id: "open", head: "Open", width: "72px", align: "right", minor: true, cell: (one) => <span className="nums">{one.statistics ? showCount(openOf(one.statistics.counts)) : "–"}</span> },
  { id: "p50", head: "p50", width: "92px", align: "right", minor: true, cell: (one) => <Span ms={one.statistics?.p50_ms} /> },
  { id: "p99", head: "p99", width: "92px", align: "right", minor: true, cell: (one) => <Span ms={one.statistics?.p99_ms} /> },
  { id: "deployed", head: "Deployed", width: "110px", align: "right", cell: (one) => <Time at={one.workflow?.created_at} /> },
];

export default function WorkflowsPage() {
  const [text, setText] = useQueryParam("q");
  const search = useRef<HTMLInputElement>(null);
  const workflows = useQuery("workflows", (signal) => get<Page<Workflow>>("/workflows", { query: { limit: 1000 }, signal }));
  const statistics = useQuery("statistics", (signal) => get<Page<Statistics>>("/statistics", { signal }));
  useEvery(5000, statistics.reload);
  useShortcuts([
    { keys: "/", label: "Find a workflow", run: () => search.current?.select() },
    { keys: "Escape", label: "Show all", run: () => setText("") },
  ]);
  const rows = useMemo((): Row[] => {
    const found = new Map<string, Row>();
    for (const one of workflows.data?.items ?? []) found.set(one.name, { name: one.name, workflow: one, statistics: null });
    for (const one of statistics.data?.items ?? []) found.set(one.workflow, { name: one.workflow, workflow: found.get(one.workflow)?.workflow ?? null, statistics: one });
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    return [...found.values()]
      .filter((one) => words.every((word) => `${one.name} ${one.workflow?.description ?? ""}`.toLowerCase().includes(word)))
      .sort((a, b) => Number(b.workflow !== null) - Number(a.workflow !== null) || a.name.localeCompare(b.name));
  }, [workflows.data, statistics.data, text]);
  return (
    <div className="page">
      <div className="page-head">
        <h1>Workflows</h1>
        <label className="search">
          <Icon name="search" />
          <input ref={search} className="field" spellCheck={false} aria-label="Find" placeholder="Name or description" value={text} onChange={(event) => setText(event.target.value)} />
          <kbd>/</kbd>
        </label>
      </div>
      <div className="page-body">
        {workflows.data ? (
          rows.length ? (
            <>
              <Table columns={COLUMNS} rows={rows} keyOf={(one) => one.name} onOpen={(one) => navigate(leadsTo(one))} label="Workflows" />
              <p className="muted page-pad">Success and durations are those of the newest hundred runs of each.</p>
            </>
          ) : text ? (
            <Empty icon="search" title="No workflow fits">
              <p>
                Nothing has <q>{text}</q> in its name or description.
              </p>
            </Empty>
          ) : (
            <Empty icon="workflows" title="No workflow is deployed">
              <p>Deploy a document under its name, and start it from here:</p>
              <CodeBlock text="minuet deploy order.yaml" />
            </Empty>
          )
        ) : workflows.error ? (
          <Failure error={workflows.error} onRetry={workflows.reload} />
        ) : (
          <Loading />
        )}
      </div>
    </div>
  );
}
