import { useEffect, useMemo, useRef, useState } from "react";
import { get } from "../../api/client.ts";
import type { Approval, Page } from "../../api/types.ts";
import { useQuery } from "../../api/useQuery.ts";
import { Countdown, Empty, Failure, Loading, Segments, Time } from "../../components/index.ts";
import { useShortcuts } from "../../lib/keys.ts";
import { useMe, whyNot, type Me } from "../../lib/me.ts";
import { navigate, useQueryParam } from "../../lib/router.tsx";
import { useFeed } from "../../live/feed.ts";
import { ApprovalView } from "../approval/ApprovalView.tsx";
import { agreed } from "../approval/decide.ts";
import "./approvals.css";

const isMine = (me: Me | null, one: Approval): boolean => me === null || !me.name || whyNot(me, one) === null;
const isNarrow = (): boolean => matchMedia("(max-width: 720px)").matches;

/** What waits for people: the list, and beside it what is asked. */
export default function ApprovalsPage() {
  const me = useMe();
  const [show, setShow] = useQueryParam("show", "mine");
  const [chosen, setChosen] = useQueryParam("id");
  const status = show === "decided" ? "all" : "pending";
  const { data, error, reload } = useQuery(status, (signal) => get<Page<Approval>>("/approvals", { query: { status, limit: 200 }, signal }));
  const all = data?.items ?? [];
  const mine = useMemo(() => all.filter((one) => isMine(me, one)), [data, me?.name, me?.groups.join()]);
  const rowsOf = (list: string): Approval[] => (list === "mine" ? mine : list === "decided" ? all.filter((one) => one.status !== "pending") : all);
  const rows = rowsOf(show);
  const at = rows.findIndex((one) => one.id === chosen);
  // The one that is open stays open when it leaves the list: others decide, and runs end.
  const kept = useQuery(data && chosen && at < 0 ? chosen : null, (signal) => get<Approval>("/approvals/{id}", { path: { id: chosen }, signal }));
  const last = useRef<{ at: number; one: Approval | null }>({ at: 0, one: null });
  if (at >= 0) last.current = { at, one: rows[at]! };
  const one = rows[at] ?? kept.data ?? (last.current.one?.id === chosen ? last.current.one : null);
  const again = (): void => {
    reload();
    kept.reload();
  };
  useFeed({
    onEvents: (events) => events.some((event) => /^node\.(waiting|resumed|repaired)$|^run\.(failed|cancelled|retried|completed)$/.test(event.type)) && again(),
    onReset: again,
  });

  const open = (id: string): void => (isNarrow() ? navigate(`/approvals/${encodeURIComponent(id)}`) : setChosen(id));
  const move = (step: number): void => {
    // In place of one that has left the list is the one that came after it.
    const from = at >= 0 ? at : last.current.at - (step > 0 ? 1 : 0);
    const next = rows[Math.max(0, Math.min(rows.length - 1, from + step))];
    if (next) setChosen(next.id);
  };
  useShortcuts([
    { keys: "j", label: "Approvals: next", run: () => move(1) },
    { keys: "k", label: "Approvals: previous", run: () => move(-1) },
    { keys: "Enter", label: "Approvals: open on a page of its own", run: () => one && navigate(`/approvals/${encodeURIComponent(one.id)}`) },
  ]);
  // The first one is opened, and after somebody's own decision the one that takes its place. Nothing else puts another
  // approval under somebody's hands.
  const [decided, setDecided] = useState("");
  useEffect(() => {
    if (!data || !me) return;
    if (at >= 0) {
      // It waits for more people: what they decide is not this person's decision.
      if (chosen === decided && rows[at]!.decisions.some((made) => made.by === me.name)) setDecided("");
    } else if (!chosen) setChosen(isNarrow() ? "" : (rows[0]?.id ?? ""));
    else if (chosen === decided) setChosen(rows[Math.min(last.current.at, rows.length - 1)]?.id ?? "");
  }, [data, me !== null, chosen, at, decided]);

  return (
    <div className="page">
      <div className="page-head">
        <h1>Approvals</h1>
        <Segments
          label="Which approvals"
          chosen={show}
          onChoose={(next) => {
            setShow(next);
            if (!rowsOf(next).some((row) => row.id === chosen)) setChosen("");
          }}
          options={[
            { id: "mine", label: "For me", ...(data && status === "pending" ? { count: mine.length } : {}) },
            { id: "all", label: "All that wait", ...(data && status === "pending" ? { count: all.length } : {}) },
            { id: "decided", label: "Over" },
          ]}
        />
      </div>
      {data ? (
        rows.length || (chosen && !isNarrow()) ? (
          <div className="inbox">
            <ul className="inbox-list" aria-label="Approvals">
              {rows.map((row) => (
                <Row key={row.id} row={row} isChosen={row.id === one?.id} onOpen={() => open(row.id)} />
              ))}
              {rows.length === 0 && <li className="muted page-pad">Nothing else waits here.</li>}
              {data.next && <li className="muted page-pad">There are more; these wait the longest.</li>}
            </ul>
            <div className="inbox-one">
              {one ? (
                <ApprovalView
                  key={one.id}
                  asked={one}
                  me={me}
                  onChanged={() => {
                    setDecided(one.id);
                    again();
                  }}
                />
              ) : (
                chosen && (kept.error ? <Failure error={kept.error} onRetry={kept.reload} /> : <Loading />)
              )}
            </div>
          </div>
        ) : (
          <Nothing show={show} others={all.length} onAll={() => setShow("all")} name={me?.name ?? ""} />
        )
      ) : error ? (
        <Failure error={error} onRetry={reload} />
      ) : (
        <Loading />
      )}
    </div>
  );
}

