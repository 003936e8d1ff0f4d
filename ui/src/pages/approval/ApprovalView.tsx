import { useEffect, useMemo, useRef, useState, type FormEvent, type ReactNode } from "react";
import type { Approval } from "../../api/types.ts";
import { Button, Icon, Json, Readable, StatusBadge, Time, toast } from "../../components/index.ts";
import { findProblems, initialOf, same, type Problems, type Schema } from "../../form/schema.ts";
import { FormOrJson } from "../../form/SchemaForm.tsx";
import { useCommands, type Command } from "../../lib/commands.ts";
import { useShortcuts } from "../../lib/keys.ts";
import { given, whyNot, type Me } from "../../lib/me.ts";
import { Link } from "../../lib/router.tsx";
import { useIsShown } from "../../lib/shown.ts";
import "./approval.css";
import { agreed, commandFor, decide, type Verdict } from "./decide.ts";
import { About, Deadline, Follows, People } from "./Side.tsx";

interface ApprovalViewProps {
  asked: Approval;
  me: Me | null;
  /** Somebody has decided here. */
  onChanged: () => void;
}

/** One approval: what is asked, what follows, and the decision. Another one has another `key`. */
export function ApprovalView({ asked, me, onChanged }: ApprovalViewProps) {
  const [lit, setLit] = useState<Verdict | null>(null);
  // Somebody who was asked here is told how it went on.
  const asks = useRef(false);
  asks.current ||= asked.status === "pending";
  return (
    <article className="approval" data-status={asked.status}>
      <div className="approval-main">
        <header className="approval-head">
          <h2>{asked.title ?? asked.node_id}</h2>
          {asked.description && <p className="approval-about">{asked.description}</p>}
          <p className="muted approval-where">
            {asked.status !== "pending" && <StatusBadge status={asked.status === "decided" ? "decided" : "cancelled"} label={labelOf(asked)} />}
            <Link to={`/runs/${asked.run_id}?node=${encodeURIComponent(asked.node_id)}`}>{asked.workflow}</Link>
            <span>
              asked <Time at={asked.created_at} />
            </span>
          </p>
        </header>
        {asked.payload !== null && asked.payload !== undefined ? (
          <Readable value={asked.payload} label="What it is about" />
        ) : (
          <p className="muted">Nothing was sent along with the question, or it is too large to show: the run has it.</p>
        )}
        {asks.current ? (
          <Deciding asked={asked} me={me} lit={lit} onLight={setLit} onChanged={onChanged} />
        ) : (
          <Decided asked={asked} />
        )}
      </div>
      <aside className="approval-side">
        <Follows asked={asked} lit={asked.status === "pending" ? lit : null} />
        <People asked={asked} me={me} />
        <Deadline asked={asked} />
        <About asked={asked} />
      </aside>
    </article>
  );
}

function labelOf(asked: Approval): string {
  if (asked.status === "decided") return asked.decision === "approve" ? "Approved" : "Rejected";
  return asked.status === "timeout" ? "Time over" : "Nobody is asked any more";
}

function Decided({ asked, before }: { asked: Approval; before?: ReactNode }) {
  const last = asked.decisions.at(-1);
  const isYes = asked.decision === "approve";
  const tone = asked.status === "cancelled" ? undefined : isYes ? "green" : "red";
  return (
    <section className="verdict" data-tone={tone} role="status">
      {before}
      <p className="verdict-line">
        <Icon name={asked.status === "cancelled" ? "stop" : asked.status === "timeout" ? "clock" : isYes ? "check" : "close"} />
        {asked.status === "decided" && last ? (
          <span>
            <b>{last.by}</b> {isYes ? "approved" : "rejected"} <Time at={last.at} />
          </span>
        ) : asked.status === "timeout" ? (
          <span>
            Nobody decided in time <Time at={asked.decided_at} />; it counts as {isYes ? "approved" : "not approved"}
          </span>
        ) : asked.status === "cancelled" ? (
          <span>The run ended before anybody decided</span>
        ) : (
          <span>More people have to decide</span>
        )}
      </p>
      {last?.comments && <blockquote>{last.comments}</blockquote>}
      {last?.data !== null && last?.data !== undefined && <Json value={last.data} label="Data" maxHeight={240} />}
      <p>
        <Link to={`/runs/${asked.run_id}`}>See how the run goes on</Link>
      </p>
    </section>
  );
}

