import type { Approval } from "../../api/types.ts";
import { Time, type Column } from "../../components/index.ts";
import { Link } from "../../lib/router.tsx";
import { ListPage } from "../ListPage.tsx";

const leadsTo = (one: Approval): string => `/approvals/${encodeURIComponent(one.id)}`;

const COLUMNS: readonly Column<Approval>[] = [
  { id: "title", head: "Asked", cell: (one) => <Link to={leadsTo(one)}>{one.title ?? one.node_id}</Link> },
  { id: "workflow", head: "Workflow", width: "20%", cell: (one) => one.workflow },
  { id: "deadline", head: "Deadline", width: "140px", align: "right", minor: true, cell: (one) => <Time at={one.timeout_at} /> },
  { id: "since", head: "Since", width: "140px", align: "right", cell: (one) => <Time at={one.created_at} /> },
];

export default function ApprovalsPage() {
  return (
    <ListPage
      title="Approvals"
      path="/approvals"
      query={{ status: "pending" }}
      columns={COLUMNS}
      keyOf={(one) => one.id}
      leadsTo={leadsTo}
      empty={{ icon: "approvals", title: "Nothing waits for a decision", text: "Approvals appear here as soon as a run asks for one." }}
    />
  );
}
