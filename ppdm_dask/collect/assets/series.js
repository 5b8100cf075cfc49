// A series of waves: what this device keeps between them is the permanent symbols of some blocks,
// never an answer. Where they are kept they are not drawn again, nor is the answer asked for.
const series = (survey) => {
  const name = `ppdm:series:${survey.series}`;
  const blocks = survey.blocks.filter((block) => block.keeps);
  const read = () => JSON.parse(localStorage.getItem(name)) ?? {};
  // Undefined where nothing is kept; -1 stands for what no symbol is written as.
  const symbols = (all, { keeps }) => {
    const own = all[keeps.name];
    return own && own.symbols.map((each, i) => (own.stage === keeps.stage ? keeps.order[i].indexOf(each) : -1));
  };

  // Why nothing may be drawn on this device, as a word of the page; empty where it may. What is not
  // kept, or of a first stage that is another one now, would be drawn twice and give more away.
  const refusal = () => {
    try {
      localStorage.setItem(`${name}:`, "");
      localStorage.removeItem(`${name}:`);
      const all = read();
      return blocks.some((block) => symbols(all, block)?.includes(-1)) ? "changed" : "";
    } catch {
      return "unkept";
    }
  };

  const holds = (place) => {
    const own = blocks.find((block) => block.places.includes(place));
    return own !== undefined && own.keeps.name in read();
  };

  // What is drawn first is kept first: a report that is sent can always be drawn from again.
  const report = (codes, open) => {
    const all = read();
    const held = survey.blocks.map((block) =>
      block.keeps && (symbols(all, block) ?? draw.permanent(block, codes, open)));
    survey.blocks.forEach(({ keeps }, j) => {
      if (keeps) all[keeps.name] = { stage: keeps.stage, symbols: held[j].map((each, i) => keeps.order[i][each]) };
    });
    localStorage.setItem(name, JSON.stringify(all));
    return draw.report(survey.blocks, codes, open, held);
  };

  return { holds, refusal, report };
};