interface DecidingProps extends ApprovalViewProps {
  lit: Verdict | null;
  onLight: (verdict: Verdict | null) => void;
}

function Deciding({ asked, me, lit, onLight, onChanged }: DecidingProps) {
  const schema = asked.form as Schema | null;
  const [initial] = useState<unknown>(() => (schema ? initialOf(schema, schema) : undefined));
  const [data, setData] = useState(initial);
  const [comments, setComments] = useState("");
  const [armed, setArmed] = useState<Verdict | null>(null);
  const [tried, setTried] = useState(false);
  const [said, setSaid] = useState<Problems>(new Map());
  const [refused, setRefused] = useState<string | null>(null);
  const [late, setLate] = useState<{ approval: Approval; why: string } | null>(null);
  const [sending, setSending] = useState<Verdict | null>(null);
  const [asking, setAsking] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const isShown = useIsShown();
  const own = useMemo(() => (schema ? findProblems(schema, data, schema) : new Map<string, string>()), [schema, data]);
  const problems: Problems = tried ? new Map([...said, ...own]) : said;
  const obstacle = me && me.name ? whyNot(me, asked) : null;
  // While a decision is on its way, its answer says more than what is heard from elsewhere.
  const over = late?.approval ?? (asked.status === "pending" || sending ? null : asked);

  const send = async (decision: Verdict): Promise<void> => {
    if (!me || sending || over) return;
    setArmed(decision);
    if (!me.name) return setAsking(true);
    setTried(true);
    setSaid(new Map());
    setRefused(null);
    if (own.size) return;
    setSending(decision);
    const outcome = await decide(asked.id, decision, me, comments, data);
    setSending(null);
    if (outcome.kind === "done") {
      toast(`${decision === "approve" ? "Approved" : "Rejected"}: ${asked.title ?? asked.node_id}`, decision === "approve" ? "completed" : "failed");
      onLight(null);
      onChanged();
    } else if (!isShown()) toast(`${asked.title ?? asked.node_id}: ${outcome.kind === "invalid" ? "the form has problems" : outcome.why}`, "failed");
    else if (outcome.kind === "late") setLate(outcome);
    else if (outcome.kind === "invalid") setSaid(outcome.problems);
    else setRefused(outcome.why);
  };

  // The first field that is wrong.
  const wrong = [...problems.keys()].join(" ");
  useEffect(() => {
    if (tried && wrong) box.current?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus();
  }, [tried, wrong !== "" && sending === null]);

  const arm = (decision: Verdict): void => {
    setArmed(decision);
    box.current?.querySelector<HTMLElement>(`[data-decision="${decision}"]`)?.focus();
  };
  const keys = [
    { keys: "a", label: "Approve: go to the button, Enter decides", run: () => arm("approve") },
    { keys: "r", label: "Reject: go to the button, Enter decides", run: () => arm("reject") },
    { keys: "c", label: "Write a comment", run: () => box.current?.querySelector<HTMLElement>(".comment-field")?.focus() },
    { keys: "Ctrl+ENTER", label: "Send the decision that is chosen", everywhere: true, run: () => void (armed && send(armed)) },
  ];
  useShortcuts(over ? [] : keys);
  const commands: Command[] = [
    { label: "Approve", keys: "a", icon: "check", run: () => arm("approve") },
    { label: "Reject", keys: "r", icon: "close", run: () => arm("reject") },
  ];
  useCommands(over ? [] : commands);

  if (over) {
    const isOwn = over.decisions.some((one) => one.by === me?.name && one.comments === comments);
    return (
      <Decided
        asked={over}
        before={
          <>
            {late ? (
              <>
                <h3>Somebody was faster</h3>
                <p>Your decision came second and did not count. Nothing is wrong, and nothing is left to do.</p>
                {over.status === "pending" && <p className="muted">{late.why}</p>}
              </>
            ) : (
              !isOwn && <h3>This ended while you had it open</h3>
            )}
            {!isOwn && comments && (
              <p className="muted">
                Your comment was not sent: <q>{comments}</q>
              </p>
            )}
            {!isOwn && !same(data, initial) && <Json value={data} label="What you filled in was not sent" maxHeight={240} />}
          </>
        }
      />
    );
  }
  const light = (decision: Verdict) => ({
    onPointerEnter: () => onLight(decision),
    onPointerLeave: () => onLight(armed),
    onFocus: () => {
      setArmed(decision);
      onLight(decision);
    },
  });
  return (
    <div className="deciding" ref={box} role="form" aria-label="Decision">
      {schema && (
        <section>
          <FormOrJson schema={schema} value={data} onChange={setData} problems={problems} head={<h3>{typeof schema.title === "string" ? schema.title : "To fill in"}</h3>} />
        </section>
      )}
      <section className="form-field">
        <label htmlFor="comments">
          Comment <span className="form-optional">optional, kept with the decision</span>
        </label>
        <textarea id="comments" className="field comment-field" rows={2} maxLength={10_000} value={comments} onChange={(event) => setComments(event.target.value)} />
      </section>
      {refused && (
        <p className="form-problem" role="alert">
          {refused}
        </p>
      )}
      {obstacle && <p className="obstacle">{obstacle}</p>}
      {me && (asking || !me.name) && me.isGiven ? (
        <WhoAreYou
          asks={asked.approvers}
          onDone={() => {
            setAsking(false);
            box.current?.querySelector<HTMLElement>(`[data-decision="${armed ?? "approve"}"]`)?.focus();
          }}
        />
      ) : (
        me?.isGiven && (
          <p className="muted decide-as">
            You decide as <b>{me.name}</b>
            {me.groups.length > 0 && <> ({me.groups.join(", ")})</>}.{" "}
            <button type="button" className="link-button" onClick={() => setAsking(true)}>
              Somebody else?
            </button>
          </p>
        )
      )}
      <div className="decide-bar" data-lit={lit ?? undefined}>
        <Button
          {...light("approve")}
          kind="approve"
          icon="check"
          data-decision="approve"
          disabled={!me || sending !== null || obstacle !== null}
          twin={commandFor(asked, "approve", me, comments, data)}
          onClick={() => void send("approve")}
        >
          {sending === "approve" ? "Approving…" : "Approve"} <kbd>a</kbd>
        </Button>
        <Button
          {...light("reject")}
          kind="reject"
          icon="close"
          data-decision="reject"
          disabled={!me || sending !== null || obstacle !== null}
          twin={commandFor(asked, "reject", me, comments, data)}
          onClick={() => void send("reject")}
        >
          {sending === "reject" ? "Rejecting…" : "Reject"} <kbd>r</kbd>
        </Button>
        <p className="decide-hint">{hintOf(asked, lit)}</p>
      </div>
    </div>
  );
}

