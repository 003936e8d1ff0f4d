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

/** About how long; "": hardly any time. */
function span(ms: number): string {
  if (ms < 5_000) return "";
  if (ms < 60_000) return `${Math.floor(ms / 1000)} s`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min`;
  if (ms < 172_800_000) return `${Math.floor(ms / 3_600_000)} h`;
  return `${Math.floor(ms / 86_400_000)} d`;
}

export function showRelative(at: number, now: number): string {
  const text = span(Math.abs(now - at));
  if (at > now) return text ? `in ${text}` : "in a moment";
  return text ? `${text} ago` : "just now";
}

/** Words before a moment, as in "since 10:15". With a relative time, the two become one phrase: "for 5 min". */
export type TimeWord = "since" | "until" | "at";

export function showPhrase(word: TimeWord, at: number, now: number): string {
  if (word === "since" && at <= now) return `for ${span(now - at) || "a moment"}`;
  if (word === "until" && at > now) return `for another ${span(at - now) || "moment"}`;
  return word === "at" ? showRelative(at, now) : `${word} ${showRelative(at, now)}`;
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
/** An option with its value; one that begins with a dash would be read as another option. */
export const shellOption = (name: string, value: string): string => `${name}${value.startsWith("-") ? "=" : " "}${shellWord(value)}`;

export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
