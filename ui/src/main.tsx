import { createRoot } from "react-dom/client";
import { Shell } from "./app/Shell.tsx";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/components.css";
import "./styles/parts.css";

createRoot(document.getElementById("root")!).render(<Shell />);
