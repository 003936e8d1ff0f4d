import { useRef, useState } from "react";
import { get } from "../../api/client.ts";
import type { Shape } from "../../api/types.ts";
import { Button, Icon } from "../../components/index.ts";
import { showCount } from "../../lib/format.ts";
import { useCommands } from "../../lib/commands.ts";
import { Link } from "../../lib/router.tsx";

type Checkup = Shape<"Checkup">;

interface Examined {
  runs: number;
  findings: Checkup["findings"];
  overdue: number;
  state: "running" | "stopped" | "done";
  error: string;
}

/** Checks every invariant on every run, page by page, and can be stopped. */
export function Doctor({ store }: { store: string }) {
  const [now, setNow] = useState<Examined | null>(null);
  const stopped = useRef(false);
  const examine = async (): Promise<void> => {
    stopped.current = false;
    let found: Examined = { runs: 0, findings: [], overdue: 0, state: "running", error: "" };
    setNow(found);
    let cursor: string | null = null;
    try {
      do {
        const page: Checkup = await get("/doctor", { query: { limit: 200, cursor } });
        found = { ...found, runs: found.runs + page.runs, findings: [...found.findings, ...page.findings], overdue: found.overdue + page.overdue };
        setNow(found);
        cursor = page.next;
      } while (cursor !== null && !stopped.current);
      setNow({ ...found, state: stopped.current ? "stopped" : "done" });
    } catch (error) {
      setNow({ ...found, state: "stopped", error: (error as Error).message });
    }
  };
  useCommands([{ label: "Examine the store", icon: "heart", run: () => void examine() }]);
  return (
    <section className="card overview-card" aria-label="Health">
      <h2>
        <Icon name="heart" />
        <span className="grow">Health</span>
      </h2>
      <p className="muted">{store}</p>
      {now && (
        <div role="status">
          {now.findings.length ? (
            <>
              <p className="overview-bad">
                {showCount(now.findings.length)} {now.findings.length === 1 ? "problem" : "problems"} in {showCount(now.runs)} runs
              </p>
              <ul>
                {now.findings.slice(0, 20).map((one, at) => (
                  <li key={at}>
                    <code>{one.id}</code>
                    {one.run_id ? (
                      <Link className="truncate grow" to={`/runs/${one.run_id}`}>
                        {one.message}
                      </Link>
                    ) : (
                      <span className="truncate grow">{one.message}</span>
                    )}
                  </li>
                ))}
              </ul>
            </>
          ) : (
            <p className={now.state === "done" ? "overview-good" : "muted"}>
              {now.state === "running" ? "Examining…" : now.state === "done" ? "Sound:" : "So far sound:"} {showCount(now.runs)} runs examined, every invariant holds
            </p>
          )}
          {now.overdue > 0 && <p className="muted">{showCount(now.overdue)} leases and timers are due: the next sweep handles them.</p>}
          {now.error && <p className="overview-bad">{now.error}</p>}
        </div>
      )}
      <div className="overview-actions">
        {now?.state === "running" ? (
          <Button
            icon="stop"
            onClick={() => {
              stopped.current = true;
            }}
          >
            Stop
          </Button>
        ) : (
          <Button icon="heart" twin="minuet doctor" onClick={() => void examine()}>
            {now ? "Examine again" : "Examine the store"}
          </Button>
        )}
      </div>
    </section>
  );
}
