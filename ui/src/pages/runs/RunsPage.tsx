import { useEffect, useRef, useState } from "react";
import { ApiError } from "../../api/client.ts";
import type { PageProps } from "../../app/routes.ts";
import type { RunRow, Shape } from "../../api/types.ts";
import { Button, CodeBlock, Dialog, Duration, Empty, Failure, Icon, Loading, StatusBadge, Table, Time, type Column } from "../../components/index.ts";
import { termOf, withTerm } from "../../filter/terms.ts";
import { useCommands } from "../../lib/commands.ts";
import { isLost } from "../../live/connection.ts";
import { shellOption, shellWord, showCount } from "../../lib/format.ts";
import { useShortcuts } from "../../lib/keys.ts";
import { Link, navigate, useQueryParam } from "../../lib/router.tsx";
import { savedFilters } from "../../lib/settings.ts";
import { useStore } from "../../lib/store.ts";
import { Bulk, BULK, type BulkAction, type Chosen } from "./Bulk.tsx";
import { inputText, wholeText, type Filter } from "./list.ts";
import "./runs.css";
import { Strip } from "./Strip.tsx";
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
        {run.error ? <span className="run-error truncate">{String(run.error.message ?? run.error.code ?? "")}</span> : <span className="run-input muted truncate">{inputText(run.input)}</span>}
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
  const [q, setQuery] = useQueryParam("q");
  const [since, setSince] = useQueryParam("since");
  const [until, setUntil] = useQueryParam("until");
  const [marked, setMarked] = useState<ReadonlySet<string>>(new Set());
  const [bulk, setBulk] = useState<{ action: BulkAction; chosen: Chosen } | null>(null);
  const search = useRef<HTMLInputElement>(null);
  const settled = useSettled(q);
  const filter: Filter = { q: settled, since, until };
  const { rows, next, searched, loading, error, more, reload } = useRuns(filter);
  const isNarrow = Boolean(q || since || until);
  const clear = (): void => {
    setQuery("");
    setSince("");
    setUntil("");
  };
  useShortcuts([
    { keys: "/", label: "Filter the runs", run: () => search.current?.select() },
    { keys: "Escape", label: "Forget the marks, then the filter", run: () => (marked.size ? setMarked(new Set()) : clear()) },
  ]);
  const saved = useStore(savedFilters);
  useCommands(saved.map((one) => ({ label: `Runs: ${one.name}`, icon: "star", run: () => navigate(`/runs?q=${encodeURIComponent(one.text)}`) })));
  const status = termOf(q, "status");
  const problems = error instanceof ApiError && error.status === 422 ? (error.problem?.problems ?? [error.message]) : [];
  const ask = (action: BulkAction): void => setBulk({ action, chosen: marked.size ? { ids: [...marked] } : { q: wholeText(filter) } });
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
            autoCapitalize="off"
            aria-label="Filter"
            placeholder="status:failed workflow:order age<1h tag:team:web, or any words"
            value={q}
            onChange={(event) => setQuery(event.target.value)}
            onKeyDown={(event) => event.key === "Escape" && (event.preventDefault(), event.currentTarget.blur())}
          />
          {!q && <kbd>/</kbd>}
        </label>
        <SaveFilter text={q} />
        <Button icon="retry" kind="plain" aria-label="Load again" twin={twinOf(filter)} onClick={reload} title="Load again" />
      </div>
      <Strip
        filter={filter}
        oldest={rows[Math.min(rows.length, FIRST_PAGE) - 1]?.created_at ?? null}
        onZoom={(from, to) => {
          setSince(from);
          setUntil(to);
        }}
      />
      <div className="filter-row">
        {QUICK.map(({ label, value }) => (
          <button key={label} type="button" className="chip" aria-pressed={status === value} onClick={() => setQuery(withTerm(q, "status", value), true)}>
            {value && <span className="dot" data-status={value === "open" ? "running" : value} />}
            {label}
          </button>
        ))}
        {saved.map((one) => (
          <button key={one.name} type="button" className="chip" aria-pressed={q === one.text} title={one.text} onClick={() => setQuery(one.text, true)}>
            <Icon name="star" />
            {one.name}
          </button>
        ))}
        <span className="grow" />
        <span className="muted nums" role="status">
          {showCount(rows.length)}
          {next ? "+" : ""} runs
        </span>
      </div>
      {(marked.size > 0 || (isNarrow && rows.length > 0)) && (
        <div className="bulk-bar" role="toolbar" aria-label="Marked runs">
          <span className="nums">{marked.size ? `${showCount(marked.size)} marked` : "All that fit"}</span>
          {BULK.map((action) => (
            <Button key={action} {...(action === "cancel" || action === "delete" ? { kind: "danger" as const } : {})} onClick={() => ask(action)}>
              {action[0]!.toUpperCase() + action.slice(1)}…
            </Button>
          ))}
          {marked.size > 0 && (
            <Button kind="plain" onClick={() => setMarked(new Set())}>
              Forget the marks
            </Button>
          )}
        </div>
      )}
      {problems.map((one) => (
        <div key={one} className="filter-problem" role="alert">
          {one}
        </div>
      ))}
      {error && rows.length > 0 && problems.length === 0 && !isLost(error) && (
        <div className="filter-problem" role="alert">
          {error.message}
        </div>
      )}
      <div className="page-body" data-stale={problems.length > 0 || undefined}>
        {error && rows.length === 0 && problems.length === 0 ? (
          <Failure error={error} onRetry={reload} />
        ) : rows.length > 0 ? (
          <>
            <Table columns={COLUMNS} rows={rows} keyOf={keyOf} onOpen={open} label="Runs" selection={{ keys: marked, onChange: setMarked }} />
            <Foot next={next} searched={searched} loading={loading} isNarrow={isNarrow} onMore={more} />
          </>
        ) : loading && !error ? (
          <Loading what="the list of runs" />
        ) : isNarrow ? (
          <Empty icon="search" title="No run fits this filter">
            <p>
              {next && searched?.back_to ? (
                <>
                  Searched back to <Time at={searched.back_to} />; there are older ones that were not looked at.
                </>
              ) : (
                "Runs that fit appear here by themselves."
              )}
            </p>
            <span className="row">
              {next && (
                <Button disabled={loading} onClick={more}>
                  Search further
                </Button>
              )}
              <Button onClick={clear}>Show all runs</Button>
            </span>
          </Empty>
        ) : (
          <Empty icon="runs" title="No runs yet">
            <p>Start one, and it appears here at once:</p>
            <CodeBlock text={"minuet deploy order.yaml\nminuet start order -i customer=Ada"} />
          </Empty>
        )}
      </div>
      {bulk && (
        <Bulk
          action={bulk.action}
          chosen={bulk.chosen}
          onClose={(isDone) => {
            setBulk(null);
            if (isDone) setMarked(new Set());
          }}
        />
      )}
    </div>
  );
}

