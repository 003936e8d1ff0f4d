export interface Segment {
  id: string;
  label: string;
  count?: number;
}

/** One of a few views, side by side. */
export function Segments({ options, chosen, onChoose, label }: { options: readonly Segment[]; chosen: string; onChoose: (id: string) => void; label: string }) {
  return (
    <div className="segments" role="group" aria-label={label}>
      {options.map(({ id, label: text, count }) => (
        <button key={id} type="button" aria-pressed={id === chosen} onClick={() => onChoose(id)}>
          {text}
          {count !== undefined && <span className="nav-count">{count}</span>}
        </button>
      ))}
    </div>
  );
}
