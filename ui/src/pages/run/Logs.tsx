import { useEffect, useRef, useState } from "react";
import type { LogLine } from "../../api/types.ts";
import { CopyButton, Rows } from "../../components/index.ts";
import { showCount } from "../../lib/format.ts";
import { EventStream, type Message } from "../../live/stream.ts";
import type { RunModel } from "./model.ts";
import { Section } from "./NodePanel.tsx";

const ROW = 18;
const SHOWN = 16;
/** The newest lines that are kept here; the command line has all. */
const KEPT = 20_000;

/** What its handler has printed and logged, as it comes. */
export function Logs({ model, name, isRunning }: { model: RunModel; name: string; isRunning: boolean }) {
  const [level, setLevel] = useState("");
  const lines = useLines(model.id, name, model.history.run.generation);
  // Its last words may come after its end.
  const followed = useRef("");
  if (isRunning) followed.current = name;
  if (lines.length === 0) return null;
  const levels = [...new Set(lines.map((line) => line.level))];
  const shown = level ? lines.filter((line) => line.level === level) : lines;
  return (
    <Section
      title={
        <span className="row">
          <span className="grow">Logs: {showCount(lines.length)}</span>
          {levels.length > 1 && (
            <select className="field" aria-label="Level" value={level} onChange={(event) => setLevel(event.target.value)}>
              <option value="">all levels</option>
              {levels.map((one) => (
                <option key={one}>{one}</option>
              ))}
            </select>
          )}
          <CopyButton text={() => shown.map(textOf).join("\n")} label="Copy the logs" />
        </span>
      }
    >
      <div className="logs" style={{ height: Math.min(SHOWN, shown.length) * ROW + 8 }}>
        <Rows
          key={`${name} ${level}`}
          rows={shown}
          height={ROW}
          label="Logs"
          tail={followed.current === name}
          row={(line, top) => (
            <div key={top} className="log-line" style={{ top }} data-level={line.level} title={textOf(line)}>
              <span className="muted">{line.at.slice(11, 23)}</span> {line.text}
            </div>
          )}
        />
      </div>
    </Section>
  );
}

/** The lines of a node as the server sends them. A run that is retried has a new generation, and goes on. */
function useLines(run: string, node: string, generation: number): LogLine[] {
  const [found, setFound] = useState<{ node: string; lines: LogLine[] }>({ node, lines: [] });
  useEffect(() => {
    const byId = new Map<string, LogLine>();
    const take = (messages: Message[]): void => {
      // After a connection was lost, some lines come again, with their ids.
      for (const one of messages) byId.set(one.id, JSON.parse(one.data) as LogLine);
      for (const id of byId.keys()) {
        if (byId.size <= KEPT) break;
        byId.delete(id);
      }
      setFound({ node, lines: [...byId.values()] });
    };
    const path = `/runs/${encodeURIComponent(run)}/logs?node=${encodeURIComponent(node)}`;
    // The stream of the run's events says what the connection is like.
    const stream = new EventStream(path, { onMessages: take, onConnection: () => undefined }, { rests: true });
    return () => stream.close();
  }, [run, node, generation]);
  return found.node === node ? found.lines : [];
}

const textOf = (line: LogLine): string => `${line.at} ${line.level.padEnd(8)} ${line.step ? `${line.step}: ` : ""}${line.text}`;
