/**
 * The filter of the list of runs, as text: `status:failed workflow:order age<1h tag:team=web refund`.
 *
 * What the API can answer becomes its parameters; the rest is looked for in the runs that come.
 */

export interface RunFilter {
  status: string[];
  workflow: string | null;
  /** As the API wants it: `name:value`, or the tag of a workflow. */
  tag: string | null;
  stalled: boolean;
  /** Only runs younger (`max`) or older (`min`) than this, in ms. */
  age: { max: number | null; min: number | null };
  /** Words that must occur in the id, the workflow, the tags, the input or the error. */
  words: string[];
  /** Parts that are not understood, each with a hint. */
  problems: { text: string; hint: string }[];
}

export const STATUSES = ["PENDING", "RUNNING", "PAUSED", "COMPENSATING", "COMPLETED", "FAILED", "CANCELLED"];
const GROUPS: Record<string, string[]> = {
  OPEN: ["PENDING", "RUNNING", "PAUSED", "COMPENSATING"],
  OVER: ["COMPLETED", "FAILED", "CANCELLED"],
};
const UNITS: Record<string, number> = { ms: 1, s: 1e3, m: 6e4, min: 6e4, h: 36e5, d: 864e5, w: 6048e5 };

export function parseFilter(text: string): RunFilter {
  const found: RunFilter = {
    status: [],
    workflow: null,
    tag: null,
    stalled: false,
    age: { max: null, min: null },
    words: [],
    problems: [],
  };
  for (const [part] of text.matchAll(/(?:[^\s"]+:)?"[^"]*"?|\S+/g)) {
    const age = /^age([<>])(\d+(?:\.\d+)?)([a-z]+)$/i.exec(part);
    const [, name, rest] = /^([a-z]+):(.*)$/i.exec(part) ?? [];
    const value = rest?.replaceAll('"', "") ?? "";
    if (age) {
      const unit = UNITS[age[3]!.toLowerCase()];
      if (unit) found.age[age[1] === "<" ? "max" : "min"] = Number(age[2]) * unit;
      else found.problems.push({ text: part, hint: "age<30m, age>2h, age<7d" });
    } else if (/^age/i.test(part) && /[<>:]/.test(part)) {
      found.problems.push({ text: part, hint: "age<30m, age>2h, age<7d" });
    } else if (name && !value) {
      found.problems.push({ text: part, hint: `${name}: needs a value` });
    } else if (name === "status") readStatus(value, part, found);
    else if (name === "workflow") found.workflow = value;
    else if (name === "tag") found.tag = value.replace("=", ":");
    else if (name === "is" && value === "stalled") found.stalled = true;
    else if (name && !["http", "https", "cas"].includes(name)) {
      found.problems.push({ text: part, hint: "there are status: workflow: tag: age< age> is:stalled" });
    } else found.words.push(part.replaceAll('"', "").toLowerCase());
  }
  return found;
}

function readStatus(value: string, part: string, found: RunFilter): void {
  for (const one of value.toUpperCase().split(",")) {
    const known = GROUPS[one] ?? STATUSES.filter((status) => one.length > 1 && status.startsWith(one));
    if (known.length) found.status.push(...known);
    else found.problems.push({ text: part, hint: `status: ${STATUSES.join(", ").toLowerCase()}, open, over` });
  }
}

/** The parameters of `GET /runs`. */
export function toQuery(filter: RunFilter): URLSearchParams {
  const query = new URLSearchParams();
  for (const one of filter.status) query.append("status", one);
  if (filter.workflow) query.set("workflow", filter.workflow);
  if (filter.tag) query.set("tag", filter.tag);
  if (filter.stalled) query.set("stalled", "true");
  return query;
}

export interface Filtered {
  run_id: string;
  workflow: string;
  status: string;
  tag: string | null;
  tags: Record<string, unknown>;
  input: unknown;
  error: Record<string, unknown> | null;
  created_at: string;
}

/** Whether a run belongs to the list: what the API has answered already, and what it cannot. */
export function matches(filter: RunFilter, run: Filtered, now: number): boolean {
  if (filter.status.length && !filter.status.includes(run.status)) return false;
  if (filter.workflow && run.workflow !== filter.workflow) return false;
  if (filter.tag) {
    const [name, ...rest] = filter.tag.split(":");
    const value = rest.length ? run.tags[name!] : run.tag;
    if (String(value) !== (rest.length ? rest.join(":") : name)) return false;
  }
  const age = now - Date.parse(run.created_at);
  if (filter.age.max !== null && age > filter.age.max) return false;
  if (filter.age.min !== null && age < filter.age.min) return false;
  if (!filter.words.length) return true;
  const text = [run.run_id, run.workflow, JSON.stringify(run.tags), JSON.stringify(run.input), JSON.stringify(run.error)]
    .join(" ")
    .toLowerCase();
  return filter.words.every((word) => text.includes(word));
}

/** Put a term into a filter, in place of one of the same name; without a value, take it out. */
export function withTerm(text: string, name: string, value: string | null): string {
  const rest = text
    .split(/\s+/)
    .filter((part) => part && !part.toLowerCase().startsWith(`${name}:`))
    .join(" ");
  return value === null ? rest : `${name}:${value} ${rest}`.trim();
}
