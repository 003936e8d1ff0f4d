import { useCallback, useEffect } from "react";
import { post } from "../../api/client.ts";
import type { RunRow } from "../../api/types.ts";
import type { PageProps } from "../../app/routes.ts";
import { Button, CopyButton, Duration, Failure, Json, Loading, SplitPane, StatusBadge, Tabs, Time, toast } from "../../components/index.ts";
import type { ApiPath } from "../../api/types.ts";
import { useShortcuts } from "../../lib/keys.ts";
import { Link, useQueryParam } from "../../lib/router.tsx";
import "../runs/runs.css";
import { GraphView } from "./GraphView.tsx";
import { HistoryView } from "./HistoryView.tsx";
import { useRunModel, type RunModel } from "./model.ts";
import { NodePanel } from "./NodePanel.tsx";
import "./run.css";
import { Slider } from "./Slider.tsx";
import { TimelineView } from "./TimelineView.tsx";

const TABS = ["graph", "timeline", "history", "data"] as const;

export default function RunPage({ params }: PageProps) {
  const model = useRunModel(params.id!);
  const [tab, setTab] = useQueryParam("tab", "graph");
  const [node, setNode] = useQueryParam("node");
  const [at, setAt] = useQueryParam("at");
  const ready = model.history.seq > 0 && model.graph !== null;
  useEffect(() => {
    if (ready) model.show(at ? Number(at) : null);
  }, [ready, model, at]);
  const move = useCallback(
    (next: number | null) => {
      model.show(next);
      setAt(next === null ? "" : String(next));
    },
    [model, setAt],
  );
  const choose = useCallback((id: string) => setNode(id), [setNode]);
  useShortcuts([
    ...TABS.map((name, number) => ({ keys: String(number + 1), label: `Run: ${name}`, run: () => setTab(name) })),
    { keys: "Escape", label: "Close the panel", run: () => setNode("") },
  ]);
  if (model.error) return <Failure error={model.error} onRetry={() => location.reload()} />;
  if (!ready || !model.row) return <Loading what="the history of this run" />;
  const run = model.cursor.run;
  const panel = node && tab !== "history" ? <NodePanel model={model} id={node} onClose={() => setNode("")} /> : null;
  return (
    <div className="page">
      <title>{`${model.row.workflow} ${run.status.toLowerCase()} · Minuet`}</title>
      <Head model={model} row={model.row} status={run.status} />
      {run.error && (
        <div className="run-alert" role="alert">
          <span className="truncate grow">
            {typeof run.error.node === "string" && (
              <button type="button" className="chip" onClick={() => setNode(String(run.error!.node).split("$")[0]!)}>
                {String(run.error.node).split("$")[0]}
              </button>
            )}{" "}
            {String(run.error.message ?? run.error.code ?? "")}
          </span>
        </div>
      )}
      <Tabs
        label="Views of the run"
        chosen={tab}
        onChoose={setTab}
        tabs={[
          { id: "graph", label: "Graph", count: model.graph!.nodes.length },
          { id: "timeline", label: "Timeline" },
          { id: "history", label: "History", count: model.history.seq },
          { id: "data", label: "Data" },
        ]}
      />
      <SplitPane name="node" side={panel} width={400}>
        {tab === "timeline" ? (
          <TimelineView model={model} chosen={node} onChoose={choose} />
        ) : tab === "history" ? (
          <HistoryView model={model} onMove={move} />
        ) : tab === "data" ? (
          <Data model={model} />
        ) : (
          <GraphView model={model} graph={model.graph!} chosen={node} onChoose={choose} />
        )}
      </SplitPane>
      <Slider model={model} onMove={move} />
    </div>
  );
}

function Head({ model, row, status }: { model: RunModel; row: RunRow; status: string }) {
  const { history, id } = model;
  const act = async (path: ApiPath, said: string): Promise<void> => {
    try {
      await post(path, { path: { run_id: id }, ifMatch: history.seq });
      toast(said);
    } catch (error) {
      toast((error as Error).message, "failed");
    }
  };
  const now = history.run.status;
  const isOpen = now === "RUNNING" || now === "PAUSED" || now === "PENDING";
  return (
    <>
      <div className="page-head">
        <Link to="/runs" className="button" data-kind="plain" aria-label="All runs">
          Runs
        </Link>
        <span className="run-title">
          <h1 className="truncate">
            <Link to={`/workflows/${encodeURIComponent(row.workflow)}`}>{row.workflow}</Link>
          </h1>
          {row.version !== null && <span className="muted nums">v{row.version}</span>}
        </span>
        <StatusBadge status={status} />
        {!model.isLive && <StatusBadge status="waiting" label={`as it was after event ${model.cursor.seq}`} />}
        <span className="grow" />
        {now === "RUNNING" && (
          <Button icon="pause" twin={`minuet runs pause ${id}`} onClick={() => void act("/runs/{run_id}/pause", "Paused: what runs may finish.")}>
            Pause
          </Button>
        )}
        {now === "PAUSED" && (
          <Button icon="play" twin={`minuet runs resume ${id}`} onClick={() => void act("/runs/{run_id}/resume", "It goes on.")}>
            Resume
          </Button>
        )}
        {isOpen && (
          <Button icon="stop" kind="danger" twin={`minuet runs cancel ${id}`} onClick={() => void act("/runs/{run_id}/cancel", "Cancelled.")}>
            Cancel
          </Button>
        )}
        {(now === "FAILED" || now === "CANCELLED") && (
          <Button icon="retry" kind="primary" twin={`minuet runs retry ${id}`} onClick={() => void act("/runs/{run_id}/retry", "What failed runs again.")}>
            Retry
          </Button>
        )}
      </div>
      <div className="run-facts">
        <span>
          <code>{id}</code>
          <CopyButton text={id} label="Copy the id" />
        </span>
        <span>
          created <Time at={row.created_at} />
        </span>
        <span>
          {model.isOver ? "took" : "since"} <Duration ms={model.isOver ? history.end - history.begin : null} since={history.begin} />
        </span>
        {row.submitted_by && <span>by {row.submitted_by}</span>}
        {row.parent && (
          <span>
            child of <Link to={`/runs/${row.parent}?node=${encodeURIComponent(row.parent_node ?? "")}`}>…{row.parent.slice(-8)}</Link>
          </span>
        )}
        {Object.entries(row.tags).map(([name, value]) => (
          <span key={name} className="tag">
            {name}={String(value)}
          </span>
        ))}
      </div>
    </>
  );
}

function Data({ model }: { model: RunModel }) {
  const run = model.cursor.run;
  const outputs: Record<string, unknown> = {};
  for (const [id, node] of model.view!.nodes) if (node.event) outputs[id] = model.event(node.event)?.data.output;
  return (
    <div className="page-body page-pad" style={{ display: "grid", gap: 16, alignContent: "start" }}>
      <Json value={model.event(run.input)?.data.input ?? model.row!.input} label="Input" />
      <Json value={outputs} label="Outputs of nodes" maxHeight={560} />
      {run.error && <Json value={run.error} label="Error" />}
    </div>
  );
}
