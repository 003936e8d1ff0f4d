import { get } from "../../api/client.ts";
import type { Approval } from "../../api/types.ts";
import { useQuery } from "../../api/useQuery.ts";
import type { PageProps } from "../../app/routes.ts";
import { CopyButton, Failure, Icon, Loading } from "../../components/index.ts";
import { useMe } from "../../lib/me.ts";
import { Link } from "../../lib/router.tsx";
import { useFeed } from "../../live/feed.ts";
import { ApprovalView } from "./ApprovalView.tsx";

/** One approval on a page of its own: for links, and for the phone. */
export default function ApprovalPage({ params }: PageProps) {
  const id = params.id!;
  const me = useMe();
  const { data, error, reload } = useQuery(id, (signal) => get<Approval>("/approvals/{id}", { path: { id }, signal }));
  const run = id.split(":")[0]!;
  useFeed({ onEvents: (events) => events.some((one) => one.run_id.startsWith(run)) && reload(), onReset: reload });
  return (
    <div className="page">
      {data && <title>{`${data.title ?? data.node_id} · Minuet`}</title>}
      <div className="page-head">
        <Link to="/approvals" className="back-link">
          <Icon name="back" /> Approvals
        </Link>
        <span className="grow" />
        <CopyButton text={location.href} label="Copy the address of this approval" />
      </div>
      <div className="page-body">
        {data ? <ApprovalView asked={data} me={me} onChanged={reload} /> : error ? <Failure error={error} onRetry={reload} /> : <Loading />}
      </div>
    </div>
  );
}
