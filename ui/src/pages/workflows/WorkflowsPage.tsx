import type { Workflow } from "../../api/types.ts";
import { Time, type Column } from "../../components/index.ts";
import { Link } from "../../lib/router.tsx";
import { ListPage } from "../ListPage.tsx";

const leadsTo = (one: Workflow): string => `/workflows/${encodeURIComponent(one.name)}`;

const COLUMNS: readonly Column<Workflow>[] = [
  { id: "name", head: "Workflow", width: "28%", cell: (one) => <Link to={leadsTo(one)}>{one.name}</Link> },
  { id: "version", head: "Version", width: "90px", cell: (one) => <span className="nums">v{one.version}</span> },
  { id: "description", head: "Description", minor: true, cell: (one) => <span className="muted">{one.description}</span> },
  { id: "created", head: "Deployed", width: "150px", align: "right", cell: (one) => <Time at={one.created_at} /> },
];

export default function WorkflowsPage() {
  return (
    <ListPage
      title="Workflows"
      path="/workflows"
      columns={COLUMNS}
      keyOf={(one) => one.name}
      leadsTo={leadsTo}
      empty={{ icon: "workflows", title: "No workflow is deployed", text: "Deploy one: minuet deploy order.yaml" }}
    />
  );
}
