// Before the first paint: the theme that was chosen, so that nothing flashes.
try {
  const chosen = JSON.parse(localStorage.getItem("minuet.theme") ?? '"system"');
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // The system's theme, then.
}
