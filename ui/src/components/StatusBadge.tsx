/** A status in words and colour. One that nobody knows is grey. */

export const statusKey = (status: string): string => status.toLowerCase();

export function StatusBadge({ status, label }: { status: string; label?: string }) {
  const key = statusKey(status);
  return (
    <span className="status" data-status={key}>
      {label ?? (key ? key[0]!.toUpperCase() + key.slice(1) : "Unknown")}
    </span>
  );
}

export const StatusDot = ({ status }: { status: string }) => (
  <span className="dot" data-status={statusKey(status)} role="img" aria-label={statusKey(status)} title={statusKey(status)} />
);
