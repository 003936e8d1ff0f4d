import { useState, type ReactNode } from "react";
import { get, post } from "../api/client.ts";
import type { Approval, Page, Run, Shape } from "../api/types.ts";
import { useEvery, useQuery } from "../api/useQuery.ts";
import { Button, Icon, toast } from "../components/index.ts";
import { useMe } from "../lib/me.ts";
import { Link } from "../lib/router.tsx";
import { KeptStore, useStore } from "../lib/store.ts";
import { useFeed } from "../live/feed.ts";
import "./first.css";

/** The run whose guide was closed. */
const closed = new KeptStore<string>("first", "");

/** Beside the sample of `minuet dev`: what has happened in it, and what to try next. */
export function FirstMinute({ path }: { path: string }) {
  const isClosed = useStore(closed);
  const { data, reload } = useQuery("dev", (signal) => get<Shape<"Dev">>("/dev", { signal }).catch(() => null));
  const sample = data?.sample;
  if (!sample || isClosed === sample.run_id || (path !== "/overview" && path !== `/runs/${sample.run_id}`)) return null;
  return <Guide sample={sample} isThere={path !== "/overview"} onLook={reload} onClose={() => closed.set(sample.run_id)} />;
}

interface GuideProps {
  sample: Shape<"Sample">;
  /** Whether this is the page of the run. */
  isThere: boolean;
  onLook: () => void;
  onClose: () => void;
}

/** What was so when the worker was killed. */
interface Kill {
  pid: number;
  seq: number;
}

function Guide({ sample, isThere, onLook, onClose }: GuideProps) {
  const me = useMe();
  const [kill, setKill] = useState<Kill | null>(null);
  const run = useQuery(`first ${sample.run_id}`, (signal) => get<Run>("/runs/{run_id}", { path: { run_id: sample.run_id }, signal }));
  const asked = useQuery(`first approvals ${sample.run_id}`, (signal) => get<Page<Approval>>("/approvals", { query: { run_id: sample.run_id }, signal }));
  const look = (): void => {
    run.reload();
    asked.reload();
    onLook();
  };
  useFeed({ onEvents: (events) => void (events.some((one) => one.run_id === sample.run_id) && look()), onReset: look });
  // Nothing tells of a process that was started.
  useEvery(1000, () => void (kill && onLook()));
  if (!run.data) return null;
  const { nodes, status, seq } = run.data;
  const retried = Object.keys(nodes).find((id) => (nodes[id]?.attempts ?? 0) > 1);
  const approval = asked.data?.items[0] ?? null;
  const isOver = status === "COMPLETED" || status === "FAILED" || status === "CANCELLED";
  const isBack = kill !== null && sample.pid !== null && sample.pid !== kill.pid;
  const wentOn = kill !== null && (isOver || (isBack && seq > kill.seq));
  const act = async (what: () => Promise<unknown>): Promise<void> => {
    try {
      await what();
      look();
    } catch (error) {
      toast((error as Error).message, "failed");
    }
  };
  const approve = (id: string): Promise<unknown> => post("/approvals/{id}/decide", { path: { id }, body: { decision: "approve", ...(me?.isGiven ? { decided_by: me.name || "you", groups: me.groups } : {}) } });
  const killWorker = async (): Promise<void> => {
    const { pid } = await post<Shape<"Killed">>("/dev/kill-worker");
    setKill({ pid, seq });
  };
  return (
    <aside className="first" aria-label="The first minute">
      <ol>
        <Step isDone={retried !== undefined}>{retried ? <>{retried} failed once and was tried again.</> : "The run has begun: one of its nodes will fail, and be tried again."}</Step>
        <Step isDone={approval === null && (isOver || nodes.approve?.status === "COMPLETED")} isNow={approval !== null}>
          {approval ? (
            <>
              It waits for you.{" "}
              <Button kind="primary" twin={`minuet approvals approve ${approval.id}`} onClick={() => void act(() => approve(approval.id))}>
                Approve
              </Button>{" "}
              <Link to={`/approvals/${encodeURIComponent(approval.id)}`}>What it asks</Link>
            </>
          ) : nodes.approve?.status === "COMPLETED" ? (
            "You have approved it."
          ) : isOver ? (
            "It was decided."
          ) : (
            "Then it will wait for you to approve."
          )}
        </Step>
        <Step isDone={wentOn} isNow={approval === null && !isOver && kill === null && nodes.approve?.status === "COMPLETED"}>
          {kill === null ? (
            isOver ? (
              "Kill the worker while the next one runs."
            ) : (
              <>
                Now kill the worker, for real:{" "}
                <Button kind="danger" icon="stop" disabled={sample.pid === null || approval !== null} twin={`kill -9 ${sample.pid ?? "PID"}`} onClick={() => void act(killWorker)}>
                  Kill process {sample.pid ?? "…"}
                </Button>
              </>
            )
          ) : (
            <span role="status">
              Process {kill.pid} is dead{!isBack && !isOver && "; another one is being started"}.{isBack && ` Process ${sample.pid} has taken its place`}
              {isBack && (wentOn ? ", and the run went on where it was." : "; what the dead one held is given to it when its lease ends, within 2 s.")}
            </span>
          )}
        </Step>
        {isOver && (
          <Step isDone>
            The run is over. <Link to={`/editor?workflow=${encodeURIComponent(sample.workflow)}`}>Change the workflow and run it again</Link>
          </Step>
        )}
      </ol>
      {!isThere && <Link to={`/runs/${sample.run_id}`}>The sample’s run</Link>}
      <Button kind="plain" icon="close" aria-label="Close the guide" onClick={onClose} />
    </aside>
  );
}

const Step = ({ isDone = false, isNow = false, children }: { isDone?: boolean; isNow?: boolean; children: ReactNode }) => (
  <li data-done={isDone || undefined} data-now={isNow || undefined}>
    {isDone && <Icon name="check" />}
    <span>{children}</span>
  </li>
);
