import { showCount } from "../lib/format.ts";

type Error = Readonly<Record<string, unknown>>;

const textOf = (value: unknown): string => (typeof value === "string" ? value : value === undefined || value === null ? "" : JSON.stringify(value));

/** What to call an error in one line. */
export function faultLine(error: Error, reason = ""): string {
  const message = textOf(error.message);
  const type = textOf(error.type);
  return message ? (type && !message.startsWith(type) ? `${type}: ${message}` : message) : type || textOf(error.code) || reason;
}

/** An error: what it is, where it was raised, and what caused it. */
export function Fault({ error }: { error: Error }) {
  const frames = Array.isArray(error.traceback) ? (error.traceback as Record<string, unknown>[]) : [];
  const cause = typeof error.cause === "object" && error.cause !== null ? (error.cause as Error) : null;
  return (
    <div className="fault">
      <p className="fault-line">
        {textOf(error.type) && <b>{textOf(error.type)}</b>} <span>{textOf(error.message)}</span>
      </p>
      {textOf(error.code) && (
        <p className="muted">
          <code>{textOf(error.code)}</code>
          {typeof error.status === "number" && ` · HTTP ${error.status}`}
        </p>
      )}
      {frames.length > 0 && (
        <ol className="fault-frames" aria-label="Where it was raised">
          {frames.slice(-12).map((frame, at) => (
            <li key={at}>
              <span className="muted">
                {textOf(frame.file)}:{showCount(Number(frame.line) || 0)} in {textOf(frame.function)}
              </span>
              {textOf(frame.code) && <code>{textOf(frame.code)}</code>}
            </li>
          ))}
        </ol>
      )}
      {cause && (
        <>
          <p className="muted">caused by</p>
          <Fault error={cause} />
        </>
      )}
    </div>
  );
}
