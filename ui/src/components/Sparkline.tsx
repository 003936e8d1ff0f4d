import { showLocal } from "../lib/format.ts";

/** When things happened, as small bars: `times` between `from` and `to`. */
export function Sparkline({ times, from, to, tone = "red", label }: { times: readonly number[]; from: number; to: number; tone?: string; label: string }) {
  const parts = 24;
  const width = Math.max(1, to - from) / parts;
  const counts = new Array<number>(parts).fill(0);
  for (const time of times) counts[Math.max(0, Math.min(parts - 1, Math.floor((time - from) / width)))]! += 1;
  const most = Math.max(1, ...counts);
  return (
    <svg className="sparkline" data-tone={tone} viewBox="0 0 96 20" role="img" aria-label={label} preserveAspectRatio="none">
      <title>{`${label}\nfrom ${showLocal(from)} to ${showLocal(to)}`}</title>
      {counts.map((count, at) => (
        <rect key={at} x={at * 4} width={3} y={count ? 20 - Math.max(3, (count / most) * 20) : 19} height={count ? Math.max(3, (count / most) * 20) : 1} data-empty={!count || undefined} />
      ))}
    </svg>
  );
}
