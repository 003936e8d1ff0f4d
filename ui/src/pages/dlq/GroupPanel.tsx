import { useState } from "react";
import { get } from "../../api/client.ts";
import type { DeadLetter, LetterGroup, Page } from "../../api/types.ts";
import { useQuery } from "../../api/useQuery.ts";
import { Button, Failure, Fault, Icon, Loading, Time } from "../../components/index.ts";
import { shellWord, showCount } from "../../lib/format.ts";
import { Link } from "../../lib/router.tsx";
import { DiscardDialog, RetryDialog } from "./actions.tsx";

interface GroupPanelProps {
  group: LetterGroup;
  status: string;
  onOpen: (id: string) => void;
  onClose: () => void;
  onChanged: () => void;
}

const SHOWN = 200;

/** Dead letters with one cause: the error, the letters, and what to do with them. */
export function GroupPanel({ group, status, onOpen, onClose, onChanged }: GroupPanelProps) {
  const { fingerprint, example } = group;
  const letters = useQuery(
    `${fingerprint} ${status}`,
    (signal) => get<Page<DeadLetter>>("/dlq", { query: { fingerprint, status, limit: SHOWN }, signal }),
    `${group.count} ${group.last_at}`,
  );
  const [picked, setPicked] = useState<ReadonlySet<string>>(new Set());
  const [open, setOpen] = useState<"retry" | "discard" | null>(null);
  const rows = letters.data?.items ?? [];
  const some = rows.filter((one) => picked.has(one.id)).map((one) => one.id);
  const count = some.length || group.count;
  const find = async (): Promise<string[]> => {
    if (some.length) return some;
    const found: string[] = [];
    let cursor: string | null = null;
    do {
      const page: Page<DeadLetter> = await get("/dlq", { query: { fingerprint, status: "pending", limit: 1000, cursor } });
      found.push(...page.items.map((one) => one.id));
      cursor = page.next;
    } while (cursor !== null);
    return found;
  };
  const words = some.length ? some.map(shellWord).join(" ") : `--fingerprint ${fingerprint}`;
  const many = { count, words, onClose: () => setOpen(null), onChanged };
  const toggle = (id: string): void => {
    const next = new Set(picked);
    if (!next.delete(id)) next.add(id);
    setPicked(next);
  };
  return (
    <div className="letter-panel">
      <header className="section">
        <div className="row">
          <h2 className="grow truncate">
            {showCount(group.count)} × {example.workflow} · {example.node_id}
          </h2>
          <Button kind="plain" icon="close" aria-label="Close" onClick={onClose} />
        </div>
        <p className="muted">
          first <Time at={group.first_at} />, last <Time at={group.last_at} /> · <code>{fingerprint}</code>
        </p>
      </header>
      <section className="section">
        <Fault error={example.error} />
      </section>
      <section className="section letter-actions">
        {status === "pending" && (
          <>
            <Button kind="primary" icon="retry" onClick={() => setOpen("retry")}>
              Retry {some.length ? `${some.length} picked` : `all ${showCount(group.count)}`}…
            </Button>
            <Button kind="danger" icon="trash" onClick={() => setOpen("discard")}>
              Discard {some.length ? "them" : "all"}…
            </Button>
          </>
        )}
        <span className="grow" />
        <Link className="button" to={`/runs/${example.run_id}?node=${encodeURIComponent(example.node_id)}`}>
          Example run <Icon name="right" />
        </Link>
      </section>
      <section className="section grow">
        <h3>Letters</h3>
        {letters.data ? (
          <ul className="letters">
            {rows.map((one) => (
              <li key={one.id}>
                {status === "pending" && <input type="checkbox" aria-label={`Pick ${one.id}`} checked={picked.has(one.id)} onChange={() => toggle(one.id)} />}
                <button type="button" onClick={() => onOpen(one.id)}>
                  <span className="mono truncate grow">
                    …{one.run_id.slice(-10)}
                    {one.scope.length > 0 && ` [${one.scope.join(".")}]`}
                    {one.held && <span className="tag">held</span>}
                  </span>
                  {one.why && <span className="muted truncate">{one.why}</span>}
                  <span className="muted nums">{one.attempts === 1 ? "1 attempt" : `${one.attempts} attempts`}</span>
                  <Time at={one.at} />
                  <Icon name="right" />
                </button>
              </li>
            ))}
            {letters.data.next && <li className="muted">These are the oldest {SHOWN}; retrying takes all of them.</li>}
          </ul>
        ) : letters.error ? (
          <Failure error={letters.error} onRetry={letters.reload} />
        ) : (
          <Loading />
        )}
      </section>
      {open === "retry" && <RetryDialog {...many} picked={some.length ? { ids: some } : { fingerprint }} />}
      {open === "discard" && <DiscardDialog {...many} find={find} words={some.length ? words : "ID …"} />}
    </div>
  );
}
