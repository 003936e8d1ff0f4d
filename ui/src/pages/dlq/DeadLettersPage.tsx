import { useMemo } from "react";
import { get } from "../../api/client.ts";
import type { DeadLetter, LetterGroup, Page } from "../../api/types.ts";
import { useQuery } from "../../api/useQuery.ts";
import { Button, Empty, Failure, faultLine, Loading, Meter, Segments, Sparkline, SplitPane, Table, Time, type Column } from "../../components/index.ts";
import { showCount } from "../../lib/format.ts";
import { useShortcuts } from "../../lib/keys.ts";
import { Link, useQueryParam } from "../../lib/router.tsx";
import { useFeed } from "../../live/feed.ts";
import { GroupPanel } from "./GroupPanel.tsx";
import { LetterPanel } from "./LetterPanel.tsx";
import { goesOn, hideRetried, stopRetrying, useRetrying } from "./retrying.ts";
import "./dlq.css";

/** Letters whose times are drawn. */
const TIMES_MAX = 5_000;

export default function DeadLettersPage() {
  const [status, setStatus] = useQueryParam("status", "pending");
  const [chosen, setChosen] = useQueryParam("group");
  const [letter, setLetter] = useQueryParam("letter");
  const groups = useQuery(`groups ${status}`, (signal) => get<Page<LetterGroup>>("/dlq/groups", { query: { status }, signal }));
  const times = useQuery(`times ${status}`, (signal) => loadTimes(status, signal));
  const reload = (): void => {
    groups.reload();
    times.reload();
  };
  useFeed({
    onEvents: (events) => events.some((one) => one.data.dead_letter || /^run\.(retried|failed)$|^node\.repaired$/.test(one.type)) && reload(),
    onReset: reload,
  });
  useShortcuts([
    {
      keys: "Escape",
      label: "Close the panel",
      run: () => (letter ? setLetter("") : setChosen("")),
    },
  ]);
  const rows = groups.data?.items ?? [];
  const total = rows.reduce((sum, one) => sum + one.count, 0);
  const group = rows.find((one) => one.fingerprint === chosen) ?? null;
  const columns = useMemo(() => columnsOf(times.data, rows), [times.data, groups.data]);
  const side = letter ? (
    <LetterPanel key={letter} id={letter} onClose={() => setLetter("")} onChanged={reload} />
  ) : group ? (
    <GroupPanel key={group.fingerprint} group={group} status={status} onOpen={setLetter} onClose={() => setChosen("")} onChanged={reload} />
  ) : null;
  return (
    <div className="page">
      <div className="page-head">
        <h1>Dead letters</h1>
        <Segments
          label="Which dead letters"
          chosen={status}
          onChoose={(next) => {
            setStatus(next);
            setChosen("");
            setLetter("");
          }}
          options={[
            { id: "pending", label: "To do", ...(status === "pending" && groups.data ? { count: total } : {}) },
            { id: "reprocessed", label: "Retried" },
            { id: "discarded", label: "Discarded" },
          ]}
        />
        <Progress />
      </div>
      <SplitPane name="dlq" side={side} width={520}>
        <div className="page-body">
          {groups.data ? (
            rows.length ? (
              <Table
                columns={columns}
                rows={rows}
                keyOf={(one) => one.fingerprint}
                onOpen={(one) => {
                  setLetter("");
                  setChosen(one.fingerprint, true);
                }}
                label="Causes"
                open={chosen || null}
              />
            ) : status === "pending" ? (
              <Empty icon="check" title="No dead letters">
                <p>What fails for good is kept here, grouped by its cause, until somebody retries or discards it.</p>
              </Empty>
            ) : (
              <Empty icon="empty" title={status === "reprocessed" ? "None was retried" : "None was discarded"} />
            )
          ) : groups.error ? (
            <Failure error={groups.error} onRetry={reload} />
          ) : (
            <Loading />
          )}
        </div>
      </SplitPane>
    </div>
  );
}

async function loadTimes(status: string, signal: AbortSignal): Promise<Map<string, number[]>> {
  const found = new Map<string, number[]>();
  let cursor: string | null = null;
  let count = 0;
  do {
    const page: Page<DeadLetter> = await get("/dlq", { query: { status, limit: 1000, cursor }, signal });
    for (const one of page.items) {
      const times = found.get(one.fingerprint) ?? [];
      times.push(Date.parse(one.at));
      found.set(one.fingerprint, times);
    }
    count += page.items.length;
    cursor = page.next;
  } while (cursor !== null && count < TIMES_MAX);
  return found;
}

function columnsOf(times: Map<string, number[]> | null, rows: readonly LetterGroup[]): readonly Column<LetterGroup>[] {
  const to = Date.now();
  const first = Math.min(to - 60_000, ...rows.map((one) => Date.parse(one.first_at)));
  return [
    { id: "count", head: "Count", width: "76px", align: "right", cell: (one) => <span className="nums letter-count">{showCount(one.count)}</span> },
    {
      id: "when",
      head: "When",
      width: "124px",
      minor: true,
      cell: (one) => <Sparkline times={times?.get(one.fingerprint) ?? []} from={first} to={to} label={`${one.count} over time`} />,
    },
    {
      id: "error",
      head: "Cause",
      cell: (one) => (
        <span className="letter-cause">
          <Link to={`/dlq?group=${one.fingerprint}`} className="truncate">
            {faultLine(one.example.error, one.example.reason)}
          </Link>
          <span className="muted truncate">
            {one.example.workflow} · {one.example.node_id}
          </span>
        </span>
      ),
    },
    { id: "queue", head: "Queue", width: "16%", minor: true, cell: (one) => <span className="muted">{Object.keys(one.queues).join(", ")}</span> },
    { id: "last", head: "Last", width: "110px", align: "right", cell: (one) => <Time at={one.last_at} /> },
  ];
}

const STATES = { running: "Retrying", done: "Retried", stopped: "Stopped after", interrupted: "Interrupted after" };

/** How far servers have come with retries. */
function Progress() {
  const now = useRetrying();
  if (!now) return null;
  return (
    <div className="retrying" role="status">
      <Meter value={now.retried + now.refused} most={now.total} tone={now.refused ? "orange" : "green"} label="Retried" />
      <span className="nums truncate">
        {STATES[now.state]} {showCount(now.retried)} of {showCount(now.total)}
        {now.per_second !== null && now.state === "running" && `, ${now.per_second} a second`}
        {now.refused > 0 && (
          <span className="retrying-refused" title={now.refusals.map((one) => `${one.id}: ${one.why}`).join("\n")}>
            {`, ${showCount(now.refused)} refused`}
          </span>
        )}
      </span>
      {goesOn(now) ? (
        <Button kind="plain" icon="stop" onClick={() => void stopRetrying(now.id)}>
          Stop
        </Button>
      ) : (
        <Button kind="plain" icon="close" aria-label="Hide" onClick={hideRetried} />
      )}
    </div>
  );
}
