import { useMemo, type ReactNode } from "react";
import { get } from "../../api/client.ts";
import type { Approval, Shape } from "../../api/types.ts";
import { useQuery } from "../../api/useQuery.ts";
import { Countdown, Icon, MiniGraph, Time } from "../../components/index.ts";
import type { Graph } from "../../fold/types.ts";
import { findAhead } from "../../graph/ahead.ts";
import { Link } from "../../lib/router.tsx";
import type { Me } from "../../lib/me.ts";
import { agreed, AT_TIMEOUT, type Verdict } from "./decide.ts";

/** Where each decision leads; the one in question is lit. */
export function Follows({ asked, lit }: { asked: Approval; lit: Verdict | null }) {
  const { data } = useQuery(asked.run_id, (signal) => get<Shape<"Graph">>("/runs/{run_id}/graph", { path: { run_id: asked.run_id }, signal }));
  const ahead = useMemo(
    () => data && findAhead(data as unknown as Graph, asked.node_id, { approve: asked.leads_to.approve, reject: asked.leads_to.reject }),
    [data, asked.node_id, asked.leads_to],
  );
  const verdict = lit ?? (asked.decision === "approve" ? "approve" : asked.decision ? "reject" : null);
  return (
    <Part title="What follows">
      <dl className="follows">
        <dt data-lit={verdict === "approve" || undefined} data-tone="green">
          Approve
        </dt>
        <dd>{asked.leads_to.approve.length ? <Names names={asked.leads_to.approve} /> : "nothing more: this way of the run ends"}</dd>
        <dt data-lit={verdict === "reject" || undefined} data-tone="red">
          Reject
        </dt>
        <dd>{asked.leads_to.reject.length ? <Names names={asked.leads_to.reject} /> : "there is no other way: the run fails, unless its document says that only this way ends"}</dd>
      </dl>
      {ahead && ahead.graph.nodes.length > 1 && (
        <MiniGraph
          graph={ahead.graph}
          from={asked.node_id}
          lit={verdict ? (ahead.ways.get(verdict) ?? null) : null}
          tone={verdict === "reject" ? "red" : "green"}
          label={verdict ? `What can follow: ${[...(ahead.ways.get(verdict) ?? [])].join(", ") || "nothing"}` : "The rest of the workflow"}
        />
      )}
      {ahead && ahead.left > 0 && <p className="muted">and {ahead.left} more</p>}
    </Part>
  );
}

const Names = ({ names }: { names: readonly string[] }) => (
  <>
    {names.map((one, at) => (
      <span key={one}>
        {at > 0 && ", "}
        <code>{one}</code>
      </span>
    ))}
  </>
);

/** Who was asked, who has decided, and how many are needed. */
export function People({ asked, me }: { asked: Approval; me: Me | null }) {
  const decided = new Map(asked.decisions.map((one) => [one.by, one]));
  const others = asked.approvers.filter((one) => !decided.has(one));
  const count = agreed(asked);
  return (
    <Part title="Who decides">
      {asked.quorum > 1 && (
        <div className="quorum" role="meter" aria-label="Approvals" aria-valuenow={count} aria-valuemin={0} aria-valuemax={asked.quorum}>
          <span className="quorum-bar">
            {Array.from({ length: asked.quorum }, (_, at) => (
              <span key={at} data-full={at < count || undefined} />
            ))}
          </span>
          <span className="nums">
            {count} of {asked.quorum} approvals; one rejection ends it
          </span>
        </div>
      )}
      <ul className="people">
        {asked.decisions.map((one) => (
          <li key={`${one.by} ${one.at}`} data-tone={one.decision === "approve" ? "green" : "red"}>
            <Icon name={one.decision === "approve" ? "check" : one.decision === "timeout" ? "clock" : "close"} />
            <span>
              <b>{one.by}</b> {one.decision === "approve" ? "approved" : one.decision === "reject" ? "rejected" : "did not answer in time"} <Time at={one.at} />
              {one.comments && <q>{one.comments}</q>}
            </span>
          </li>
        ))}
        {others.map((one) => (
          <li key={one}>
            <Icon name="person" />
            <span>
              {one}
              {me?.name === one ? " (you)" : me?.groups.includes(one) ? " (you are in this group)" : ""}
              {asked.status === "pending" && <span className="muted"> was asked</span>}
            </span>
          </li>
        ))}
        {asked.approvers.length === 0 && (
          <li>
            <Icon name="person" />
            <span>Anybody may decide</span>
          </li>
        )}
      </ul>
      {asked.four_eyes && <p className="muted">Not the person who started the run{asked.requester ? ` (${asked.requester})` : ""}.</p>}
    </Part>
  );
}

export function Deadline({ asked }: { asked: Approval }) {
  if (asked.timeout_at === null) {
    return asked.status === "pending" ? (
      <Part title="Deadline">
        <p className="muted">None: it waits until somebody decides.</p>
      </Part>
    ) : null;
  }
  return (
    <Part title="Deadline">
      {asked.status === "pending" ? (
        <>
          <Countdown from={asked.created_at} until={asked.timeout_at} />
          {asked.at_timeout && <p className="muted">Then {AT_TIMEOUT[asked.at_timeout] ?? asked.at_timeout}.</p>}
        </>
      ) : (
        <Time at={asked.timeout_at} />
      )}
    </Part>
  );
}

export function About({ asked }: { asked: Approval }) {
  const more = Object.entries(asked.metadata);
  return (
    <Part title="About">
      <dl className="facts">
        <dt>Run</dt>
        <dd>
          <Link to={`/runs/${asked.run_id}?node=${encodeURIComponent(asked.node_id)}`}>
            {asked.workflow} · {asked.node_id}
            {asked.scope.length > 0 && ` [${asked.scope.join(".")}]`}
          </Link>
        </dd>
        <dt>Asked</dt>
        <dd>
          <Time at={asked.created_at} />
        </dd>
        {asked.requester && (
          <>
            <dt>Started by</dt>
            <dd>{asked.requester}</dd>
          </>
        )}
        {more.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{typeof value === "object" ? <code>{JSON.stringify(value)}</code> : String(value)}</dd>
          </div>
        ))}
        {asked.approval_ui_url && /^https?:/.test(asked.approval_ui_url) && (
          <>
            <dt>Page</dt>
            <dd>
              <a href={asked.approval_ui_url} target="_blank" rel="noreferrer noopener">
                {asked.approval_ui_url}
              </a>
            </dd>
          </>
        )}
      </dl>
    </Part>
  );
}

export const Part = ({ title, children }: { title: string; children: ReactNode }) => (
  <section className="side-part">
    <h3>{title}</h3>
    {children}
  </section>
);
