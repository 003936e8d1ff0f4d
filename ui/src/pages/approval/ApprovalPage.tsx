import { get } from "../../api/client.ts";
import type { Approval } from "../../api/types.ts";
import { useQuery } from "../../api/useQuery.ts";
import type { PageProps } from "../../app/routes.ts";
import { CodeBlock, Failure, Json, Loading, StatusBadge, Time } from "../../components/index.ts";
import { Link } from "../../lib/router.tsx";
import { shellWord } from "../../lib/format.ts";

export default function ApprovalPage({ params }: PageProps) {
  const id = params.id!;
  const { data, error, reload } = useQuery(id, (signal) => get<Approval>("/approvals/{id}", { path: { id }, signal }));
  if (error) return <Failure error={error} onRetry={reload} />;
  if (!data) return <Loading />;
  return (
    <div className="page">
      <div className="page-head">
        <h1>{data.title ?? data.node_id}</h1>
        <StatusBadge status={data.status} />
      </div>
      <div className="page-body page-pad" style={{ display: "grid", gap: 16, alignContent: "start", maxWidth: 720 }}>
        {data.description && <p>{data.description}</p>}
        <dl className="facts">
          <dt>Run</dt>
          <dd>
            <Link to={`/runs/${data.run_id}?node=${encodeURIComponent(data.node_id)}`}>
              {data.workflow} · {data.node_id}
            </Link>
          </dd>
          <dt>Since</dt>
          <dd>
            <Time at={data.created_at} />
          </dd>
          <dt>Deadline</dt>
          <dd>
            <Time at={data.timeout_at} />
          </dd>
        </dl>
        <Json value={data.payload} label="Payload" />
        <CodeBlock text={`minuet approvals approve ${shellWord(data.id)}\nminuet approvals reject ${shellWord(data.id)}`} />
      </div>
    </div>
  );
}
