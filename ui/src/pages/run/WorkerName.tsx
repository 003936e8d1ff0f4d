import { get } from "../../api/client.ts";
import type { Page, Shape } from "../../api/types.ts";
import { useQuery } from "../../api/useQuery.ts";
import { Link } from "../../lib/router.tsx";

/** The worker of a session, by its name. A worker that has started again has another session. */
export function WorkerName({ session, name }: { session: string; name?: string | null }) {
  const { data } = useQuery(name ? null : "workers", (signal) => get<Page<Shape<"Worker">>>("/workers", { signal }));
  const known = name ?? data?.items.find((one) => one.session === session)?.name;
  if (known) return <Link to="/workers">{known}</Link>;
  return <span title={`Session ${session}`}>{data ? "one that is gone" : "…"}</span>;
}
