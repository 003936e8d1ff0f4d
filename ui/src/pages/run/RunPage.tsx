import { useCallback, useEffect, useRef, useState } from "react";
import type { RunRow } from "../../api/types.ts";
import type { PageProps } from "../../app/routes.ts";
import { Button, CopyButton, Duration, Failure, Json, Loading, SplitPane, StatusBadge, Tabs, Time, toast, type IconName } from "../../components/index.ts";
import { authorOf } from "../../fold/scope.ts";
import { useCommands } from "../../lib/commands.ts";
import { showBytes } from "../../lib/format.ts";
import { useShortcuts } from "../../lib/keys.ts";
import { isLarge, loadLarge, type Large } from "../../lib/large.ts";
import { Link, navigate, useQueryParam } from "../../lib/router.tsx";
import { ActionPanel } from "./ActionPanel.tsx";
import { ACTIONS, runActions, twinOf, type ActionName, type Asked } from "./actions.ts";
import { GraphView } from "./GraphView.tsx";
import { HistoryView } from "./HistoryView.tsx";
import { useRunModel, type RunModel } from "./model.ts";
import { NodePanel } from "./NodePanel.tsx";
import "./run.css";
import { Slider } from "./Slider.tsx";
import { TimelineView } from "./TimelineView.tsx";

const TABS = ["graph", "timeline", "history", "data"] as const;
/** Browsers do not let an address change with every frame. */
const ADDRESS_PAUSE = 250;

export default function RunPage({ params }: PageProps) {
  const model = useRunModel(params.id!);
  const [tab, setTab] = useQueryParam("tab", "graph");
  const [node, setNode] = useQueryParam("node");
  const [, setInstance] = useQueryParam("instance");
  const [asked, setAsked] = useState<Asked | null>(null);
  const ready = model.history.seq > 0 && model.graph !== null;
  const move = useMoment(model, ready);
  const choose = useCallback(
    (id: string, instance = "") => {
      setAsked(null);
      setInstance(instance);
      setNode(id);
    },
    [setInstance, setNode],
  );
  const close = (): void => (asked ? setAsked(null) : choose(""));
  const offered = ready ? runActions(model.history.run.status, canUndo(model)) : [];
  useShortcuts([
    ...TABS.map((name, number) => ({ keys: String(number + 1), label: `Run: ${name}`, run: () => setTab(name) })),
    { keys: "Escape", label: "Close the panel", run: close },
  ]);
  const again = model.row ? anotherOf(model.row) : null;
  useCommands([
    ...offered.map((action) => ({ label: `${ACTIONS[action].title}…`, icon: ICONS[action], run: () => setAsked({ action }) })),
    ...(again ? [{ label: "Start another run like this one…", icon: "play" as const, run: () => navigate(again) }] : []),
  ]);
  if (model.error) return <Failure error={model.error} onRetry={() => location.reload()} />;
  if (!ready || !model.row) return <Loading what="the history of this run" />;
  const run = model.cursor.run;
  const panel = asked ? (
    <ActionPanel key={`${asked.action} ${asked.node}`} model={model} asked={asked} onClose={() => setAsked(null)} />
  ) : node && tab !== "history" ? (
    <NodePanel model={model} id={node} onAsk={setAsked} onClose={() => choose("")} />
  ) : null;
  return (
    <div className="page">
      <title>{`${model.row.workflow} ${run.status.toLowerCase()} · Minuet`}</title>
      <Head model={model} row={model.row} status={run.status} offered={offered} onAsk={setAsked} />
      {run.error && (
        <div className="run-alert" role="alert">
          <span className="truncate grow">
            {typeof run.error.node === "string" && (
              <button type="button" className="chip" onClick={() => choose(authorOf(String(run.error!.node)))}>
                {authorOf(run.error.node)}
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
          <GraphView run={model} graph={model.graph!} chosen={node} onChoose={choose} />
        )}
      </SplitPane>
      <Slider model={model} onMove={move} />
    </div>
  );
}

/**
 * Move over the events. The address follows when the movement rests, and moves the page when somebody changes it. If it
 * has no number of an event, the newest is shown.
 */
function useMoment(model: RunModel, ready: boolean): (next: number | null) => void {
  const [at, setAt] = useQueryParam("at");
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => {
    if (ready) model.show(/^[1-9]\d{0,14}$/.test(at) ? Number(at) : null);
  }, [ready, model, at]);
  useEffect(() => () => clearTimeout(timer.current), []);
  return useCallback(
    (next: number | null) => {
      model.show(next);
      clearTimeout(timer.current);
      timer.current = setTimeout(() => setAt(String(model.at ?? "")), ADDRESS_PAUSE);
    },
    [model, setAt],
  );
}

const ICONS: Record<ActionName, IconName> = {
  cancel: "stop",
  pause: "pause",
  resume: "play",
  retry: "retry",
  rollback: "back",
  signal: "terminal",
  skip: "close",
  set_output: "editor",
  take_back: "back",
};
const NOTHING = { why: "", data: "", name: "", to: "", undone: false };

const canUndo = (model: RunModel): boolean => model.graph!.nodes.some((node) => node.has_compensator);

interface HeadProps {
  model: RunModel;
  row: RunRow;
  status: string;
  offered: ActionName[];
  onAsk: (asked: Asked) => void;
}

function Head({ model, row, status, offered, onAsk }: HeadProps) {
  const { history, id } = model;
  const another = anotherOf(row);
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
        {offered.map((action) => (
          <Button
            key={action}
            icon={ICONS[action]}
            {...(ACTIONS[action].isDanger ? { kind: "danger" as const } : action === "retry" ? { kind: "primary" as const } : {})}
            twin={twinOf(id, { action }, NOTHING)}
            onClick={() => onAsk({ action })}
          >
            {action === "signal" ? "Signal" : ACTIONS[action].does}
          </Button>
        ))}
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
          {model.isOver ? "took" : "for"} <Duration ms={model.isOver ? history.end - history.begin : null} since={history.begin} />
        </span>
        {row.submitted_by && <span>by {row.submitted_by}</span>}
        {row.parent && (
          <span>
            child of <Link to={parentOf(row)}>…{row.parent.slice(-8)}</Link>
          </span>
        )}
        {row.child_count > 0 && (
          <span>
            <Link to={`/runs?q=parent:${id}`}>{row.child_count === 1 ? "1 child run" : `${row.child_count} child runs`}</Link>
          </span>
        )}
        {Object.keys(row.tags).length > 0 && (
          <span className="run-tags" title={tagsOf(row).join("\n")}>
            {tagsOf(row).map((tag) => (
              <span key={tag} className="tag">
                {tag}
              </span>
            ))}
          </span>
        )}
        {another && (
          <span>
            <Link to={another}>start another</Link>
          </span>
        )}
      </div>
    </>
  );
}

