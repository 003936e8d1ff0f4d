import { Dialog } from "../components/index.ts";
import { shortcuts } from "../lib/keys.ts";
import { useStore } from "../lib/store.ts";

export const Keys = ({ keys }: { keys: string }) => (
  <span className="row">
    {keys.split(" ").map((key) => (
      <kbd key={key}>{key.replace("Escape", "Esc").replace("ENTER", "Enter")}</kbd>
    ))}
  </span>
);

/** All keys that work at the moment. */
export function Help({ onClose }: { onClose: () => void }) {
  const all = useStore(shortcuts);
  const seen = new Map(all.map((one) => [one.keys, one]));
  return (
    <Dialog title="Keys" onClose={onClose}>
      <div className="keys-grid">
        {[...seen.values()].map(({ keys, label }) => (
          <div key={keys} style={{ display: "contents" }}>
            <span>{label}</span>
            <Keys keys={keys} />
          </div>
        ))}
      </div>
    </Dialog>
  );
}
