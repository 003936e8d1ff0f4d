import { get } from "../../api/client.ts";
import type { Shape } from "../../api/types.ts";
import { useQuery } from "../../api/useQuery.ts";
import { Duration, Failure, Loading } from "../../components/index.ts";

export default function OverviewPage() {
  const { data, error, reload } = useQuery("ready", (signal) => get<Shape<"Ready">>("/health/ready", { signal }));
  if (error) return <Failure error={error} onRetry={reload} />;
  if (!data) return <Loading />;
  return (
    <div className="page">
      <div className="page-head">
        <h1>Overview</h1>
      </div>
      <div className="page-body page-pad">
        <dl className="facts">
          <dt>Store</dt>
          <dd>{data.store}</dd>
          {Object.entries(data.workers ?? {}).map(([status, count]) => (
            <div key={status} style={{ display: "contents" }}>
              <dt>Workers {status}</dt>
              <dd className="nums">{count}</dd>
            </div>
          ))}
          <dt>Oldest waiting node</dt>
          <dd>
            <Duration ms={data.oldest_ms} />
          </dd>
        </dl>
      </div>
    </div>
  );
}
