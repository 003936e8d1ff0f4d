/** How times, durations and sizes are written. */

export function showDuration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.floor(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export function showRelative(at: number, now: number): string {
  const ms = now - at;
  const size = Math.abs(ms);
  const text =
    size < 5_000
      ? "now"
      : size < 60_000
        ? `${Math.floor(size / 1000)} s`
        : size < 3_600_000
          ? `${Math.floor(size / 60_000)} min`
          : size < 172_800_000
            ? `${Math.floor(size / 3_600_000)} h`
            : `${Math.floor(size / 86_400_000)} d`;
  if (text === "now") return ms < 0 ? "in a moment" : "just now";
  return ms < 0 ? `in ${text}` : `${text} ago`;
}

const two = (number: number): string => String(number).padStart(2, "0");

export function showLocal(at: number): string {
  const date = new Date(at);
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

export const showUtc = (at: number): string => `${new Date(at).toISOString().slice(0, 19).replace("T", " ")}Z`;

export function showBytes(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`;
  if (bytes < 1e6) return `${(bytes / 1e3).toFixed(1)} kB`;
  return `${(bytes / 1e6).toFixed(1)} MB`;
}

export const showCount = (count: number): string => count.toLocaleString("en").replaceAll(",", "\u202f");

/** A word of the shell, quoted where it must be. */
export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
