import type { Worker } from "../../api/types.ts";
import { StatusBadge, Time, type Column } from "../../components/index.ts";
import { ListPage } from "../ListPage.tsx";

const COLUMNS: readonly Column<Worker>[] = [
  { id: "status", head: "Status", width: "120px", cell: (one) => <StatusBadge status={one.status} /> },
  { id: "name", head: "Worker", cell: (one) => one.name },
  { id: "host", head: "Host", width: "18%", minor: true, cell: (one) => `${one.host} · ${one.pid}` },
  { id: "queues", head: "Queues", width: "24%", minor: true, cell: (one) => one.queues.join(", ") },
  { id: "busy", head: "Busy", width: "90px", align: "right", cell: (one) => <span className="nums">{`${one.busy} / ${one.concurrency}`}</span> },
  { id: "seen", head: "Seen", width: "120px", align: "right", cell: (one) => <Time at={one.last_seen_at} /> },
];

export default function WorkersPage() {
  return (
    <ListPage
      title="Workers"
      path="/workers"
      columns={COLUMNS}
      keyOf={(one) => one.id}
      leadsTo={() => "/workers"}
      empty={{ icon: "workers", title: "No workers", text: "Nothing runs until a worker is there: minuet worker" }}
    />
  );
}
