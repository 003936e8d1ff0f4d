import { useCallback, useMemo, useState } from "react";
import { get, post } from "../../api/client.ts";
import type { Page, RunRow, Shape, Workflow } from "../../api/types.ts";
import { useEvery, useQuery } from "../../api/useQuery.ts";
import type { PageProps } from "../../app/routes.ts";
import { Button, CopyButton, Duration, Empty, Failure, Icon, Loading, Segments, Source, SplitPane, Squares, StatusBadge, Table, Tabs, Time, type Column } from "../../components/index.ts";
import type { Graph } from "../../fold/types.ts";
import { isJson } from "../../document/edits.ts";
import { showBytes, showCount, showDuration } from "../../lib/format.ts";
import { useShortcuts } from "../../lib/keys.ts";
import { isLarge, loadLarge } from "../../lib/large.ts";
import { Link, navigate, useQueryParam } from "../../lib/router.tsx";
import { inOrder, toYaml } from "../../lib/yaml.ts";
import { openOf, Rate, type Statistics } from "../workflows/WorkflowsPage.tsx";
import "../workflows/workflows.css";
import { GraphView } from "../run/GraphView.tsx";
import { NodeDocument } from "./NodeDocument.tsx";
import { Start } from "./Start.tsx";
import { Versions } from "./Versions.tsx";

type Validated = Shape<"Validated">;
type Row = Statistics["newest"][number];
type Language = "source" | "yaml" | "json";

const FORM_BYTES_MAX = 1_000_000;

function textIn({ source, document }: Workflow, language: Language): string {
  if (language === "source" && source != null) return source;
  if (!document) return "";
  return language === "json" ? JSON.stringify(inOrder(document), null, 2) : toYaml(inOrder(document));
}

export default function WorkflowPage({ params }: PageProps) {
  const name = params.name!;
  const [tab, setTab] = useQueryParam("tab", "graph");
  const [version, setVersion] = useQueryParam("version");
  const [node, setNode] = useQueryParam("node");
  const [likeId] = useQueryParam("like");
  const choose = useCallback((id: string) => setNode(id), [setNode]);
  const [chosen, setLanguage] = useState<Language | null>(null);
  const reference = version ? `${name}@${version}` : name;
  // A workflow without the tag main still has versions.
  const found = useQuery(reference, (signal) =>
    get<Workflow>("/workflows/{name}", { path: { name: reference }, signal }).catch(async (error: Error) => {
      if (version) throw error;
      const page = await get<Page<Workflow>>("/workflows/{name}/versions", { path: { name }, query: { limit: 1 }, signal });
      if (!page.items[0]) throw error;
      return page.items[0];
    }),
  );
  const statistics = useQuery(`statistics ${name}`, (signal) => get<Page<Statistics>>("/statistics", { query: { workflow: name }, signal }));
  useEvery(5000, statistics.reload);
  const like = useQuery(likeId || null, (signal) => inputOf(likeId, signal));
  const workflow = found.data;
  const isWritten = workflow?.source != null;
  const language: Language = chosen && (isWritten || chosen !== "source") ? chosen : isWritten ? "source" : "yaml";
  const text = useMemo(() => (workflow ? textIn(workflow, language) : ""), [workflow, language]);
  const checked = useQuery(text ? `${reference} ${workflow?.digest} ${language}` : null, (signal) => post<Validated>("/workflows/validate", { body: { document: text }, signal }));
  useShortcuts([
    { keys: "s", label: "Start the workflow", run: () => setTab("start") },
    { keys: "Escape", label: "Close the panel", run: () => setNode("") },
  ]);
  if (found.error) return <Failure error={found.error} onRetry={found.reload} />;
  if (!workflow) return <Loading />;
  const numbers = statistics.data?.items[0] ?? null;
  const graph = checked.data?.graph as unknown as Graph | null | undefined;
  const problems = checked.data?.diagnostics ?? [];
  const tags = Object.entries(workflow.tags).filter(([, one]) => one === workflow.version);
  return (
    <div className="page">
      <div className="page-head">
        <Link to="/workflows" className="back-link" aria-label="All workflows">
          <Icon name="back" />
        </Link>
        <h1 className="truncate">{workflow.name}</h1>
        <span className="muted nums">v{workflow.version}</span>
        {tags.map(([tag]) => (
          <span key={tag} className="tag" data-tone="accent">
            {tag}
          </span>
        ))}
        {workflow.version < workflow.newest && (
          <Link to={`/workflows/${encodeURIComponent(name)}?version=${workflow.newest}`} className="muted">
            v{workflow.newest} is newer
          </Link>
        )}
        <span className="grow" />
        <Button kind="primary" icon="play" onClick={() => setTab("start")}>
          Start
        </Button>
      </div>
      {numbers && (
        <dl className="workflow-numbers">
          {workflow.description && (
            <div className="grow truncate muted">
              <dt className="visually-hidden">Description</dt>
              <dd className="truncate">{workflow.description}</dd>
            </div>
          )}
          <div>
            <dt>Last runs</dt>
            <dd>{numbers.newest.length ? <Squares runs={numbers.newest} /> : <span className="muted">none yet</span>}</dd>
          </div>
          <div>
            <dt>Success</dt>
            <dd>
              <Rate rate={numbers.success_rate} />
            </dd>
          </div>
          <div>
            <dt>Open</dt>
            <dd className="nums">{showCount(openOf(numbers.counts))}</dd>
          </div>
          <div>
            <dt>p50</dt>
            <dd className="nums">{numbers.p50_ms === null ? "–" : showDuration(numbers.p50_ms)}</dd>
          </div>
          <div>
            <dt>p99</dt>
            <dd className="nums">{numbers.p99_ms === null ? "–" : showDuration(numbers.p99_ms)}</dd>
          </div>
        </dl>
      )}
      <Tabs
        label="Parts of the workflow"
        chosen={tab}
        onChoose={setTab}
        tabs={[
          { id: "graph", label: "Graph" },
          { id: "document", label: "Document", ...(problems.length ? { count: problems.length } : {}) },
          { id: "start", label: "Start" },
          { id: "runs", label: "Runs" },
          { id: "versions", label: "Versions", count: workflow.newest },
        ]}
      />
      <SplitPane name="workflow" width={380} side={tab === "graph" && graph && node && <NodeDocument workflow={workflow} graph={graph} id={node} onChoose={choose} onClose={() => setNode("")} />}>
        {tab === "graph" && graph ? (
          <GraphView key={reference} run={null} graph={graph} chosen={node} onChoose={choose} />
        ) : (
          <div className="page-body">
            {tab === "graph" &&
              (checked.error ? (
                <Failure error={checked.error} onRetry={checked.reload} />
              ) : checked.data ? (
                <Empty icon="dlq" title="The document is not valid any more">
                  <p>It was deployed with another version of Minuet. The document says what is wrong.</p>
                </Empty>
              ) : (
                <Loading />
              ))}
            {tab === "document" && (
              <div className="workflow-document">
                <div className="row">
                  <Segments
                    label="Language"
                    chosen={language}
                    onChoose={(next) => setLanguage(next as Language)}
                    options={[
                      ...(isWritten ? [{ id: "source", label: "As written" }] : []),
                      { id: "yaml", label: "YAML" },
                      { id: "json", label: "JSON" },
                    ]}
                  />
                  <CopyButton text={text} label="Copy the document" />
                  <span className="grow" />
                  <Link className="button" to={`/editor?workflow=${encodeURIComponent(reference)}`}>
                    <Icon name="edit" /> Edit
                  </Link>
                </div>
                {problems.length > 0 ? (
                  <ul className="problem-list" aria-label="Problems">
                    {problems.map((one, at) => (
                      <li key={at} data-severity={one.severity}>
                        {one.line !== null && <span className="nums">Line {one.line}: </span>}
                        {one.message} <code>{one.code}</code>
                      </li>
                    ))}
                  </ul>
                ) : (
                  checked.data && (
                    <p className="muted row">
                      <Icon name="check" /> No problems.
                    </p>
                  )
                )}
                <Source text={text} language={language === "json" || isJson(text) ? "json" : "yaml"} problems={problems} label="Document" />
              </div>
            )}
            {tab === "start" && like.error && (
              <p className="form-problem" role="alert">
                The input of the other run is not here: {like.error.message}
              </p>
            )}
            {tab === "start" &&
              (checked.data && !(likeId && like.loading) ? (
                <Start key={`${reference} ${likeId}`} like={like.data} reference={version ? reference : workflow.name} schema={checked.data.input_schema ?? null} newest={numbers?.newest ?? []} />
              ) : (
                <Loading />
              ))}
            {tab === "runs" && <Runs name={name} rows={numbers?.newest ?? null} />}
            {tab === "versions" && (
              <Versions
                workflow={workflow}
                onChoose={(next) => {
                  setVersion(next);
                  setTab("document");
                }}
                onChanged={found.reload}
              />
            )}
          </div>
        )}
      </SplitPane>
    </div>
  );
}

