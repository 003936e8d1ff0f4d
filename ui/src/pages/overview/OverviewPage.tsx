import type { ReactNode } from "react";
import { get } from "../../api/client.ts";
import type { Approval, LetterGroup, Page, Queue, RunRow, Shape } from "../../api/types.ts";
import { useEvery, useQuery } from "../../api/useQuery.ts";
import { Countdown, Duration, Failure, faultLine, Icon, Loading, Meter, StatusBadge, StatusDot, Time, type IconName } from "../../components/index.ts";
import { showCount } from "../../lib/format.ts";
import { useMe, whyNot } from "../../lib/me.ts";
import { Link } from "../../lib/router.tsx";
import { Doctor } from "./Doctor.tsx";
import { Strip } from "./Strip.tsx";
import "./overview.css";

export type Overview = Shape<"Overview">;

const PACE = 3000;
const SHOWN = 6;

/** The state of the whole store on one page. */
export default function OverviewPage() {
  const me = useMe();
  const overview = useQuery("overview", (signal) => get<Overview>("/overview", { signal }));
  const stalled = useQuery("stalled", (signal) => get<Page<RunRow>>("/runs", { query: { stalled: true, limit: SHOWN }, signal }));
  const approvals = useQuery("approvals", (signal) => get<Page<Approval>>("/approvals", { query: { status: "pending", limit: 100 }, signal }));
  const letters = useQuery("letters", (signal) => get<Page<LetterGroup>>("/dlq/groups", { query: { status: "pending" }, signal }));
  useEvery(PACE, () => {
    overview.reload();
    approvals.reload();
    letters.reload();
  });
  useEvery(PACE * 5, stalled.reload);
  const { data, error } = overview;
  if (!data) return error ? <Failure error={error} onRetry={overview.reload} /> : <Loading />;
  const { open, recent } = data.runs;
  const openAll = Object.values(open).reduce((sum, one) => sum + one, 0);
  const done = recent.counts.COMPLETED ?? 0;
  const failed = recent.counts.FAILED ?? 0;
  const mine = (approvals.data?.items ?? []).filter((one) => !me?.name || whyNot(me, one) === null);
  const unserved = data.queues.filter((one) => one.ready > 0 && !one.served_by.length);
  const oldest = data.queues.flatMap((one) => (one.ready && one.oldest_at ? [Date.parse(one.oldest_at)] : []));
  return (
    <div className="page">
      <div className="page-head">
        <h1>Overview</h1>
        <span className="grow" />
        <span className="muted nums">
          Minuet {data.version}
          {data.tenant !== "default" && ` · ${data.tenant}`}
        </span>
      </div>
      <div className="page-body">
        <div className="overview-numbers">
          <Figure name="Open runs" to="/runs?q=status:open" value={openAll}>
            {open.PAUSED ? `${showCount(open.PAUSED)} paused` : open.COMPENSATING ? `${showCount(open.COMPENSATING)} compensating` : "at this moment"}
          </Figure>
          <Figure name="Completed" to="/runs?q=status:completed" value={done}>
            in the last day
          </Figure>
          <Figure name="Failed" to="/runs?q=status:failed" value={failed} tone={failed ? "red" : undefined}>
            {done + failed ? `${((failed / (done + failed)) * 100).toFixed(failed ? 1 : 0)} % of those that ended` : "in the last day"}
          </Figure>
          <Figure name="Stalled" to="/runs?q=is:stalled" value={data.stalled.runs} tone={data.stalled.runs ? "orange" : undefined}>
            of {showCount(data.stalled.looked_at)} open runs
          </Figure>
          <Figure name="For you to decide" to="/approvals" value={mine.length} tone={mine.length ? "violet" : undefined}>
            {data.approvals > mine.length ? `${showCount(data.approvals - mine.length)} more for others` : "approvals"}
          </Figure>
          <Figure name="Dead letters" to="/dlq" value={data.dead_letters} tone={data.dead_letters ? "red" : undefined}>
            {letters.data?.items.length ? `${letters.data.items.length} ${letters.data.items.length === 1 ? "cause" : "causes"}` : "nothing to repair"}
          </Figure>
        </div>
        <Strip recent={recent} />
        <div className="overview-cards">
          <Card title="Waits for you" icon="approvals" to="/approvals" empty={mine.length ? null : "Nothing waits for your decision."}>
            {mine.slice(0, SHOWN).map((one) => (
              <li key={one.id}>
                <Link className="truncate grow" to={`/approvals/${encodeURIComponent(one.id)}`}>
                  {one.title ?? one.node_id}
                </Link>
                {one.timeout_at ? <Countdown until={one.timeout_at} short /> : <Time at={one.created_at} />}
              </li>
            ))}
          </Card>
          <Card title="Stalled runs" icon="clock" to="/runs?q=is:stalled" empty={stalled.data?.items.length ? null : "Every open run makes progress, or waits for something that can come."}>
            {stalled.data?.items.map((one) => (
              <li key={one.run_id}>
                <StatusDot status={one.status} />
                <Link className="truncate" to={`/runs/${one.run_id}`}>
                  {one.workflow}
                </Link>
                <span className="truncate grow muted" title={one.stalled ?? ""}>
                  {one.stalled}
                </span>
                <Time at={one.stalled_at ?? one.created_at} />
              </li>
            ))}
          </Card>
          <Card title="Dead letters" icon="dlq" to="/dlq" empty={letters.data?.items.length ? null : "Nothing has failed for good."}>
            {letters.data?.items.slice(0, SHOWN).map((one) => (
              <li key={one.fingerprint}>
                <b className="nums overview-count">{showCount(one.count)}</b>
                <Link className="truncate grow" to={`/dlq?group=${one.fingerprint}`}>
                  {faultLine(one.example.error, one.example.reason)}
                </Link>
                <Time at={one.last_at} />
              </li>
            ))}
          </Card>
          <Card title="Queues" icon="runs" to="/workers" empty={data.queues.length ? null : "Nothing waits, and nothing runs."}>
            {[...data.queues].sort(byNeed).slice(0, SHOWN).map((one) => (
              <li key={`${one.queue} ${one.needs} ${one.workflow} ${one.node}`}>
                <span className="truncate">{one.queue || "default"}</span>
                <span className="truncate grow muted" data-bad={(one.ready > 0 && !one.served_by.length) || undefined} title={one.why ?? ""}>
                  {one.served_by.length ? "" : `nobody serves it${one.why ? `: ${one.why}` : ""}`}
                </span>
                <span className="nums">
                  {showCount(one.ready)} wait, {showCount(one.running)} run
                </span>
              </li>
            ))}
          </Card>
          <Card title="Workers" icon="workers" to="/workers" empty={Object.keys(data.workers.counts).length ? null : "There is no worker: runs can be started, but nothing runs."}>
            <li>
              <span className="grow">
                {showCount(data.workers.busy)} of {showCount(data.workers.capacity)} busy
              </span>
              <span className="overview-meter">
                <Meter value={data.workers.busy} most={data.workers.capacity} label="Busy" tone={data.workers.busy >= data.workers.capacity ? "orange" : undefined} />
              </span>
            </li>
            <li>
              {Object.entries(data.workers.counts).map(([status, count]) => (
                <StatusBadge key={status} status={status} label={`${count} ${status}`} />
              ))}
            </li>
            <li>
              <span className="muted grow">
                {Object.entries(data.workers.versions)
                  .map(([version, count]) => `${count} × version ${version}`)
                  .join(", ")}
              </span>
            </li>
            {oldest.length > 0 && (
              <li>
                <span className="grow">Oldest node that waits for a worker</span>
                <Duration since={Math.min(...oldest)} />
              </li>
            )}
            {unserved.length > 0 && <li className="overview-bad">{unserved.length === 1 ? "One queue is" : `${unserved.length} queues are`} served by nobody</li>}
          </Card>
          <Doctor store={data.store} />
        </div>
      </div>
    </div>
  );
}

const byNeed = (a: Queue, b: Queue): number => Number(b.ready > 0 && !b.served_by.length) - Number(a.ready > 0 && !a.served_by.length) || b.ready - a.ready || b.running - a.running;

function Figure({ name, to, value, tone, children }: { name: string; to: string; value: number; tone?: string | undefined; children: ReactNode }) {
  return (
    <Link to={to} data-tone={tone}>
      <span>{name}</span> <b>{showCount(value)}</b> <small className="muted">{children}</small>
    </Link>
  );
}

export function Card({ title, icon, to, empty, children }: { title: string; icon: IconName; to?: string; empty: string | null; children: ReactNode }) {
  return (
    <section className="card overview-card" aria-label={title}>
      <h2>
        <Icon name={icon} />
        <span className="grow">{title}</span>
        {to && (
          <Link to={to} aria-label={`All: ${title}`}>
            <Icon name="right" />
          </Link>
        )}
      </h2>
      {empty === null ? <ul>{children}</ul> : <p className="muted">{empty}</p>}
    </section>
  );
}
