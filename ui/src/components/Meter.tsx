/** How much of something is used, or done. */
export function Meter({ value, most, tone, label }: { value: number; most: number; tone?: string | undefined; label: string }) {
  const share = most > 0 ? Math.min(1, value / most) : 0;
  return (
    <div className="progress" role="meter" aria-label={label} aria-valuemin={0} aria-valuemax={most} aria-valuenow={value} data-tone={tone}>
      <span style={{ width: `${share * 100}%` }} />
    </div>
  );
}