/** What a run was given, to begin another one with. */
async function inputOf(run: string, signal: AbortSignal): Promise<{ input: unknown }> {
  const { input } = await get<RunRow>("/runs/{run_id}/summary", { path: { run_id: run }, signal });
  if (!isLarge(input)) return { input };
  if (input.bytes > FORM_BYTES_MAX) throw new Error(`it has ${showBytes(input.bytes)}, which is too large for a form`);
  return { input: await loadLarge(run, input, signal) };
}

const RUNS: readonly Column<Row>[] = [
  { id: "status", head: "Status", width: "128px", cell: (run) => <StatusBadge status={run.status} /> },
  { id: "run", head: "Run", cell: (run) => <Link to={`/runs/${run.run_id}`}>…{run.run_id.slice(-12)}</Link> },
  { id: "version", head: "Version", width: "90px", minor: true, cell: (run) => <span className="muted nums">{run.version === null ? "–" : `v${run.version}`}</span> },
  { id: "duration", head: "Duration", width: "110px", align: "right", cell: (run) => <Duration ms={run.duration_ms} since={run.started_at} /> },
  { id: "created", head: "Created", width: "120px", align: "right", cell: (run) => <Time at={run.created_at} /> },
];

function Runs({ name, rows }: { name: string; rows: readonly Row[] | null }) {
  if (!rows) return <Loading />;
  if (!rows.length) {
    return (
      <Empty icon="runs" title="It has not run yet">
        <p>Start it from here, or from the command line.</p>
      </Empty>
    );
  }
  return (
    <>
      <Table columns={RUNS} rows={rows} keyOf={(run) => run.run_id} onOpen={(run) => navigate(`/runs/${run.run_id}`)} label="Runs" />
      <p className="page-pad">
        <Link to={`/runs?q=${encodeURIComponent(`workflow:${name}`)}`}>All its runs</Link>
      </p>
    </>
  );
}
