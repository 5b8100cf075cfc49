"use strict";
// Draws one report from one person's answers, by the steps that a design states (Design.steps).
// All chances are compared as whole numbers: Math.random and fractions have no place here.
const draw = (() => {
  const ALL = 0xffffffffffffffffn;

  // Words of 64 bits that the operating system draws; sources of one stream are all alike.
  const secret = () => {
    const buffer = new BigUint64Array(64);
    let next = buffer.length;
    return () => {
      if (next === buffer.length) {
        crypto.getRandomValues(buffer);
        next = 0;
      }
      const word = buffer[next];
      buffer[next++] = 0n;
      return word;
    };
  };

  // 64 throws of a coin at once, `count` times: a lane is 1 as soon as its number falls below the
  // coin's, digit by digit.
  const throws = (coin, open, count) => {
    if (coin.digits === "one") return Array(count).fill(ALL);
    const word = open(coin.at);
    return Array.from({ length: count }, () => {
      let undecided = ALL, ones = 0n;
      for (const digit of coin.digits) {
        const lanes = word();
        if (digit === "1") {
          ones |= undecided & ~lanes & ALL;
          undecided &= lanes;
        } else {
          undecided &= ~lanes & ALL;
        }
        if (undecided === 0n) break;
      }
      return ones;
    });
  };
  const heads = (coin, open) => (throws(coin, open, 1)[0] & 1n) === 1n;

  // A whole number below m from one word.
  const below = (m, word) => Number((word * BigInt(m)) >> 64n);

  // The symbol of a law whose rising cuts are whole numbers of 62 bits.
  const symbol = (cuts, last, word) => {
    const number = word >> 2n;
    let found = 0;
    while (found < last && BigInt(cuts[found]) <= number) found++;
    return found;
  };

  const row = (codes, shape) => codes.reduce((index, code, i) => index * shape[i] + code, 0);
  const unrow = (index, shape) => {
    const codes = [];
    for (let i = shape.length - 1; i >= 0; i--) {
      codes.unshift(index % shape[i]);
      index = Math.floor(index / shape[i]);
    }
    return codes;
  };

  const steps = {
    truth: (step, codes) => codes,

    flip: (step, codes, open) => (heads(step.keep, open) ? codes : codes.map((code) => 1 - code)),

    step: (step, [code], open) => {
      const kept = heads(step.keep, open);
      const other = (code + 1 + below(step.n - 1, open(step.at)())) % step.n;
      return [kept ? code : other];
    },

    mix: (step, codes, open) => {
      const kept = heads(step.keep, open);
      return codes.map((code, i) => {
        const law = step.others[i];
        const other = law.cuts
          ? symbol(law.cuts, law.last, open(law.at)())
          : Number(heads(law, open));
        return kept ? code : other;
      });
    },

    draw: (step, codes, open) => {
      const x = row(codes, step.shape);
      return unrow(symbol(step.cuts[x], step.last[x], open(step.at)()), step.reported);
    },

    cards: (step, [code], open) => {
      let red = 0;
      for (const packs of step.packs) red += Number(packs.map((p) => heads(p, open))[code]);
      return [step.reversed ? 1 - red : red];
    },

    // Two stages: what a device keeps from wave to wave, and a report of it drawn for one wave.
    permanent: (step, codes, open, held) =>
      drawn(step.again, held ?? drawn(step.first, codes, under(open, 0)), under(open, 1)),

    // Reports that are sets: the categories that are in them.
    unary: (step, [code], open) => {
      const lanes = throws(step.others, open, Math.ceil(step.k / 64));
      const truth = heads(step.truth, open);
      const within = (v) => ((lanes[v >> 6] >> BigInt(v & 63)) & 1n) === 1n;
      return [members(step.k, (v) => (v === code ? truth : within(v)))];
    },

    subset: (step, [code], open) => {
      // Floyd's algorithm on the categories other than the truth: of those inside, or of those
      // outside where they are fewer.
      const held = heads(step.truth, open), direct = 2 * step.size <= step.k;
      const some = Math.min(step.size, step.k - step.size), marked = new Set();
      const own = held === direct;
      if (own) marked.add(code);
      const mark = (direct ? step.size : step.k - step.size) - Number(own);
      const word = open(step.at);
      for (let i = 0; i < Math.min(mark, some); i++) {
        const j = step.k - 1 - mark + i, t = below(j + 1, word());
        const past = (v) => (v >= code ? v + 1 : v);
        marked.add(marked.has(past(t)) ? past(j) : past(t));
      }
      return [members(step.k, (v) => marked.has(v) === direct)];
    },
  };

  const members = (k, within) => [...Array(k).keys()].filter(within);

  const under = (open, ...above) => (key) => open([...above, ...key]);
  const drawn = (step, codes, open, held) => steps[step.op](step, codes, open, held);
  const own = (block, codes) => block.places.map((i) => codes[i]);

  // Reports of the blocks of a design, at the places of their attributes; others stay as they are.
  // Of a block with a permanent first stage `held` may have its symbols, which are not drawn again.
  const report = (blocks, codes, open, held = []) => {
    const found = [...codes];
    blocks.forEach((block, j) => {
      const symbols = drawn(block.step, own(block, codes), under(open, ...block.key), held[j]);
      block.places.forEach((place, i) => {
        found[place] = symbols[i];
      });
    });
    return found;
  };

  // The permanent symbols of a block, from the sources that its report would draw them from.
  const permanent = (block, codes, open) =>
    drawn(block.step.first, own(block, codes), under(open, ...block.key, 0));

  return { permanent, report, secret };
})();
