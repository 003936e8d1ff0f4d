import { useEffect, useImperativeHandle, useLayoutEffect, useMemo, useRef, useState, type KeyboardEvent, type Ref } from "react";
import { complete, type Completion, type Known, type Suggestion } from "../../document/complete.ts";
import type { Edit } from "../../document/edits.ts";
import { highlight, type Language, type Piece } from "../../lib/highlight.ts";

export const LINE = 18;
const SPARE = 12;

export interface Mark {
  line: number;
  column: number;
  severity: "error" | "warning";
  message: string;
}

export interface CodeFieldHandle {
  /** Change the text as if somebody had typed it, so that it can be undone. */
  edit: (edit: Edit) => void;
  /** Show a place and put the cursor there. */
  show: (line: number, column?: number) => void;
}

interface CodeFieldProps {
  text: string;
  onChange: (text: string) => void;
  language: Language;
  marks: readonly Mark[];
  known: Known | null;
  label: string;
  /** Where the cursor is: its offset in the text. */
  onCursor?: (at: number) => void;
  handle: Ref<CodeFieldHandle>;
}

/**
 * A large field for code. The textarea has the text, its cursor and its undo; the colours, line numbers and
 * marks are drawn behind it, and only for the lines in sight.
 */
export function CodeField({ text, onChange, language, marks, known, label, onCursor, handle }: CodeFieldProps) {
  const field = useRef<HTMLTextAreaElement>(null);
  const [sight, setSight] = useState({ top: 0, left: 0, height: 600 });
  const [offer, setOffer] = useState<(Completion & { chosen: number; x: number; y: number }) | null>(null);
  const leaves = useRef(false);
  const lines = useMemo(() => text.split("\n"), [text]);
  const byLine = useMemo(() => {
    const found = new Map<number, Mark[]>();
    for (const one of marks) found.set(one.line, [...(found.get(one.line) ?? []), one]);
    return found;
  }, [marks]);
  const first = Math.max(0, Math.floor(sight.top / LINE) - SPARE);
  const last = Math.min(lines.length, Math.ceil((sight.top + sight.height) / LINE) + SPARE);
  const shown = useMemo(() => highlightPart(lines, first, last, language), [lines, first, last, language]);
  const digits = Math.max(3, String(lines.length).length);

  const look = (): void => {
    const own = field.current!;
    setSight({ top: own.scrollTop, left: own.scrollLeft, height: own.clientHeight });
  };
  useLayoutEffect(() => {
    look();
    const observer = new ResizeObserver(look);
    observer.observe(field.current!);
    return () => observer.disconnect();
  }, []);
  // The field is not React's to write: only what comes from elsewhere is put in.
  useEffect(() => {
    if (field.current!.value !== text) field.current!.value = text;
  }, [text]);

  const write = (start: number, end: number, added: string, cursor = added.length): void => {
    const own = field.current!;
    own.focus();
    own.setSelectionRange(start, end);
    // The only way that keeps the undo of the browser.
    if (!document.execCommand("insertText", false, added)) {
      own.setRangeText(added, start, end, "end");
      onChange(own.value);
    }
    own.setSelectionRange(start + cursor, start + cursor);
  };
  const reveal = (line: number): void => {
    const own = field.current!;
    const top = (line - 1) * LINE;
    if (top < own.scrollTop + 2 * LINE || top > own.scrollTop + own.clientHeight - 3 * LINE) own.scrollTop = top - own.clientHeight / 3;
  };
  useImperativeHandle(handle, () => ({
    edit: (edit) => {
      write(edit.start, edit.end, edit.text, edit.cursor);
      reveal(lineOf(field.current!.value, edit.start + edit.cursor));
    },
    show: (line, column = 1) => {
      const own = field.current!;
      const at = offsetOf(own.value, line, column);
      const word = /^(?:"[^"\n]*"|[\w.:/-]+)/.exec(own.value.slice(at, at + 200))?.[0].length ?? 0;
      own.focus({ preventScroll: true });
      own.setSelectionRange(at, at + word);
      reveal(line);
      onCursor?.(at);
    },
  }));

  const suggest = (isAsked: boolean): void => {
    const own = field.current!;
    if (!known || own.selectionStart !== own.selectionEnd) return setOffer(null);
    const found = complete(own.value, own.selectionStart, known);
    if (!found || (!isAsked && found.typed === "")) return setOffer(null);
    const line = lineOf(own.value, found.start);
    const column = found.start - own.value.lastIndexOf("\n", found.start - 1) - 1;
    setOffer({ ...found, chosen: 0, x: column, y: line * LINE });
  };
  const take = (one: Suggestion): void => {
    if (!offer) return;
    setOffer(null);
    write(offer.start, offer.end, one.text);
    // After a key there is a value to choose.
    if (one.kind === "key") suggest(true);
  };

  const press = (event: KeyboardEvent<HTMLTextAreaElement>): void => {
    const own = event.currentTarget;
    const isPlain = !event.ctrlKey && !event.metaKey && !event.altKey;
    if (offer) {
      const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
      if (step) {
        event.preventDefault();
        return setOffer({ ...offer, chosen: (offer.chosen + step + offer.items.length) % offer.items.length });
      }
      if (isPlain && !event.shiftKey && (event.key === "Enter" || event.key === "Tab")) {
        event.preventDefault();
        return take(offer.items[offer.chosen]!);
      }
      if (event.key === "Escape") {
        event.preventDefault();
        return setOffer(null);
      }
    }
    if (event.key === " " && event.ctrlKey) {
      event.preventDefault();
      suggest(true);
    } else if (event.key === "/" && (event.ctrlKey || event.metaKey) && language === "yaml") {
      event.preventDefault();
      changeLines(own, toggleComment);
    } else if (event.key === "Escape") {
      leaves.current = true;
      return;
    } else if (event.key === "Tab" && isPlain && !leaves.current) {
      event.preventDefault();
      const isBlock = own.value.slice(own.selectionStart, own.selectionEnd).includes("\n");
      if (event.shiftKey) changeLines(own, (all) => all.map((line) => line.replace(/^ {1,2}/, "")));
      else if (isBlock) changeLines(own, (all) => all.map((line) => (line ? `  ${line}` : line)));
      else write(own.selectionStart, own.selectionEnd, "  ");
    } else if (event.key === "Enter" && isPlain && !event.shiftKey) {
      event.preventDefault();
      const before = own.value.slice(own.value.lastIndexOf("\n", own.selectionStart - 1) + 1, own.selectionStart);
      const lead = /^ *(?:- +)?/.exec(before)![0];
      const deeper = /[{[:]\s*$/.test(before) || /:\s+[|>][+-]?$/.test(before) ? "  " : "";
      write(own.selectionStart, own.selectionEnd, `\n${" ".repeat(lead.length)}${deeper}`);
    }
    leaves.current = false;
  };
  const changeLines = (own: HTMLTextAreaElement, change: (lines: string[]) => string[]): void => {
    const { value, selectionStart, selectionEnd } = own;
    const start = value.lastIndexOf("\n", selectionStart - 1) + 1;
    let end = value.indexOf("\n", Math.max(selectionStart, selectionEnd - 1));
    if (end < 0) end = value.length;
    const before = value.slice(start, end);
    const after = change(before.split("\n")).join("\n");
    if (after === before) return;
    write(start, end, after);
    if (before.includes("\n")) own.setSelectionRange(start, start + after.length);
    else {
      const at = Math.max(start, selectionStart + after.length - before.length);
      own.setSelectionRange(at, at);
    }
  };

  return (
    <div className="codefield" style={{ "--gutter": `${digits + 3}ch` } as object}>
      <div className="codefield-lines" aria-hidden="true">
        <div style={{ transform: `translateY(${-sight.top}px)` }}>
          {shown.map((pieces, offset) => {
            const number = first + offset + 1;
            const here = byLine.get(number);
            return (
              <div key={number} className="codefield-line" data-problem={here?.[0]?.severity} style={{ top: (number - 1) * LINE }}>
                <span className="codefield-number">{number}</span>
                <span className="codefield-code">
                  <span style={{ transform: `translateX(${-sight.left}px)` }}>
                    {pieces.map((one, at) => (
                      <span key={at} className={one.kind ? `code-${one.kind}` : undefined}>
                        {one.text}
                      </span>
                    ))}
                    {here?.map((mark, at) => (
                      <span key={`mark ${at}`} className="codefield-mark" data-severity={mark.severity} style={{ left: `${mark.column - 1}ch`, width: `${markWidth(pieces, mark.column)}ch` }} />
                    ))}
                  </span>
                </span>
              </div>
            );
          })}
        </div>
      </div>
      <textarea
        ref={field}
        className="codefield-text"
        aria-label={label}
        aria-describedby="codefield-help"
        aria-autocomplete="list"
        aria-controls={offer ? "codefield-offer" : undefined}
        aria-activedescendant={offer ? `codefield-offer-${offer.chosen}` : undefined}
        aria-haspopup="listbox"
        spellCheck={false}
        autoComplete="off"
        autoCapitalize="off"
        autoCorrect="off"
        wrap="off"
        defaultValue={text}
        onScroll={look}
        onChange={(event) => {
          onChange(event.target.value);
          suggest(false);
        }}
        onKeyDown={press}
        onSelect={(event) => onCursor?.(event.currentTarget.selectionStart)}
        onBlur={() => setOffer(null)}
      />
      <span id="codefield-help" className="visually-hidden">
        Ctrl Space offers what fits. Tab indents; Escape, then Tab, leaves the field.
      </span>
      {offer && (
        <ul className="codefield-offer" id="codefield-offer" role="listbox" aria-label="What fits here" style={{ ...placeOf(offer.y - sight.top + 8, sight.height), left: `min(calc(var(--gutter) + ${offer.x}ch - ${sight.left}px), 40%)` }}>
          {offer.items.map((one, at) => (
            <li
              key={one.text}
              id={`codefield-offer-${at}`}
              role="option"
              aria-selected={at === offer.chosen}
              ref={(element) => {
                if (at === offer.chosen && element) keepInSight(element);
              }}
              // Before the field loses the focus.
              onPointerDown={(event) => {
                event.preventDefault();
                take(one);
              }}
            >
              <b>{one.text.replace(/: $/, "")}</b>
              <span className="truncate">{one.about}</span>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

/** How far above the lines in sight the beginning of a block of text is looked for. */
const BACK_MAX = 200;

/** The colours of some lines. Whether they are in a block of text depends on what is above them. */
function highlightPart(lines: readonly string[], first: number, last: number, language: Language): Piece[][] {
  let start = first;
  let indent = Infinity;
  for (let at = first; language === "yaml" && indent > 0 && at >= Math.max(0, first - BACK_MAX); at--) {
    const line = lines[at]!;
    if (line.trim() === "") continue;
    const own = /^ */.exec(line)![0].length;
    if (own < indent && at < first && /[:-]\s+[|>][+-]?\d?\s*(#.*)?$/.test(line)) {
      start = at;
      break;
    }
    indent = Math.min(indent, own);
  }
  return highlight(lines.slice(start, last).join("\n"), language).slice(first - start);
}

/** Below the line, or above it where there is no room. */
function placeOf(below: number, height: number): { top: number } | { bottom: number } {
  return below + 200 > height && below > 200 ? { bottom: height - below + LINE } : { top: below };
}

/** Only the list scrolls: `scrollIntoView` would move what is around it as well. */
function keepInSight(element: HTMLElement): void {
  const list = element.parentElement!;
  if (element.offsetTop < list.scrollTop) list.scrollTop = element.offsetTop;
  else if (element.offsetTop + element.offsetHeight > list.scrollTop + list.clientHeight) list.scrollTop = element.offsetTop + element.offsetHeight - list.clientHeight;
}

export function lineOf(text: string, at: number): number {
  let line = 1;
  for (let from = text.indexOf("\n"); from >= 0 && from < at; from = text.indexOf("\n", from + 1)) line++;
  return line;
}

export function offsetOf(text: string, line: number, column: number): number {
  let start = 0;
  for (let number = 1; number < line; number++) {
    const end = text.indexOf("\n", start);
    if (end < 0) break;
    start = end + 1;
  }
  const end = text.indexOf("\n", start);
  return Math.min(start + column - 1, end < 0 ? text.length : end);
}

function markWidth(pieces: readonly { text: string }[], column: number): number {
  const line = pieces.map((one) => one.text).join("");
  const rest = line.slice(column - 1);
  return Math.max(1, /^(?:"[^"]*"|'[^']*'|[^\s,[\]{}:]+)/.exec(rest)?.[0].length ?? 1);
}

function toggleComment(lines: string[]): string[] {
  const isOn = lines.every((line) => /^\s*(#|$)/.test(line));
  return lines.map((line) => (isOn ? line.replace(/^(\s*)# ?/, "$1") : line.trim() ? line.replace(/^(\s*)/, "$1# ") : line));
}
