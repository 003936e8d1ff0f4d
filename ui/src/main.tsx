import { createRoot } from "react-dom/client";
import { Shell } from "./app/Shell.tsx";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/controls.css";
import "./styles/status.css";
import "./styles/layout.css";
import "./styles/values.css";
import "./styles/mini-graph.css";
import "./styles/form.css";

createRoot(document.getElementById("root")!).render(<Shell />);
