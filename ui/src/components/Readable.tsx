import { useState, type ReactNode } from "react";
import { titleOf } from "../form/schema.ts";
import { Json } from "./Json.tsx";

const DEPTH_MAX = 4;
const ROWS_MAX = 50;

/** A value as people read it: names and values, lists as tables. Its JSON is one click away. */
export function Readable({ value, label }: { value: unknown; label: string }) {
  const [asJson, setAsJson] = useState(false);
  const isPlain = value === null || typeof value !== "object";
  return (
    <section className="readable">
      <div className="row">
        <h3>{label}</h3>
        <span className="grow" />
        {!isPlain && (
          <button type="button" className="link-button" aria-pressed={asJson} onClick={() => setAsJson(!asJson)}>
            {asJson ? "Readable" : "JSON"}
          </button>
        )}
      </div>
      {asJson ? <Json value={value} maxHeight={480} /> : <Value value={value} depth={0} />}
    </section>
  );
}

function Value({ value, depth }: { value: unknown; depth: number }): ReactNode {
  if (value === null || value === undefined) return <span className="muted">–</span>;
  if (typeof value === "boolean") return value ? "Yes" : "No";
  if (typeof value === "number") return <span className="nums">{value.toLocaleString("en", { maximumFractionDigits: 10 }).replaceAll(",", "\u202f")}</span>;
  if (typeof value === "string") return <Text text={value} />;
  if (depth >= DEPTH_MAX) return <code className="readable-code">{JSON.stringify(value)}</code>;
  if (Array.isArray(value)) return <List list={value} depth={depth} />;
  const members = Object.entries(value);
  if (!members.length) return <span className="muted">nothing</span>;
  return (
    <dl className="readable-facts" data-depth={depth || undefined}>
      {members.map(([name, one]) => (
        <div key={name} data-wide={(typeof one === "object" && one !== null) || (typeof one === "string" && one.length > 80) || undefined}>
          <dt title={name}>{titleOf({}, name)}</dt>
          <dd>
            <Value value={one} depth={depth + 1} />
          </dd>
        </div>
      ))}
    </dl>
  );
}

function Text({ text }: { text: string }) {
  if (text === "") return <span className="muted">empty</span>;
  if (/^https?:\/\/[^\s]+$/.test(text)) {
    return (
      <a href={text} target="_blank" rel="noreferrer noopener">
        {text}
      </a>
    );
  }
  return <span className="readable-text">{text}</span>;
}

function List({ list, depth }: { list: readonly unknown[]; depth: number }) {
  const [all, setAll] = useState(false);
  if (!list.length) return <span className="muted">none</span>;
  const shown = all ? list : list.slice(0, ROWS_MAX);
  const columns = columnsOf(list);
  const more = list.length > shown.length && (
    <button type="button" className="link-button" onClick={() => setAll(true)}>
      {list.length - shown.length} more
    </button>
  );
  if (columns) {
    return (
      <div className="readable-table">
        <table>
          <thead>
            <tr>
              {columns.map((name) => (
                <th key={name} scope="col">
                  {titleOf({}, name)}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.map((row, at) => (
              <tr key={at}>
                {columns.map((name) => {
                  const one = (row as Record<string, unknown>)[name];
                  return (
                    <td key={name} data-align={typeof one === "number" ? "right" : undefined}>
                      <Value value={one} depth={DEPTH_MAX} />
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
        {more}
      </div>
    );
  }
  if (list.every((one) => typeof one !== "object" || one === null)) {
    return (
      <ul className="readable-tags">
        {shown.map((one, at) => (
          <li key={at} className="tag">
            <Value value={one} depth={depth + 1} />
          </li>
        ))}
        {more}
      </ul>
    );
  }
  return (
    <ol className="readable-list">
      {shown.map((one, at) => (
        <li key={at}>
          <Value value={one} depth={depth + 1} />
        </li>
      ))}
      {more}
    </ol>
  );
}

/** The columns of a list of alike, small objects; null: it is something else. */
function columnsOf(list: readonly unknown[]): string[] | null {
  if (list.length < 1 || !list.every((one) => typeof one === "object" && one !== null && !Array.isArray(one))) return null;
  const names = new Set(list.slice(0, 100).flatMap((one) => Object.keys(one as object)));
  return names.size >= 1 && names.size <= 7 ? [...names] : null;
}
