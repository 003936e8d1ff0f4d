import { useDeferredValue, useMemo, useRef, useState, type ReactNode } from "react";
import { showBytes, showCount } from "../lib/format.ts";
import { diffLines, linesOf, type JsonLine } from "../lib/json.ts";
import { CopyButton } from "./CopyButton.tsx";

const LINE = 18;
const SPARE = 20;
/** Values with more members than this begin closed. */
const OPEN_MAX = 200;

interface JsonProps {
  value: unknown;
  label?: ReactNode;
  /** In pixels; what is longer scrolls. */
  maxHeight?: number;
}

/** A JSON value. Only the lines in sight are drawn, so that large ones stay fluid. */
export function Json({ value, label, maxHeight = 320 }: JsonProps) {
  const [toggled, setToggled] = useState<ReadonlySet<string>>(new Set());
  const [search, setSearch] = useState("");
  const [top, setTop] = useState(0);
  const box = useRef<HTMLDivElement>(null);
  const wanted = useDeferredValue(search.toLowerCase());
  const text = useMemo(() => JSON.stringify(value, null, 2) ?? "undefined", [value]);
  const isLarge = text.length > 1e6;
  const lines = useMemo(
    () =>
      linesOf(value, (path, depth, size) => {
        if (wanted && !isLarge) return true;
        return toggled.has(path) !== (depth < 3 && size <= OPEN_MAX);
      }),
    [value, toggled, wanted, isLarge],
  );
  const found = useMemo(
    () => (wanted ? lines.flatMap((line, at) => (textOf(line).toLowerCase().includes(wanted) ? [at] : [])) : []),
    [lines, wanted],
  );
  const hits = useMemo(() => new Set(found), [found]);
  const toggle = (path: string): void => {
    const next = new Set(toggled);
    if (!next.delete(path)) next.add(path);
    setToggled(next);
  };
  const height = Math.min(maxHeight, lines.length * LINE + 8);
  const first = Math.max(0, Math.floor(top / LINE) - SPARE);
  const last = Math.min(lines.length, Math.ceil((top + height) / LINE) + SPARE);
  return (
    <div className="json">
      <div className="json-bar">
        <span>{label}</span>
        <span className="nums">{showBytes(text.length)}</span>
        {lines.length > 12 && (
          <input
            className="field"
            placeholder="Find"
            aria-label="Find in this value"
            value={search}
            onChange={(event) => setSearch(event.target.value)}
            onKeyDown={(event) => {
              if (event.key === "Enter" && found[0] !== undefined) box.current?.scrollTo({ top: found[0] * LINE - 40 });
            }}
          />
        )}
        {wanted && <span className="nums">{showCount(found.length)}</span>}
        <span className={lines.length > 12 ? "" : "grow"} />
        <CopyButton text={text} label="Copy as JSON" />
      </div>
      <div className="json-lines" ref={box} tabIndex={0} style={{ height }} onScroll={(event) => setTop(event.currentTarget.scrollTop)}>
        <div style={{ height: lines.length * LINE + 8 }} />
        {lines.slice(first, last).map((line, offset) => (
          <div
            key={first + offset}
            className="json-line"
            data-found={hits.has(first + offset) || undefined}
            style={{ top: (first + offset) * LINE + 4, paddingLeft: 6 + line.depth * 14 }}
          >
            <Line line={line} onToggle={toggle} />
          </div>
        ))}
      </div>
    </div>
  );
}

function Line({ line, onToggle }: { line: JsonLine; onToggle: (path: string) => void }) {
  const isList = Array.isArray(line.value);
  const name = line.key === null ? null : <span className="json-key">{line.key}: </span>;
  if (line.kind === "close") return <span className="muted">{`  ${isList ? "]" : "}"}`}</span>;
  if (line.kind === "leaf") {
    return (
      <>
        {"  "}
        {name}
        <Leaf value={line.value} />
      </>
    );
  }
  const size = Object.keys(line.value as object).length;
  const isOpen = line.kind === "open";
  return (
    <>
      <button type="button" className="json-toggle" aria-expanded={isOpen} aria-label={line.path || "all"} onClick={() => onToggle(line.path)}>
        {isOpen ? "▾" : "▸"}
      </button>
      {name}
      <span className="muted">
        {isList ? "[" : "{"}
        {!isOpen && ` ${showCount(size)} ${isList ? "]" : "}"}`}
      </span>
    </>
  );
}

/** Longer texts are cut here; copying has all of it. */
const TEXT_MAX = 2000;

function Leaf({ value }: { value: unknown }) {
  if (typeof value === "string") {
    const text = JSON.stringify(value.length > TEXT_MAX ? `${value.slice(0, TEXT_MAX)}…` : value);
    return <span className="json-string">{text}</span>;
  }
  if (typeof value === "number") return <span className="json-number">{String(value)}</span>;
  if (typeof value === "object" && value !== null) return <span className="muted">{Array.isArray(value) ? "[]" : "{}"}</span>;
  return <span className="json-word">{String(value)}</span>;
}

function textOf(line: JsonLine): string {
  const value = line.kind === "leaf" && (line.value === null || typeof line.value !== "object") ? String(line.value) : "";
  return line.kind === "close" ? "" : `${line.key ?? ""} ${value}`;
}

/** What changed between two JSON values. */
export function Diff({ before, after }: { before: unknown; after: unknown }) {
  const lines = useMemo(() => diffLines(before, after), [before, after]);
  return (
    <div className="diff" tabIndex={0}>
      {lines.map((line, at) => (
        <div key={at} data-change={line.change}>
          {line.change} {line.text}
        </div>
      ))}
    </div>
  );
}
