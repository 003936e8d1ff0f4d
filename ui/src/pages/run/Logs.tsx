import { useEffect, useState } from "react";
import { get } from "../../api/client.ts";
import type { LogLine, Page } from "../../api/types.ts";
import { useQuery } from "../../api/useQuery.ts";
import { CopyButton, Rows } from "../../components/index.ts";
import { showCount } from "../../lib/format.ts";
import type { RunModel } from "./model.ts";
import { Section } from "./NodePanel.tsx";

const ROW = 18;
const SHOWN = 16;
/** Between two questions while it runs: logs have no stream of their own. */
const PAUSE = 1000;

/** What its handler has printed and logged, as it comes. */
export function Logs({ model, name, isRunning, seq }: { model: RunModel; name: string; isRunning: boolean; seq: number }) {
  const [round, setRound] = useState(0);
  const [level, setLevel] = useState("");
  const { data } = useQuery(`${name} ${seq}`, load(model, name));
  const fresh = useQuery(round ? `${name} ${round}` : null, load(model, name));
  useEffect(() => {
    if (!isRunning) return;
    const timer = setInterval(() => document.hidden || setRound((before) => before + 1), PAUSE);
    return () => clearInterval(timer);
  }, [isRunning]);
  const [kept, setKept] = useState<{ name: string; lines: LogLine[] }>({ name, lines: [] });
  const newest = [data?.items, fresh.data?.items].reduce((a, b) => ((b?.length ?? 0) > (a?.length ?? 0) ? b : a));
  if (newest && (kept.name !== name || newest.length > kept.lines.length)) setKept({ name, lines: newest });
  const lines = kept.name === name ? kept.lines : [];
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
          rows={shown}
          height={ROW}
          label="Logs"
          follow={isRunning ? shown.length - 1 : null}
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

const load = (model: RunModel, name: string) => (signal: AbortSignal) => get<Page<LogLine>>("/runs/{run_id}/logs", { path: { run_id: model.id }, query: { node: name }, signal });

const textOf = (line: LogLine): string => `${line.at} ${line.level.padEnd(8)} ${line.step ? `${line.step}: ` : ""}${line.text}`;
