import type { Shape } from "../../api/types.ts";

/** What the server finds, in the order of the text. */
export function Problems({ problems, onShow }: { problems: readonly Shape<"Diagnostic">[]; onShow: (line: number, column: number) => void }) {
  if (!problems.length) return null;
  return (
    <ul className="editor-problems" aria-label="Problems">
      {problems.map((one, at) => (
        <li key={at}>
          <button type="button" data-severity={one.severity} disabled={one.line === null} onClick={() => onShow(one.line!, one.column ?? 1)}>
            <span className="editor-problem-place nums">{one.line === null ? "–" : `${one.line}:${one.column ?? 1}`}</span>
            <span className="grow">
              {one.message}
              {one.hint && <span className="muted"> {one.hint}</span>}
            </span>
            <code>{one.code}</code>
          </button>
        </li>
      ))}
    </ul>
  );
}
