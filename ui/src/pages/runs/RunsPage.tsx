import { useDeferredValue, useMemo, useRef, useState } from "react";
import type { PageProps } from "../../app/routes.ts";
import type { RunRow } from "../../api/types.ts";
import { Button, CodeBlock, Dialog, Duration, Empty, Failure, Icon, Loading, StatusBadge, Table, Time, type Column } from "../../components/index.ts";
import { matches, parseFilter, withTerm } from "../../filter/parse.ts";
import { useNow } from "../../lib/clock.ts";
import { useCommands } from "../../lib/commands.ts";
import { shellWord, showCount } from "../../lib/format.ts";
import { useShortcuts } from "../../lib/keys.ts";
import { Link, navigate, useQueryParam } from "../../lib/router.tsx";
import { savedFilters } from "../../lib/settings.ts";
import { useStore } from "../../lib/store.ts";
import "./runs.css";
import { useRuns } from "./useRuns.ts";

const QUICK = [
  { label: "All", value: null },
  { label: "Open", value: "open" },
  { label: "Failed", value: "failed" },
  { label: "Completed", value: "completed" },
  { label: "Paused", value: "paused" },
  { label: "Cancelled", value: "cancelled" },
];

const COLUMNS: readonly Column<RunRow>[] = [
  { id: "status", head: "Status", width: "128px", cell: (run) => <StatusBadge status={run.status} /> },
  {
    id: "workflow",
    head: "Workflow",
    cell: (run) => (
      <span className="run-name">
        <Link to={`/runs/${run.run_id}`} className="truncate">
          {run.workflow}
        </Link>
        {run.version !== null && <span className="muted nums">v{run.version}</span>}
        {run.parent && <span className="tag">child</span>}
        {run.dlq_count > 0 && <span className="tag">{run.dlq_count} dead</span>}
        {run.error && <span className="run-error truncate">{String(run.error.message ?? run.error.code ?? "")}</span>}
      </span>
    ),
  },
  {
    id: "tags",
    head: "Tags",
    width: "16%",
    minor: true,
    cell: (run) => (
      <span className="row">
        {Object.entries(run.tags).map(([name, value]) => (
          <span key={name} className="tag truncate">
            {name}={String(value)}
          </span>
        ))}
      </span>
    ),
  },
  { id: "id", head: "Run", width: "112px", minor: true, cell: (run) => <span className="mono muted" title={run.run_id}>{`…${run.run_id.slice(-10)}`}</span> },
  {
    id: "duration",
    head: "Duration",
    width: "104px",
    align: "right",
    minor: true,
    cell: (run) => <Duration ms={run.duration_ms} since={run.started_at} />,
  },
  { id: "created", head: "Created", width: "150px", align: "right", cell: (run) => <Time at={run.created_at} /> },
];