const tagsOf = (row: RunRow): string[] => Object.entries(row.tags).map(([name, value]) => `${name}=${String(value)}`);

/** The form that starts another run of a deployed workflow, with the input of this one. */
function anotherOf({ workflow, version, run_id }: RunRow): string | null {
  return version === null ? null : `/workflows/${encodeURIComponent(workflow)}?tab=start&like=${run_id}`;
}

/** The parent, with the node that has started the run open. */
function parentOf({ parent, parent_node }: RunRow): string {
  const node = encodeURIComponent(authorOf(parent_node ?? ""));
  return `/runs/${parent}?node=${node}&open=${node}`;
}

function Data({ model }: { model: RunModel }) {
  const run = model.cursor.run;
  const [opened, setOpened] = useState<ReadonlyMap<string, unknown>>(new Map());
  const closed: [string, Large][] = [];
  const read = (name: string, value: unknown): unknown => {
    if (!isLarge(value)) return value;
    if (opened.has(value.$blob)) return opened.get(value.$blob);
    closed.push([name, value]);
    return value;
  };
  const input = read("the input", model.event(run.input)?.data.input ?? model.row!.input);
  const outputs: Record<string, unknown> = {};
  for (const [id, node] of model.view!.nodes) if (node.event) outputs[id] = read(id, model.event(node.event)?.data.output);
  const open = async (large: Large): Promise<void> => {
    try {
      const value = await loadLarge(model.id, large);
      setOpened((before) => new Map(before).set(large.$blob, value));
    } catch (error) {
      toast((error as Error).message, "failed");
    }
  };
  return (
    <div className="page-body page-pad" style={{ display: "grid", gap: 16, alignContent: "start" }}>
      {closed.length > 0 && (
        <div className="row" style={{ flexWrap: "wrap" }}>
          {closed.map(([name, large]) => (
            <Button key={name} onClick={() => void open(large)}>
              Load {name} ({showBytes(large.bytes)})
            </Button>
          ))}
        </div>
      )}
      <Json value={input} label="Input" />
      <Json value={outputs} label="Outputs of nodes" maxHeight={560} />
      {run.error && <Json value={run.error} label="Error" />}
    </div>
  );
}
