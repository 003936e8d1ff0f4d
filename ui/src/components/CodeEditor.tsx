import { memo, useMemo, useRef, type KeyboardEvent } from "react";
import { highlight, type Language, type Piece } from "../lib/highlight.ts";

export interface ReadJson {
  value: unknown;
  error: { message: string; line: number } | null;
}

/** JSON that somebody has typed; empty text is no value. */
export function readJson(text: string): ReadJson {
  if (text.trim() === "") return { value: undefined, error: null };
  try {
    return { value: JSON.parse(text) as unknown, error: null };
  } catch (error) {
    const said = (error as Error).message;
    const at = /position (\d+)/.exec(said)?.[1];
    const line = at === undefined ? text.split("\n").length : text.slice(0, Number(at)).split("\n").length;
    return { value: undefined, error: { message: said.replace(/ in JSON at position.*$/s, "").replace(/, \.\.\..*is not valid JSON$/s, ""), line } };
  }
}

const LineView = memo(({ pieces }: { pieces: readonly Piece[] }) => (
  <>
    {pieces.map((one, at) => (
      <span key={at} className={one.kind ? `code-${one.kind}` : undefined}>
        {one.text}
      </span>
    ))}
  </>
));

interface CodeEditorProps {
  text: string;
  onChange: (text: string) => void;
  language: Language;
  label: string;
  rows?: number;
  id?: string;
  problem?: { message: string; line: number } | null;
}

/** A field for code: what is typed is drawn in colours behind it. Tab indents; Escape, then Tab, leaves. */
export function CodeEditor({ text, onChange, language, label, rows = 10, id, problem = null }: CodeEditorProps) {
  const lines = useMemo(() => highlight(text, language), [text, language]);
  const leaves = useRef(false);
  const press = (event: KeyboardEvent<HTMLTextAreaElement>): void => {
    if (event.key === "Escape") {
      leaves.current = true;
      return;
    }
    const field = event.currentTarget;
    if (event.key === "Tab" && !event.shiftKey && !leaves.current && !event.ctrlKey) {
      event.preventDefault();
      field.setRangeText("  ", field.selectionStart, field.selectionEnd, "end");
      onChange(field.value);
    }
    if (event.key === "Enter" && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      const before = field.value.slice(0, field.selectionStart);
      const line = before.slice(before.lastIndexOf("\n") + 1);
      const deeper = /[{[:]\s*$/.test(line) ? "  " : "";
      field.setRangeText(`\n${/^ */.exec(line)![0]}${deeper}`, field.selectionStart, field.selectionEnd, "end");
      onChange(field.value);
    }
    leaves.current = false;
  };
  return (
    <div className="editor" data-invalid={problem !== null || undefined}>
      <div className="editor-scroll" style={{ maxHeight: Math.max(rows, 4) * 20 + 200 }}>
        <div className="editor-gutter" aria-hidden="true">
          {lines.map((_, at) => (
            <div key={at} data-problem={problem?.line === at + 1 || undefined}>
              {at + 1}
            </div>
          ))}
        </div>
        <div className="editor-text" style={{ minHeight: rows * 18 + 12 }}>
          <pre aria-hidden="true">
            {lines.map((pieces, at) => (
              <div key={at} data-problem={problem?.line === at + 1 || undefined}>
                <LineView pieces={pieces} />
                {"\n"}
              </div>
            ))}
          </pre>
          <textarea
            id={id}
            aria-label={id ? undefined : label}
            aria-invalid={problem !== null || undefined}
            spellCheck={false}
            autoComplete="off"
            autoCapitalize="off"
            wrap="off"
            value={text}
            onChange={(event) => onChange(event.target.value)}
            onKeyDown={press}
          />
        </div>
      </div>
      {problem && (
        <p className="editor-problem" role="alert">
          Line {problem.line}: {problem.message}
        </p>
      )}
    </div>
  );
}

export interface LineProblem {
  line: number | null;
  severity: "error" | "warning";
  message: string;
  hint?: string | null;
}

/** Code to read, in colours, with line numbers and with problems below their lines. */
export function Source({ text, language, problems = [], label }: { text: string; language: Language; problems?: readonly LineProblem[]; label: string }) {
  const lines = useMemo(() => highlight(text, language), [text, language]);
  return (
    <div className="source-text" tabIndex={0} role="region" aria-label={label}>
      {lines.map((pieces, at) => {
        const here = problems.filter((one) => one.line === at + 1);
        return (
          <div key={at} className="source-line" data-problem={here[0]?.severity}>
            <span className="source-number">{at + 1}</span>
            <code>
              <LineView pieces={pieces} />
            </code>
            {here.map((one, number) => (
              <p key={number} className="source-problem" data-severity={one.severity}>
                {one.message}
                {one.hint && <span> {one.hint}</span>}
              </p>
            ))}
          </div>
        );
      })}
    </div>
  );
}
