/**
 * A layered layout in about linear time: 5,000 nodes take well under a second.
 *
 * Longest-path layers, a few barycentre sweeps to untangle them, then positions by the median of the
 * neighbours. Edges over several layers get waypoints, so that they run between nodes. Pure: the same
 * graph has the same layout, whatever happens in its run.
 */

export interface LayoutInput {
  nodes: readonly { id: string; width: number; height: number }[];
  /** Edges that lead back (loops) do not take part. */
  edges: readonly { from: string; to: string; back?: boolean }[];
  /** Between layers, and between nodes of one. */
  gap?: { layer: number; node: number };
}

export interface Point {
  x: number;
  y: number;
}

export interface LayoutResult {
  /** Top left corners. */
  nodes: Map<string, Point>;
  /** Points between the ends of edges that cross layers, by the edge's number. */
  waypoints: Map<number, Point[]>;
  width: number;
  height: number;
}

const LAYER_GAP = 56;
const NODE_GAP = 20;
const WAY_WIDTH = 12;
const SWEEPS = 6;
/** Longer edges go straight: waypoints would be most of the work. */
const SPAN_MAX = 24;

export function layOut({ nodes, edges, gap = { layer: LAYER_GAP, node: NODE_GAP } }: LayoutInput): LayoutResult {
  const count = nodes.length;
  const index = new Map(nodes.map((node, at) => [node.id, at]));
  const down: number[][] = nodes.map(() => []);
  const degree = new Int32Array(count);
  const ends: [number, number][] = edges.map(({ from, to }) => [index.get(from) ?? -1, index.get(to) ?? -1]);
  const isForward = edges.map((edge, at) => !edge.back && ends[at]![0] >= 0 && ends[at]![1] >= 0 && ends[at]![0] !== ends[at]![1]);
  ends.forEach(([from, to], at) => {
    if (!isForward[at]) return;
    down[from]!.push(to);
    degree[to]!++;
  });

  // Layers: the longest path from an entry. What is left over is a cycle; it begins anywhere.
  const layer = new Int32Array(count);
  const left = Int32Array.from(degree);
  const queue: number[] = [];
  const done = new Uint8Array(count);
  for (let at = 0; at < count; at++) if (!left[at]) queue.push(at);
  let next = 0;
  for (let head = 0; head < count; head++) {
    if (head === queue.length) {
      while (done[next] || queue.includes(next, head)) next++;
      queue.push(next);
    }
    const at = queue[head]!;
    done[at] = 1;
    for (const to of down[at]!) {
      if (done[to]) continue;
      layer[to] = Math.max(layer[to]!, layer[at]! + 1);
      if (--left[to]! === 0) queue.push(to);
    }
  }

  // Items of a layer: nodes, then waypoints of edges that pass it.
  const width: number[] = nodes.map((node) => node.width);
  const rank: number[] = [...layer];
  const up: number[][] = nodes.map(() => []);
  const below: number[][] = nodes.map(() => []);
  const ways = new Map<number, number[]>();
  ends.forEach(([from, to], at) => {
    if (!isForward[at]) return;
    const span = rank[to]! - rank[from]!;
    if (span <= 0) return;
    let last = from;
    if (span > 1 && span <= SPAN_MAX) {
      const made: number[] = [];
      for (let step = 1; step < span; step++) {
        const way = rank.length;
        rank.push(rank[from]! + step);
        width.push(WAY_WIDTH);
        up.push([last]);
        below.push([]);
        below[last]!.push(way);
        made.push(way);
        last = way;
      }
      ways.set(at, made);
    }
    below[last]!.push(to);
    up[to]!.push(last);
  });

  const total = rank.length;
  const layers: number[][] = [];
  const place = new Float64Array(total);
  for (let at = 0; at < total; at++) (layers[rank[at]!] ??= []).push(at);
  for (let at = 0; at < layers.length; at++) (layers[at] ??= []).forEach((item, order) => (place[item] = order));

  const weight = new Float64Array(total);
  const sort = (row: number[], toward: number[][]): void => {
    let isSorted = true;
    let last = -Infinity;
    for (let order = 0; order < row.length; order++) {
      const near = toward[row[order]!]!;
      let sum = 0;
      for (const one of near) sum += place[one]!;
      const own = near.length ? sum / near.length : order;
      weight[row[order]!] = own;
      isSorted &&= own >= last;
      last = own;
    }
    if (isSorted) return;
    row.sort((a, b) => weight[a]! - weight[b]! || place[a]! - place[b]!);
    for (let order = 0; order < row.length; order++) place[row[order]!] = order;
  };
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    if (sweep % 2 === 0) for (let at = 1; at < layers.length; at++) sort(layers[at]!, up);
    else for (let at = layers.length - 2; at >= 0; at--) sort(layers[at]!, below);
  }

  // Positions: packed rows, then pulled toward the median of the neighbours, keeping the order.
  const centre = new Float64Array(total);
  for (const row of layers) {
    let x = 0;
    for (const item of row) {
      centre[item] = x + width[item]! / 2;
      x += width[item]! + gap.node;
    }
    const shift = (x - gap.node) / 2;
    for (const item of row) centre[item]! -= shift;
  }
  const pull = (row: number[], toward: number[][], other: number[][]): void => {
    const wanted = row.map((item) => {
      const near = toward[item]!.length ? toward[item]! : other[item]!;
      if (near.length < 3) return near.length ? (centre[near[0]!]! + centre[near[near.length - 1]!]!) / 2 : centre[item]!;
      const xs = near.map((one) => centre[one]!).sort((a, b) => a - b);
      const middle = xs.length >> 1;
      return xs.length % 2 ? xs[middle]! : (xs[middle - 1]! + xs[middle]!) / 2;
    });
    settle(row, wanted, width, centre, gap.node);
  };
  for (let sweep = 0; sweep < 4; sweep++) {
    if (sweep % 2 === 0) for (let at = 1; at < layers.length; at++) pull(layers[at]!, up, below);
    else for (let at = layers.length - 2; at >= 0; at--) pull(layers[at]!, below, up);
  }

  let least = Infinity;
  let most = -Infinity;
  for (let at = 0; at < total; at++) {
    least = Math.min(least, centre[at]! - width[at]! / 2);
    most = Math.max(most, centre[at]! + width[at]! / 2);
  }
  const tops: number[] = [];
  let y = 0;
  for (const row of layers) {
    tops.push(y);
    let height = 0;
    for (const item of row) if (item < count) height = Math.max(height, nodes[item]!.height);
    y += height + gap.layer;
  }
  const found = new Map<string, Point>();
  nodes.forEach((node, at) => found.set(node.id, { x: centre[at]! - node.width / 2 - least, y: tops[rank[at]!]! }));
  const waypoints = new Map<number, Point[]>();
  for (const [edge, made] of ways) {
    const height = nodes[ends[edge]![0]]!.height;
    waypoints.set(edge, made.map((item) => ({ x: centre[item]! - least, y: tops[rank[item]!]! + height / 2 })));
  }
  return { nodes: found, waypoints, width: count ? most - least : 0, height: Math.max(0, y - gap.layer) };
}

