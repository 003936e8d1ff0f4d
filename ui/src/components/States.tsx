import { useEffect, useState, type ReactNode } from "react";
import { ApiError } from "../api/client.ts";
import { isLost } from "../live/connection.ts";
import { Button } from "./Button.tsx";
import { Icon, type IconName } from "./Icon.tsx";

/** Nothing to show: why, and what to do about it. */
export function Empty({ icon = "empty", title, children }: { icon?: IconName; title: string; children?: ReactNode }) {
  return (
    <div className="state">
      <Icon name={icon} />
      <h2>{title}</h2>
      {children}
    </div>
  );
}

/** Something is on its way. After two seconds it says what it waits for. */
export function Loading({ what = "the server" }: { what?: string }) {
  const [slow, setSlow] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setSlow(true), 2000);
    return () => clearTimeout(timer);
  }, []);
  return (
    <div className="state" role="status">
      <div className="spinner" />
      <p className={slow ? "" : "visually-hidden"}>Still waiting for {what}. A large store or a busy server may take a while.</p>
    </div>
  );
}

/** What went wrong, in the server's words, and a way to try again. */
export function Failure({ error, onRetry }: { error: Error; onRetry?: () => void }) {
  const problem = error instanceof ApiError ? error.problem : null;
  const offline = isLost(error);
  return (
    <div className="state" role="alert">
      <Icon name={offline ? "lost" : "dlq"} />
      <h2>{offline ? "The server does not answer" : (problem?.title ?? "That did not work")}</h2>
      <p>{offline ? "It may be stopped, or the connection is down. The page goes on as soon as it is back." : error.message}</p>
      {problem && (
        <p className="muted">
          <code>{problem.code}</code> · HTTP {problem.status}
        </p>
      )}
      {onRetry && (
        <Button icon="retry" onClick={onRetry}>
          Try again
        </Button>
      )}
    </div>
  );
}
