import { get } from "../../api/client.ts";
import type { Workflow } from "../../api/types.ts";
import { useQuery } from "../../api/useQuery.ts";
import type { PageProps } from "../../app/routes.ts";
import { Failure, Json, Loading, Time } from "../../components/index.ts";
import { Link } from "../../lib/router.tsx";

export default function WorkflowPage({ params }: PageProps) {
  const name = params.name!;
  const { data, error, reload } = useQuery(name, (signal) => get<Workflow>("/workflows/{name}", { path: { name }, signal }));
  if (error) return <Failure error={error} onRetry={reload} />;
  if (!data) return <Loading />;
  return (
    <div className="page">
      <div className="page-head">
        <h1>{data.name}</h1>
        <span className="muted nums">v{data.version}</span>
        <span className="grow" />
        <Link to={`/runs?q=${encodeURIComponent(`workflow:${data.name}`)}`}>Its runs</Link>
      </div>
      <div className="page-body page-pad" style={{ display: "grid", gap: 16, alignContent: "start" }}>
        {data.description && <p>{data.description}</p>}
        <p className="muted">
          Deployed <Time at={data.created_at} /> {data.created_by && `by ${data.created_by}`}
        </p>
        <Json value={data.document} label="Document" maxHeight={640} />
      </div>
    </div>
  );
}