/** Give a row the positions nearest to those wanted, in its order and without overlaps: blocks that collide are merged. */
function settle(row: number[], wanted: number[], width: number[], centre: Float64Array, between: number): void {
  const blocks: { from: number; sum: number; size: number }[] = [];
  // Within a block, item n is at the block's start + offsets[n].
  const offsets: number[] = [];
  row.forEach((_, at) => {
    offsets.push(0);
    blocks.push({ from: at, sum: wanted[at]!, size: 1 });
    while (blocks.length > 1) {
      const last = blocks[blocks.length - 1]!;
      const before = blocks[blocks.length - 2]!;
      const end = before.from + before.size - 1;
      const gap = (width[row[end]!]! + width[row[last.from]!]!) / 2 + between;
      const begin = before.sum / before.size;
      if (last.sum / last.size >= begin + offsets[end]! + gap) break;
      const shift = offsets[end]! + gap;
      for (let item = last.from; item < last.from + last.size; item++) offsets[item]! += shift;
      before.sum += last.sum - shift * last.size;
      before.size += last.size;
      blocks.pop();
    }
  });
  for (const block of blocks) {
    const begin = block.sum / block.size;
    for (let item = block.from; item < block.from + block.size; item++) centre[row[item]!] = begin + offsets[item]!;
  }
}
