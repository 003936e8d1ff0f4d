import { get } from "../../api/client.ts";
import type { Explanation } from "../../api/types.ts";
import { useQuery } from "../../api/useQuery.ts";
import { CodeBlock, Prose } from "../../components/index.ts";
import { shellWord } from "../../lib/format.ts";
import type { RunModel } from "./model.ts";
import { Section } from "./NodePanel.tsx";

export interface Rule {
  rule?: number;
  to?: string[];
  source: string;
  result?: boolean;
  error?: string;
  operands?: Record<string, unknown>;
}

export interface Decision {
  node: string;
  rules?: Rule[];
  loop?: Rule;
  chosen?: string[];
}

/** Why it has not run, or is in its state: in the server's words, with the values that decided, and what would change it. */
export function Why({ model, name }: { model: RunModel; name: string }) {
  const path = { run_id: model.id, node: name };
  const { data, error } = useQuery(name, (signal) => get<Explanation>("/runs/{run_id}/why/{node}", { path, signal }), model.history.seq);
  if (!data) return error && <Section title="Why"><p className="run-error">{error.message}</p></Section>;
  const decisions = (data.details.decisions ?? []) as Decision[];
  return (
    <Section title="Why">
      <p>
        <Prose text={data.summary} />
      </p>
      {data.reasons.length > 0 && (
        <ul className="reasons">
          {data.reasons.map((reason) => (
            <li key={reason}>
              <Prose text={reason} />
            </li>
          ))}
        </ul>
      )}
      {decisions.map((decision, at) => (
        <Rules key={at} decision={decision} />
      ))}
      {data.missing.length > 0 && (
        <>
          <h4>It would run with</h4>
          <ul className="reasons">
            {data.missing.map((one, at) => (
              <li key={at}>
                <Prose text={typeof one === "string" ? one : words(one)} />
              </li>
            ))}
          </ul>
        </>
      )}
      <CodeBlock text={`minuet runs why ${model.id} ${shellWord(name)}`} />
    </Section>
  );
}

function Rules({ decision }: { decision: Decision }) {
  const rules = decision.rules ?? (decision.loop ? [decision.loop] : []);
  if (rules.length === 0) return null;
  return (
    <table className="rules" aria-label={`Rules of ${decision.node}`}>
      <tbody>
        {rules.map((rule, at) => (
          <tr key={at} data-status={rule.error ? "failed" : rule.result ? "completed" : "skipped"}>
            <td className="nums">{rule.rule ?? ""}</td>
            <td>
              <code>{rule.source}</code>
              <div className="muted">{rule.error ?? operandsOf(rule)}</div>
            </td>
            <td>{rule.error ? "error" : rule.result ? "true" : "false"}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** The values that a condition has read: `total = 120, kind = "new"`. */
export function operandsOf(rule: Rule): string {
  return Object.entries(rule.operands ?? {})
    .map(([name, value]) => `${name} = ${short(value)}`)
    .join(", ");
}

function short(value: unknown): string {
  const text = JSON.stringify(value) ?? "undefined";
  return text.length > 60 ? `${text.slice(0, 57)}…` : text;
}

function words(value: unknown): string {
  if (value === null || typeof value !== "object") return String(value);
  return Object.entries(value)
    .filter(([, one]) => one !== null && one !== "")
    .map(([name, one]) => `${name.replaceAll("_", " ")} ${typeof one === "string" ? one : short(one)}`)
    .join(", ");
}
