import { statusKey } from "../../components/index.ts";
import { showCount, showLocal } from "../../lib/format.ts";
import { Link } from "../../lib/router.tsx";
import type { Overview } from "./OverviewPage.tsx";

const ORDER = ["COMPLETED", "RUNNING", "PENDING", "PAUSED", "COMPENSATING", "CANCELLED", "FAILED"];
const HEIGHT = 88;

/** Runs of the last day, by the hour in which they were created and by how they are now. */
export function Strip({ recent }: { recent: Overview["runs"]["recent"] }) {
  const totals = recent.buckets.map((one) => Object.values(one.counts).reduce((sum, count) => sum + count, 0));
  const most = Math.max(1, ...totals);
  const seen = ORDER.filter((one) => recent.counts[one]);
  return (
    <section className="day" aria-label="Runs of the last day">
      <div className="day-head">
        <h2>Runs of the last day</h2>
        <span className="day-legend">
          {seen.map((one) => (
            <Link key={one} to={`/runs?q=status:${statusKey(one)}`}>
              <span className="dot" data-status={statusKey(one)} /> {statusKey(one)} <b className="nums">{showCount(recent.counts[one]!)}</b>
            </Link>
          ))}
        </span>
        {!recent.complete && <span className="muted">only the newest {showCount(recent.counted)} were counted</span>}
      </div>
      <div className="day-bars" style={{ height: HEIGHT }}>
        {recent.buckets.map((one, at) => (
          <Link key={one.from} to={`/runs?q=${encodeURIComponent(`since:${one.from} until:${new Date(Date.parse(one.from) + recent.bucket_ms).toISOString()}`)}`} aria-label={`${totals[at]} runs from ${showLocal(Date.parse(one.from))}`} title={`${showLocal(Date.parse(one.from))}: ${totals[at]} runs\n${ORDER.filter((status) => one.counts[status]).map((status) => `${statusKey(status)} ${one.counts[status]}`).join(", ")}`}>
            {ORDER.filter((status) => one.counts[status]).map((status) => (
              <span key={status} data-status={statusKey(status)} style={{ height: Math.max(2, (one.counts[status]! / most) * HEIGHT) }} />
            ))}
          </Link>
        ))}
      </div>
      <div className="day-axis muted">
        <span>a day ago</span>
        <span>12 hours</span>
        <span>now</span>
      </div>
    </section>
  );
}
