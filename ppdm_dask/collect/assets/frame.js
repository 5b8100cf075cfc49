// The page in a frame: hands the report to the page around it, and sends nothing.
(() => {
  const survey = JSON.parse(document.getElementById("survey").textContent);
  const main = document.getElementById("main");
  const { origins, columns, places } = survey.embed;
  let host = null; // the origin of the page around, once that has said hello
  let answered = null;
  let handed = false; // in this window

  const refuse = () => {
    const said = document.createElement("h1");
    said.textContent = survey.words[preferred(survey)].elsewhere;
    main.replaceChildren(said);
  };
  // Every page around has to be of a named origin, and none of this one's, as it could read answers.
  // Browsers that do not tell who is around wait for the parent's greeting.
  const around = [...(location.ancestorOrigins ?? [])];
  if (parent === window || origins.includes(location.origin) || !around.every((each) => origins.includes(each))) {
    refuse();
    return;
  }

  const tell = (what, more, to) => parent.postMessage({ ppdm: what, survey: survey.id, ...more }, to);

  const word = (symbol, { words, none }) =>
    Array.isArray(symbol) ? symbol.map((each) => words[each]).join(survey.embed.separator) || none : words[symbol];
  const texts = (report) => {
    const found = report.map((symbol, i) => [survey.places[i], word(symbol, places[i])]);
    return Object.fromEntries([...found, [survey.embed.column, survey.design]]);
  };
  // Done once the page around has said that it keeps the report.
  const send = (_, state) => new Promise((resolve) => {
    const late = setTimeout(() => answered(false), 10_000);
    answered = (kept) => {
      clearTimeout(late);
      resolve(kept ? { after: { ...state, sent: true } } : { failed: ["failed"] });
    };
    tell("report", { texts: texts(state.report) }, host);
  });

  // The height is told once for all questions, and again for what is shown after the report is
  // drawn: a height for each question would tell which are put, and so what was answered.
  let least = 0;
  const stretch = () => {
    least = Math.max(least, main.offsetHeight);
    tell("height", { height: least + 48 }, host);
  };
  const began = (heights) => {
    least = Math.max(...heights);
    tell("height", { height: least + 48 }, host);
    new MutationObserver(() => {
      if (main.querySelector("dl, [role=status]")) stretch();
    }).observe(main, { childList: true });
  };

  // Under the respondent's name with the platform: several people can use one device. Without a name
  // nothing is kept; then the fields of the page around guard that one answer gives one report.
  const storageOf = (respondent, filled) => {
    const there = filled ? '{"sent":true}' : null;
    const named = (name) => `${name}:${respondent}`;
    const state = (name) => JSON.parse(localStorage.getItem(named(name)));
    return {
      getItem: (name) => {
        if (there !== null || !respondent) return there;
        // What the page around has lost is shown and handed over again.
        const { sent, ...rest } = state(name) ?? {};
        return rest.report ? JSON.stringify({ ...rest, sent: sent && handed }) : null;
      },
      setItem: (name, text) => {
        if (respondent) localStorage.setItem(named(name), text);
      },
    };
  };

  addEventListener("message", ({ source, origin, data }) => {
    if (source !== parent || !origins.includes(origin) || data?.survey !== survey.id) return;
    if (host === null && data.ppdm === "hello") {
      host = origin;
      const storage = storageOf(data.respondent, data.filled);
      page({ storage: () => storage, send, began });
    } else if (origin === host && ["kept", "lost"].includes(data.ppdm)) {
      handed = data.ppdm === "kept";
      answered?.(handed);
    }
  });
  // The browser gives this to a page of a named origin only; there is nothing in it of anybody.
  for (const origin of around.length ? [around[0]] : origins) tell("ready", { columns }, origin);
  setTimeout(() => { if (host === null) refuse(); }, 10_000);
})();
