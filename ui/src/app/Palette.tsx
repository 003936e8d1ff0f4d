import { useState, type KeyboardEvent } from "react";
import { Dialog, Icon } from "../components/index.ts";
import { commands, type Command } from "../lib/commands.ts";
import { navigate } from "../lib/router.tsx";
import { useStore } from "../lib/store.ts";
import { Keys } from "./Help.tsx";

/** Everything that can be done here, found by typing. The id of a run, or any text, finds runs. */
export function Palette({ onClose }: { onClose: () => void }) {
  const all = useStore(commands);
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const fitting = all.filter((one) => words.every((word) => one.label.toLowerCase().includes(word)));
  const found: Command[] = [...fitting, ...extra(text.trim())];
  const chosen = Math.min(at, found.length - 1);
  const run = (one: Command | undefined): void => {
    if (!one) return;
    onClose();
    one.run();
  };
  const press = (event: KeyboardEvent): void => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step) {
      event.preventDefault();
      setAt((chosen + step + found.length) % found.length);
    } else if (event.key === "Enter") {
      event.preventDefault();
      run(found[chosen]);
    }
  };
  return (
    <Dialog onClose={onClose}>
      <input
        className="palette-input"
        placeholder="A command, a run, or what to look for"
        aria-label="Commands"
        role="combobox"
        aria-expanded="true"
        aria-controls="palette-list"
        aria-activedescendant={found.length ? `palette-${chosen}` : undefined}
        autoFocus
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setAt(0);
        }}
        onKeyDown={press}
      />
      <div className="palette-list" id="palette-list" role="listbox" aria-label="Commands">
        {found.map((one, number) => (
          <div
            key={`${number} ${one.label}`}
            id={`palette-${number}`}
            ref={number === chosen ? keepInSight : null}
            role="option"
            className="palette-item"
            aria-selected={number === chosen}
            onPointerMove={() => setAt(number)}
            onClick={() => run(one)}
          >
            <Icon name={one.icon ?? "terminal"} />
            <span className="truncate">{one.label}</span>
            {one.keys && <Keys keys={one.keys} />}
          </div>
        ))}
        {found.length === 0 && <p className="muted page-pad">Nothing fits.</p>}
      </div>
    </Dialog>
  );
}

const keepInSight = (item: HTMLElement | null): void => item?.scrollIntoView({ block: "nearest" });

function extra(text: string): Command[] {
  if (!text) return [];
  const made: Command[] = [];
  if (/^[0-9a-f-]{32,36}$/.test(text)) made.push({ label: `Open run ${text}`, icon: "runs", run: () => navigate(`/runs/${text}`) });
  made.push({ label: `Find runs: ${text}`, icon: "search", run: () => navigate(`/runs?q=${encodeURIComponent(text)}`) });
  return made;
}
