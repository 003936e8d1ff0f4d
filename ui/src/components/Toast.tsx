import { Store, useStore } from "../lib/store.ts";

interface Shown {
  id: number;
  text: string;
  status: string;
}

const shown = new Store<readonly Shown[]>([]);
let last = 0;

/** Say something in a corner, for a few seconds. `status` gives it its colour. */
export function toast(text: string, status = "completed"): void {
  const one = { id: ++last, text, status };
  shown.set([...shown.get().slice(-3), one]);
  setTimeout(() => shown.set(shown.get().filter((other) => other !== one)), 6000);
}

export function Toasts() {
  return (
    <div className="toasts" role="status" aria-live="polite">
      {useStore(shown).map(({ id, text, status }) => (
        <div key={id} className="toast" data-status={status}>
          {text}
        </div>
      ))}
    </div>
  );
}