function Row({ row, isChosen, onOpen }: { row: Approval; isChosen: boolean; onOpen: () => void }) {
  const item = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (isChosen) item.current?.scrollIntoView({ block: "nearest" });
  }, [isChosen]);
  return (
    <li ref={item}>
      <button type="button" className="inbox-row" aria-current={isChosen || undefined} onClick={onOpen}>
        <span className="inbox-title">{row.title ?? row.node_id}</span>
        <span className="inbox-line">
          <span className="truncate grow">
            {row.workflow} · {row.node_id}
          </span>
          {row.status === "pending" ? (
            row.timeout_at ? (
              <Countdown until={row.timeout_at} short />
            ) : (
              <Time at={row.created_at} />
            )
          ) : (
            <span data-tone={row.decision === "approve" ? "green" : "red"}>{row.status === "decided" ? (row.decision === "approve" ? "approved" : "rejected") : row.status === "timeout" ? "time over" : "withdrawn"}</span>
          )}
        </span>
        <span className="inbox-line">
          <span className="truncate grow">{row.status === "pending" ? `for ${row.approvers.join(", ") || "anybody"}` : (row.decisions.at(-1)?.by ?? "")}</span>
          {row.quorum > 1 && (
            <span className="nums">
              {agreed(row)} of {row.quorum}
            </span>
          )}
        </span>
      </button>
    </li>
  );
}

function Nothing({ show, others, onAll, name }: { show: string; others: number; onAll: () => void; name: string }) {
  if (show === "decided") {
    return (
      <Empty icon="approvals" title="Nothing was decided yet">
        <p>Decisions stay in the history of their runs, and are listed here.</p>
      </Empty>
    );
  }
  if (show === "mine" && others > 0) {
    return (
      <Empty icon="check" title={`Nothing waits for ${name || "you"}`}>
        <p>
          {others === 1 ? "One approval waits" : `${others} approvals wait`} for others.{" "}
          <button type="button" className="link-button" onClick={onAll}>
            Show all
          </button>
        </p>
      </Empty>
    );
  }
  return (
    <Empty icon="approvals" title="Nothing waits for a decision">
      <p>
        Approvals appear here as soon as a run asks for one: a node of the type <code>human</code>, or <code>ctx.approve</code> in a durable function.
      </p>
    </Empty>
  );
}
