// Before the first paint, so that nothing flashes. settings.ts keeps it current.
let chosen = "system";
try {
  chosen = JSON.parse(localStorage.getItem("minuet.theme") ?? '"system"');
} catch {
  // The system's theme, then.
}
const isDark = chosen === "dark" || (chosen !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
document.documentElement.dataset.theme = isDark ? "dark" : "light";
