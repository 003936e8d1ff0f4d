import { useRef, useState } from "react";
import { post } from "../../api/client.ts";
import type { Shape } from "../../api/types.ts";
import { useQuery } from "../../api/useQuery.ts";
import { Button, CodeBlock, Dialog, StatusDot } from "../../components/index.ts";
import { shellOption, showCount } from "../../lib/format.ts";

type ManyChanged = Shape<"ManyChanged">;
export type BulkAction = ManyChanged["action"];

/** What is to be changed: these runs, or the newest that fit a filter. */
export type Chosen = { ids: string[] } | { q: string };

export const BULK: readonly BulkAction[] = ["cancel", "pause", "resume", "retry", "delete"];
const MOST = 1000;
/** Runs in one call: between two, the progress is shown and somebody can stop. */
const CHUNK = 25;
const SHOWN_MAX = 100;

const change = (action: BulkAction, body: Record<string, unknown>, signal?: AbortSignal): Promise<ManyChanged> =>
  post<ManyChanged>(action === "delete" ? "/runs/bulk/delete" : "/runs/bulk", { body: action === "delete" ? body : { ...body, action }, signal });

/** A change of many runs: first what would become of each, then the progress. */
export function Bulk({ action, chosen, onClose }: { action: BulkAction; chosen: Chosen; onClose: (isDone: boolean) => void }) {
  const [reason, setReason] = useState("");
  const [done, setDone] = useState<ManyChanged["items"] | null>(null);
  const [state, setState] = useState<"asking" | "working" | "over">("asking");
  const [error, setError] = useState<Error | null>(null);
  const stopped = useRef(false);
  const wanted = "ids" in chosen ? { run_ids: chosen.ids.slice(0, MOST) } : { q: chosen.q, limit: MOST };
  const preview = useQuery(`${action} ${JSON.stringify(wanted)}`, (signal) => change(action, { ...wanted, preview: true }, signal));
  const changing = preview.data?.items.filter((one) => one.changed) ?? [];
  const refused = preview.data?.items.filter((one) => !one.changed) ?? [];
  const work = async (): Promise<void> => {
    setState("working");
    const ids = changing.map((one) => one.run_id);
    const items: ManyChanged["items"] = [];
    try {
      for (let at = 0; at < ids.length && !stopped.current; at += CHUNK) {
        const body = { run_ids: ids.slice(at, at + CHUNK), ...(action === "cancel" && reason ? { reason } : {}) };
        items.push(...(await change(action, body)).items);
        setDone([...items]);
      }
    } catch (failure) {
      setError(failure as Error);
    }
    setState("over");
  };
  const close = (): void => {
    stopped.current = true;
    onClose(state !== "asking");
  };
  const name = action[0]!.toUpperCase() + action.slice(1);
  const failed = done?.filter((one) => !one.changed) ?? [];
  const because = action === "cancel" && reason ? ` ${shellOption("--reason", reason)}` : "";
  const twin =
    "ids" in chosen
      ? `minuet runs ${action} ${chosen.ids.slice(0, MOST).join(" ")}${because}`
      : `minuet runs ${action} ${shellOption("--filter", chosen.q)} --limit ${MOST}${because} --yes`;
  return (
    <Dialog
      title={`${name} ${"ids" in chosen ? `${showCount(Math.min(chosen.ids.length, MOST))} runs` : "the runs that fit"}`}
      onClose={close}
      foot={
        state === "asking" ? (
          <>
            <Button kind="plain" onClick={close}>
              Leave it
            </Button>
            <Button kind={action === "cancel" || action === "delete" ? "danger" : "primary"} disabled={changing.length === 0} onClick={() => void work()}>
              {name} {showCount(changing.length)}
            </Button>
          </>
        ) : (
          <Button onClick={state === "working" ? () => (stopped.current = true) : close}>{state === "working" ? "Stop" : "Close"}</Button>
        )
      }
    >
      {state === "asking" ? (
        <div className="bulk">
          {preview.error && <p className="run-error">{preview.error.message}</p>}
          {!preview.data && !preview.error && <p className="muted">Asking the server what would happen…</p>}
          {preview.data && (
            <p role="status">
              <b>{showCount(changing.length)}</b> would change{refused.length > 0 && <>, {showCount(refused.length)} would not</>}.
              {preview.data.next && <> There are more: these are the newest {showCount(MOST)}.</>}
            </p>
          )}
          <Items items={[...changing, ...refused]} />
          {action === "cancel" && <input className="field" aria-label="Why" placeholder="Why (stored with the runs)" value={reason} onChange={(event) => setReason(event.target.value)} />}
          <CodeBlock text={twin} />
        </div>
      ) : (
        <div className="bulk">
          <progress max={changing.length} value={done?.length ?? 0} aria-label="Progress" />
          <p role="status">
            {showCount((done?.length ?? 0) - failed.length)} of {showCount(changing.length)} changed{failed.length > 0 && <>, {showCount(failed.length)} refused</>}
            {state === "over" && stopped.current && <>; stopped</>}.
          </p>
          {error && <p className="run-error">{error.message}</p>}
          <Items items={failed} />
        </div>
      )}
    </Dialog>
  );
}

function Items({ items }: { items: ManyChanged["items"] }) {
  if (items.length === 0) return null;
  return (
    <ul className="bulk-items">
      {items.slice(0, SHOWN_MAX).map((one) => (
        <li key={one.run_id} data-refused={!one.changed || undefined}>
          <StatusDot status={one.status ?? "unknown"} />
          <span className="truncate">{one.workflow ?? "gone"}</span>
          <span className="mono muted">…{one.run_id.slice(-8)}</span>
          <span className="truncate grow muted" title={one.why ?? undefined}>
            {one.why?.replace(`run ${one.run_id}: `, "") ?? ""}
          </span>
        </li>
      ))}
      {items.length > SHOWN_MAX && <li className="muted">and {showCount(items.length - SHOWN_MAX)} more</li>}
    </ul>
  );
}