export default function RunsPage(_: PageProps) {
  const [text, setText] = useQueryParam("q");
  const search = useRef<HTMLInputElement>(null);
  const filter = useMemo(() => parseFilter(text), [text]);
  const asked = useDeferredValue(JSON.stringify([filter.status, filter.workflow, filter.tag, filter.stalled]));
  const { rows, next, loading, error, more, reload } = useRuns(filter, asked);
  const usesAge = filter.age.max !== null || filter.age.min !== null;
  const now = useNow();
  const shown = useMemo(() => rows.filter((run) => matches(filter, run, usesAge ? now : Date.now())), [rows, filter, usesAge && now]);
  useShortcuts([
    { keys: "/", label: "Filter the runs", run: () => search.current?.select() },
    { keys: "Escape", label: "Clear the filter", run: () => setText("") },
  ]);
  const saved = useStore(savedFilters);
  useCommands(saved.map((one) => ({ label: `Runs: ${one.name}`, icon: "star", run: () => navigate(`/runs?q=${encodeURIComponent(one.text)}`) })));
  const status = /(?:^|\s)status:(\S*)/.exec(text)?.[1] ?? null;
  return (
    <div className="page">
      <div className="page-head">
        <h1>Runs</h1>
        <label className="search">
          <Icon name="search" />
          <input
            ref={search}
            className="field"
            spellCheck={false}
            aria-label="Filter"
            placeholder="status:failed workflow:order age<1h tag:team=web, or any words"
            value={text}
            onChange={(event) => setText(event.target.value)}
            onKeyDown={(event) => event.key === "Escape" && (event.preventDefault(), event.currentTarget.blur())}
          />
          {!text && <kbd>/</kbd>}
        </label>
        <SaveFilter text={text} />
        <Button icon="terminal" kind="plain" aria-label="Command line" twin={twinOf(filter)} onClick={reload} title="Load again" />
      </div>
      <div className="filter-row">
        {QUICK.map(({ label, value }) => (
          <button key={label} type="button" className="chip" aria-pressed={status === value} onClick={() => setText(withTerm(text, "status", value), true)}>
            {value && <span className="dot" data-status={value === "open" ? "running" : value} />}
            {label}
          </button>
        ))}
        {saved.map((one) => (
          <button key={one.name} type="button" className="chip" aria-pressed={text === one.text} title={one.text} onClick={() => setText(one.text, true)}>
            <Icon name="star" />
            {one.name}
          </button>
        ))}
        <span className="grow" />
        <span className="muted nums" role="status">
          {showCount(shown.length)}
          {next ? "+" : ""} runs
        </span>
      </div>
      {filter.problems.map((one) => (
        <div key={one.text} className="filter-problem" role="alert">
          <code>{one.text}</code> is not understood: {one.hint}
        </div>
      ))}
      <div className="page-body">
        {error && rows.length === 0 ? (
          <Failure error={error} onRetry={reload} />
        ) : shown.length > 0 ? (
          <>
            <Table columns={COLUMNS} rows={shown} keyOf={(run) => run.run_id} onOpen={(run) => navigate(`/runs/${run.run_id}`)} label="Runs" />
            {next && (
              <div className="list-foot">
                <Button onClick={more}>Older runs</Button>
              </div>
            )}
          </>
        ) : loading ? (
          <Loading what="the list of runs" />
        ) : text ? (
          <Empty icon="search" title="No run fits this filter">
            <p>{next ? "None of the newest ones; there are older ones that were not looked at." : "Runs that fit appear here by themselves."}</p>
            <span className="row">
              {next && <Button onClick={more}>Look further</Button>}
              <Button onClick={() => setText("", true)}>Show all runs</Button>
            </span>
          </Empty>
        ) : (
          <Empty icon="runs" title="No runs yet">
            <p>Start one, and it appears here at once:</p>
            <CodeBlock text={"minuet deploy order.yaml\nminuet start order -i customer=Ada"} />
          </Empty>
        )}
      </div>
    </div>
  );
}

function twinOf(filter: ReturnType<typeof parseFilter>): string {
  const parts = ["minuet runs list", ...filter.status.map((one) => `--status ${one}`)];
  if (filter.workflow) parts.push(`--workflow ${shellWord(filter.workflow)}`);
  if (filter.tag) parts.push(`--tag ${shellWord(filter.tag)}`);
  return parts.join(" ");
}

function SaveFilter({ text }: { text: string }) {
  const saved = useStore(savedFilters);
  const [open, setOpen] = useState(false);
  const known = saved.find((one) => one.text === text);
  if (!text) return null;
  if (known) {
    return (
      <Button icon="star" kind="plain" onClick={() => savedFilters.set(saved.filter((one) => one !== known))}>
        Saved
      </Button>
    );
  }
  return (
    <>
      <Button icon="star" kind="plain" onClick={() => setOpen(true)}>
        Save
      </Button>
      {open && (
        <Dialog title="Save this filter" onClose={() => setOpen(false)}>
          <form
            className="row"
            onSubmit={(event) => {
              event.preventDefault();
              const name = String(new FormData(event.currentTarget).get("name")).trim();
              if (name) savedFilters.set([...saved.filter((one) => one.name !== name), { name, text }]);
              setOpen(false);
            }}
          >
            <input className="field grow" name="name" autoFocus aria-label="Name" placeholder={text} />
            <Button type="submit" kind="primary">
              Save
            </Button>
          </form>
        </Dialog>
      )}
    </>
  );
}