function hintOf(asked: Approval, lit: Verdict | null): string {
  const leads = { approve: asked.leads_to.approve.join(", "), reject: asked.leads_to.reject.join(", ") };
  const more = asked.quorum - agreed(asked) - 1;
  if (lit === "approve") return more > 0 ? `Then ${more} more ${more === 1 ? "person has" : "people have"} to approve` : leads.approve ? `Goes on with ${leads.approve}` : "Nothing more follows";
  if (lit === "reject") return leads.reject ? `Goes on with ${leads.reject}` : "There is no other way: the run fails";
  return `Approve: ${leads.approve || "the end"} · Reject: ${leads.reject || "the run fails"}`;
}

/** On a server that asks for no key, people say who they are; this browser remembers it. */
function WhoAreYou({ asks, onDone }: { asks: readonly string[]; onDone: () => void }) {
  const [name, setName] = useState(given.get().name);
  const [groups, setGroups] = useState(given.get().groups.join(", "));
  const save = (event: FormEvent): void => {
    event.preventDefault();
    if (!name.trim()) return;
    given.set({ name: name.trim(), groups: groups.split(",").map((one) => one.trim()).filter(Boolean) });
    onDone();
  };
  return (
    <form className="who" onSubmit={save}>
      <p>
        <b>Who are you?</b> Decisions are kept with a name. This server asks for no key, so it takes your word for it, and this browser remembers it.
        {asks.length > 0 && <> Asked were: {asks.join(", ")}.</>}
      </p>
      <div className="row">
        <input className="field grow" aria-label="Your name" placeholder="Name" autoComplete="username" required autoFocus value={name} onChange={(event) => setName(event.target.value)} />
        <input className="field grow" aria-label="Your groups" placeholder="Groups, if any: finance, legal" value={groups} onChange={(event) => setGroups(event.target.value)} />
        <Button type="submit" kind="primary">
          That’s me
        </Button>
      </div>
    </form>
  );
}
