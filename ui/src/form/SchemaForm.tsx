import { useEffect, useId, useState, type ReactNode } from "react";
import { Button } from "../components/Button.tsx";
import { CodeEditor, readJson } from "../components/CodeEditor.tsx";
import { beginOf, choicesOf, groupOf, initialOf, isRequired, kindOf, membersOf, NotJson, readNumber, resolve, same, titleOf, type Choice, type Pointer, type Problems, type Schema } from "./schema.ts";

interface SchemaFormProps {
  schema: Schema;
  value: unknown;
  onChange: (value: unknown) => void;
  /** By the places of the fields. Those of the whole value are shown above. */
  problems: Problems;
}

/** A form for a value that fits a JSON Schema. */
export function SchemaForm({ schema, value, onChange, problems }: SchemaFormProps) {
  const prefix = useId();
  const own = resolve(schema, schema);
  const whole = problems.get("");
  const isSimple = kindOf(own, schema) === "object";
  return (
    <div className="form">
      {isSimple && whole && (
        <p className="form-problem" role="alert">
          {whole}
        </p>
      )}
      {isSimple ? (
        <Members root={schema} schema={own} value={value} path="" prefix={prefix} problems={problems} onChange={onChange} />
      ) : (
        <Field root={schema} schema={own} name={titleOf(own, "value")} value={value} path="" prefix={prefix} problems={problems} needed onChange={onChange} />
      )}
    </div>
  );
}

interface Part {
  root: Schema;
  schema: Schema;
  value: unknown;
  path: Pointer;
  prefix: string;
  problems: Problems;
  onChange: (value: unknown) => void;
}

function Members({ root, schema, value, path, prefix, problems, onChange }: Part) {
  const own = typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof NotJson) ? (value as Record<string, unknown>) : {};
  return (
    <>
      {membersOf(schema).map(([name, member]) => (
        <Field
          key={name}
          root={root}
          schema={resolve(member, root)}
          name={titleOf(resolve(member, root), name)}
          value={own[name]}
          path={`${path}/${name}`}
          prefix={prefix}
          problems={problems}
          needed={isRequired(schema, name)}
          onChange={(next) => {
            const { [name]: _, ...others } = own;
            onChange(next === undefined ? others : { ...own, [name]: next });
          }}
        />
      ))}
    </>
  );
}

function Field({ name, needed, ...part }: Part & { name: string; needed: boolean }) {
  const { root, schema, path, prefix, problems } = part;
  const kind = kindOf(schema, root, path.split("/").length - 1);
  const id = `${prefix}${path}`;
  const problem = problems.get(path);
  const about = typeof schema.description === "string" ? schema.description : null;
  const described = [about && `${id}-about`, problem && `${id}-problem`].filter(Boolean).join(" ") || undefined;
  const notes = (
    <>
      {about && (
        <span className="form-about" id={`${id}-about`}>
          {about}
        </span>
      )}
      {problem && (
        <span className="form-problem" id={`${id}-problem`} role="alert">
          {problem}
        </span>
      )}
    </>
  );
  const label = (
    <>
      {name} {!needed && <span className="form-optional">optional</span>}
    </>
  );
  if (kind === "object" || kind === "array" || kind === "choices") {
    return (
      <fieldset className="form-group" aria-describedby={described}>
        <legend>{label}</legend>
        {notes}
        {kind === "object" ? needed ? <Members {...part} /> : <OptionalGroup {...part} /> : kind === "array" ? <Entries {...part} name={name} /> : <Several {...part} />}
      </fieldset>
    );
  }
  if (kind === "boolean") {
    return (
      <div className="form-field">
        <label className="form-check">
          <input
            id={id}
            type="checkbox"
            checked={part.value === true}
            aria-describedby={described}
            aria-invalid={problem !== undefined || undefined}
            onChange={(event) => part.onChange(event.target.checked)}
          />
          {name}
        </label>
        {notes}
      </div>
    );
  }
  return (
    <div className="form-field">
      <label htmlFor={id}>{label}</label>
      <Input {...part} kind={kind} id={id} needed={needed} described={described} invalid={problem !== undefined} />
      {notes}
    </div>
  );
}