/** Runs whose time the strip shows. */
const FIRST_PAGE = 100;

/** While somebody types, most filters are unfinished: the server is asked after a pause. */
const TYPING_PAUSE = 250;

function useSettled(value: string): string {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), TYPING_PAUSE);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}

const keyOf = (run: RunRow): string => run.run_id;
const open = (run: RunRow): void => navigate(`/runs/${run.run_id}`);

interface FootProps {
  next: string | null;
  searched: Shape<"Searched"> | null;
  loading: boolean;
  isNarrow: boolean;
  onMore: () => void;
}

function Foot({ next, searched, loading, isNarrow, onMore }: FootProps) {
  if (!next) return null;
  return (
    <div className="list-foot">
      {isNarrow && searched?.back_to && (
        <span className="muted">
          Searched back to <Time at={searched.back_to} />{" "}
        </span>
      )}
      <Button disabled={loading} onClick={onMore}>
        {isNarrow ? "Search further" : "Older runs"}
      </Button>
    </div>
  );
}

function twinOf({ q, since, until }: Filter): string {
  const parts = ["minuet runs list"];
  if (q) parts.push(shellOption("--filter", q));
  if (since) parts.push(`--since ${shellWord(since)}`);
  if (until) parts.push(`--until ${shellWord(until)}`);
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
