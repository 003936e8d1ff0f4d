import type { LetterGroup } from "../../api/types.ts";
import { Time, type Column } from "../../components/index.ts";
import { showCount } from "../../lib/format.ts";
import { Link } from "../../lib/router.tsx";
import { ListPage } from "../ListPage.tsx";

const leadsTo = (one: LetterGroup): string => `/runs/${one.example.run_id}?node=${encodeURIComponent(one.example.node_id)}`;

const COLUMNS: readonly Column<LetterGroup>[] = [
  { id: "count", head: "Count", width: "80px", align: "right", cell: (one) => <span className="nums">{showCount(one.count)}</span> },
  { id: "error", head: "Error", cell: (one) => <Link to={leadsTo(one)}>{String(one.example.error.message ?? one.example.reason)}</Link> },
  { id: "where", head: "Where", width: "24%", minor: true, cell: (one) => `${one.example.workflow} · ${one.example.node_id}` },
  { id: "last", head: "Last", width: "140px", align: "right", cell: (one) => <Time at={one.last_at} /> },
];

export default function DeadLettersPage() {
  return (
    <ListPage
      title="Dead letters"
      path="/dlq/groups"
      query={{ status: "pending" }}
      columns={COLUMNS}
      keyOf={(one) => one.fingerprint}
      leadsTo={leadsTo}
      empty={{ icon: "check", title: "No dead letters", text: "What fails for good is kept here, grouped by its cause, until somebody retries or discards it." }}
    />
  );
}
