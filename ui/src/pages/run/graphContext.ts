import { createContext } from "react";
import type { Size } from "./drawing.ts";
import type { RunModel } from "./model.ts";

/** What a drawing of a graph has to know of its nodes. */
export type GraphModel = Pick<RunModel, "id" | "node" | "marks" | "subscribe" | "subscribeNode">;

const never = (): void => undefined;

/** A graph as it is declared: nothing has become of its nodes. */
export const DECLARED: GraphModel = { id: "", node: () => null, marks: new Map(), subscribe: () => never, subscribeNode: () => never };

export interface GraphContextValue {
  model: GraphModel;
  /** Null: the graph is shown as it is declared. */
  run: RunModel | null;
  chosen: string;
  /** Choose a node, or one instance of it. */
  onChoose: (id: string, instance?: string) => void;
  /** Open or close what is inside a node. */
  onOpen: (id: string) => void;
  /** What is inside an open node needs so much room. */
  onSize: (id: string, size: Size) => void;
  /** Whether all branches show the values that decided; otherwise those of the chosen node. */
  asksAll: boolean;
}

export const GraphContext = createContext<GraphContextValue | null>(null);