/** Its fields show their defaults also while the group is left out. */
function OptionalGroup(part: Part) {
  const { root, schema, value, path, onChange } = part;
  const depth = path.split("/").length - 1;
  const [fields, setFields] = useState(() => beginOf(schema, root, depth));
  const change = (next: unknown): void => {
    const counts = groupOf(schema, next as Record<string, unknown>, root, depth);
    setFields(counts === next ? beginOf(schema, root, depth) : (next as Record<string, unknown>));
    onChange(counts);
  };
  return <Members {...part} value={value ?? fields} onChange={change} />;
}

interface InputProps extends Part {
  kind: string;
  id: string;
  needed: boolean;
  described: string | undefined;
  invalid: boolean;
}

function Input({ kind, id, schema, value, onChange, needed, described, invalid }: InputProps) {
  const shared = { id, className: "field", "aria-describedby": described, "aria-invalid": invalid || undefined, "aria-required": needed || undefined };
  const examples = Array.isArray(schema.examples) ? schema.examples : [];
  const placeholder = examples.length > 0 && typeof examples[0] !== "object" ? String(examples[0]) : undefined;
  const text = typeof value === "string" || typeof value === "number" ? String(value) : "";
  if (kind === "choice") return <Select shared={shared} choices={choicesOf(schema)!} value={value} onChange={onChange} />;
  if (kind === "json") return <JsonField id={id} value={value} onChange={onChange} />;
  if (kind === "long") return <textarea {...shared} rows={3} placeholder={placeholder} value={text} onChange={(event) => onChange(event.target.value || undefined)} />;
  if (kind === "number" || kind === "integer") return <NumberField shared={shared} mode={kind === "integer" ? "numeric" : "decimal"} placeholder={placeholder} value={value} text={text} onChange={onChange} />;
  if (kind === "moment") {
    const local = text && !Number.isNaN(Date.parse(text)) ? toLocal(new Date(text)) : "";
    return <input {...shared} type="datetime-local" value={local} onChange={(event) => onChange(event.target.value ? new Date(event.target.value).toISOString() : undefined)} />;
  }
  const type = kind === "date" ? "date" : schema.format === "email" ? "email" : schema.format === "uri" ? "url" : "text";
  return <input {...shared} type={type} autoComplete="off" placeholder={placeholder} value={text} onChange={(event) => onChange(event.target.value || undefined)} />;
}

interface NumberFieldProps {
  shared: Record<string, unknown>;
  mode: "numeric" | "decimal";
  placeholder: string | undefined;
  value: unknown;
  text: string;
  onChange: (value: unknown) => void;
}

/** Shows what was typed as long as it is the value: `0.10` and `-0` are on their way to another number. */
function NumberField({ shared, mode, placeholder, value, text, onChange }: NumberFieldProps) {
  const [typed, setTyped] = useState("");
  return (
    <input
      {...shared}
      type="text"
      inputMode={mode}
      autoComplete="off"
      placeholder={placeholder}
      value={Object.is(readNumber(typed), value) ? typed : text}
      onChange={(event) => {
        setTyped(event.target.value);
        onChange(readNumber(event.target.value));
      }}
    />
  );
}

const toLocal = (date: Date): string => new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);

interface SelectProps {
  shared: Record<string, unknown> & { id: string };
  choices: readonly Choice[];
  value: unknown;
  onChange: (value: unknown) => void;
}

