/** A page with one list of the API: the first version of several pages. */

import type { ReactNode } from "react";
import { get } from "../api/client.ts";
import type { ApiPath, Page } from "../api/types.ts";
import { useQuery } from "../api/useQuery.ts";
import { Empty, Failure, Loading, Table, type Column, type IconName } from "../components/index.ts";
import { navigate } from "../lib/router.tsx";
import { useFeed } from "../live/feed.ts";

interface ListPageProps<T> {
  title: string;
  path: ApiPath;
  query?: Record<string, string>;
  columns: readonly Column<T>[];
  keyOf: (row: T) => string;
  leadsTo: (row: T) => string;
  empty: { icon: IconName; title: string; text: ReactNode };
}

export function ListPage<T>({ title, path, query = {}, columns, keyOf, leadsTo, empty }: ListPageProps<T>) {
  const { data, error, loading, reload } = useQuery(path, (signal) => get<Page<T>>(path, { query, signal }));
  useFeed({ onEvents: reload, onReset: reload });
  return (
    <div className="page">
      <div className="page-head">
        <h1>{title}</h1>
      </div>
      <div className="page-body">
        {data ? (
          data.items.length ? (
            <Table columns={columns} rows={data.items} keyOf={keyOf} onOpen={(row) => navigate(leadsTo(row))} label={title} />
          ) : (
            <Empty icon={empty.icon} title={empty.title}>
              <p>{empty.text}</p>
            </Empty>
          )
        ) : error ? (
          <Failure error={error} onRetry={reload} />
        ) : loading ? (
          <Loading />
        ) : null}
      </div>
    </div>
  );
}
