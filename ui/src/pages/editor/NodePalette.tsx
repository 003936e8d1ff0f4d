import { memo, useState } from "react";
import type { Shape } from "../../api/types.ts";
import { Icon } from "../../components/index.ts";
import { DRAGGED } from "./EditorGraph.tsx";
import { iconOf } from "../../graph/icons.ts";

type NodeType = Shape<"NodeType">;

interface NodePaletteProps {
  types: readonly NodeType[];
  handlers: readonly string[];
  /** Where a chosen one goes. */
  after: string;
  onAdd: (what: string) => void;
}

/** What can be added: dragged onto the graph, or chosen. `type:wait` and `handler:pay` say what. */
export const NodePalette = memo(({ types, handlers, after, onAdd }: NodePaletteProps) => {
  const [wanted, setWanted] = useState("");
  const fits = (...texts: string[]): boolean => texts.some((one) => one.toLowerCase().includes(wanted.trim().toLowerCase()));
  const shownTypes = types.filter((one) => fits(one.name, one.display_name, one.summary));
  const shownHandlers = handlers.filter((one) => fits(one));
  return (
    <section className="node-palette" aria-label="Nodes to add">
      <input className="field" placeholder="Find a node" aria-label="Find a node" value={wanted} onChange={(event) => setWanted(event.target.value)} />
      <p className="muted">{after ? `Drag, or choose: it comes after ${after}.` : "Drag onto the graph, or choose."}</p>
      <div className="node-palette-list">
        {shownTypes.length > 0 && <h3>Node types</h3>}
        {shownTypes.map((one) => (
          <Choice key={one.name} what={`type:${one.name}`} label={one.display_name} about={one.summary || one.description} type={one.name} icon={one.icon} onAdd={onAdd} />
        ))}
        {shownHandlers.length > 0 && <h3>Handlers</h3>}
        {shownHandlers.map((name) => (
          <Choice key={name} what={`handler:${name}`} label={name.replace(/^.*:/, "")} about={name} type="task" onAdd={onAdd} />
        ))}
        {!shownTypes.length && !shownHandlers.length && <p className="muted">Nothing fits.</p>}
      </div>
    </section>
  );
});

interface ChoiceProps {
  what: string;
  label: string;
  about: string;
  type: string;
  icon?: string | null;
  onAdd: (what: string) => void;
}

const Choice = ({ what, label, about, type, icon, onAdd }: ChoiceProps) => (
  <button
    type="button"
    className="node-choice"
    title={about}
    draggable
    onDragStart={(event) => {
      event.dataTransfer.setData(DRAGGED, what);
      event.dataTransfer.effectAllowed = "copy";
    }}
    onClick={() => onAdd(what)}
  >
    {/* Nothing is fetched from elsewhere: the policy of the page forbids it. */}
    {icon && /^(data:image\/|\/(?!\/))/.test(icon) ? <img className="icon" src={icon} alt="" /> : <Icon name={iconOf(type)} />}
    <span className="truncate">{label}</span>
  </button>
);