/** Few short values are beside each other, so that all can be seen. */
function Select({ shared, choices, value, onChange }: SelectProps) {
  const chosen = choices.findIndex((one) => same(one.value, value));
  const { className: _, ...rest } = shared;
  if (choices.length <= 4 && choices.reduce((sum, one) => sum + one.label.length, 0) <= 40) {
    return (
      <div {...rest} className="form-choices" role="radiogroup">
        {choices.map((one, at) => (
          <label key={at} data-chosen={at === chosen || undefined}>
            <input type="radio" name={shared.id} className="visually-hidden" checked={at === chosen} onChange={() => onChange(one.value)} />
            {one.label}
          </label>
        ))}
      </div>
    );
  }
  return (
    <select {...shared} value={chosen} onChange={(event) => onChange(choices[Number(event.target.value)]?.value)}>
      <option value={-1}>Choose…</option>
      {choices.map((one, at) => (
        <option key={at} value={at}>
          {one.label}
        </option>
      ))}
    </select>
  );
}

function Several({ root, schema, value, onChange }: Part) {
  const choices = choicesOf(resolve(schema.items, root))!;
  const chosen = Array.isArray(value) ? value : [];
  return (
    <div className="form-several">
      {choices.map((choice, at) => {
        const isIn = chosen.some((one) => same(one, choice.value));
        return (
          <label key={at} className="form-check">
            <input
              type="checkbox"
              checked={isIn}
              onChange={() => onChange(isIn ? chosen.filter((one) => !same(one, choice.value)) : [...chosen, choice.value])}
            />
            {choice.label}
          </label>
        );
      })}
    </div>
  );
}

function Entries({ root, schema, value, path, prefix, problems, onChange, name }: Part & { name: string }) {
  const entries = Array.isArray(value) ? value : [];
  const items = resolve(schema.items, root);
  return (
    <>
      {entries.map((one, at) => (
        <div key={at} className="form-entry">
          <div className="grow">
            <Field
              root={root}
              schema={items}
              name={`${titleOf(items, name)} ${at + 1}`}
              value={one}
              path={`${path}/${at}`}
              prefix={prefix}
              problems={problems}
              needed
              onChange={(next) => onChange(entries.map((other, number) => (number === at ? (next ?? "") : other)))}
            />
          </div>
          <Button kind="plain" icon="close" aria-label={`Remove ${name} ${at + 1}`} onClick={() => onChange(entries.filter((_, number) => number !== at))} />
        </div>
      ))}
      <div>
        <Button icon="add" onClick={() => onChange([...entries, initialOf(items, root) ?? ""])}>
          Add
        </Button>
      </div>
    </>
  );
}

function JsonField({ id, value, onChange }: { id?: string; value: unknown; onChange: (value: unknown) => void }) {
  const [text, setText] = useState(() => textOf(value));
  const read = readJson(text);
  const isTyped = value instanceof NotJson ? value.text === text : !read.error && same(read.value, value);
  // A value that came from elsewhere is shown; one that was typed here stays as it was typed.
  useEffect(() => {
    if (!isTyped) setText(textOf(value));
  }, [value]);
  return (
    <CodeEditor
      {...(id === undefined ? {} : { id })}
      language="json"
      text={text}
      rows={4}
      label="JSON"
      problem={read.error}
      onChange={(next) => {
        setText(next);
        const now = readJson(next);
        onChange(now.error ? new NotJson(next) : now.value);
      }}
    />
  );
}

function textOf(value: unknown): string {
  if (value === undefined) return "";
  return value instanceof NotJson ? value.text : JSON.stringify(value, null, 2);
}

/** A choice between the form and its JSON. */
export function FormOrJson({ schema, value, onChange, problems, head }: SchemaFormProps & { head?: ReactNode }) {
  const [asJson, setAsJson] = useState(false);
  return (
    <>
      <div className="row">
        {head}
        <span className="grow" />
        <button type="button" className="link-button" aria-pressed={asJson} disabled={value instanceof NotJson} onClick={() => setAsJson(!asJson)}>
          {asJson ? "Form" : "JSON"}
        </button>
      </div>
      {asJson ? (
        <>
          <JsonField value={value} onChange={onChange} />
          {[...problems].map(([path, problem]) => (
            <p key={path} className="form-problem" role="alert">
              {path && <code>{path}</code>} {problem}
            </p>
          ))}
        </>
      ) : (
        <SchemaForm schema={schema} value={value} onChange={onChange} problems={problems} />
      )}
    </>
  );
}
