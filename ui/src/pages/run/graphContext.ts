import { createContext } from "react";
import type { Size } from "./drawing.ts";
import type { RunModel } from "./model.ts";

export interface GraphContextValue {
  model: RunModel;
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
