import { showDuration, showLocal } from "../lib/format.ts";
import { Link } from "../lib/router.tsx";
import { statusKey } from "./StatusBadge.tsx";

interface Run {
  run_id: string;
  status: string;
  created_at: string;
  duration_ms: number | null;
}

/** The newest runs as small squares, the newest on the right. */
export function Squares({ runs }: { runs: readonly Run[] }) {
  return (
    <span className="squares">
      {[...runs].reverse().map((one) => {
        const text = `${statusKey(one.status)}${one.duration_ms === null ? "" : ` in ${showDuration(one.duration_ms)}`}, ${showLocal(Date.parse(one.created_at))}`;
        return <Link key={one.run_id} to={`/runs/${one.run_id}`} data-status={statusKey(one.status)} aria-label={text} title={text} />;
      })}
    </span>
  );
}
