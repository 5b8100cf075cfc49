// The first language that the browser asks for: a German one asks for English too, further down its list.
const preferred = ({ languages }) =>
  navigator.languages.flatMap((own) => [own, own.split("-")[0]]).find((own) => languages.includes(own)) ?? languages[0];

// Puts the questions, makes the report by draw.js, forgets the answers, and shows the report.
// An outlet keeps the report and takes it from here: send.js of the page by itself, frame.js in a frame.
const page = (outlet) => {
  const survey = JSON.parse(document.getElementById("survey").textContent);
  const main = document.getElementById("main");
  // What is in a report: answers that are not private, and whether a model is right.
  const sent = [...survey.questions, survey.classifier].filter((each) => each && !each.private);
  const plain = { holds: () => false, refusal: () => "", report: (...given) => draw.report(survey.blocks, ...given) };
  const waves = survey.series ? series(survey) : plain;
  const name = `ppdm:${survey.id}`;
  let language = preferred(survey);
  let answers = new Map();
  let at = -1;
  let kept = null;
  let held = {};

  // What this device keeps is the report, never an answer. Where it may keep nothing, the page does.
  const read = () => {
    try {
      return JSON.parse(outlet.storage().getItem(name)) ?? kept;
    } catch {
      return kept;
    }
  };
  const keep = (value) => {
    kept = value;
    try {
      outlet.storage().setItem(name, JSON.stringify(value));
    } catch {
      // Private windows of some browsers keep nothing.
    }
  };

  const say = (key, values = {}) =>
    survey.words[language][key].replace(/\{(\w+)\}/g, (all, word) => Object.hasOwn(values, word) ? values[word] : all);
  const text = (texts) => texts[language];

  const make = (tag, attributes = {}, ...inner) => {
    const element = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) {
      if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
      else if (value !== false) element.setAttribute(key, value === true ? "" : value);
    }
    element.append(...inner.filter((each) => each !== null));
    return element;
  };
  const paragraphs = (words) => words.split(/\n\s*\n/).filter(Boolean).map((each) => make("p", {}, each));

  // One screen at a time; the focus goes to its heading, so that screen readers say it.
  const show = (heading, ...inner) => {
    document.documentElement.lang = language;
    document.title = text(survey.title);
    heading.tabIndex = -1;
    const choice = survey.languages.length < 2 ? null : make("label", {}, `${say("language")} `,
      make("select", { onchange: (event) => { language = event.target.value; screen(); } },
        ...survey.languages.map((each) =>
          make("option", { value: each, selected: each === language, lang: each }, tongue(each)))));
    const step = at < 0 || at >= survey.questions.length || kept ? "" :
      say("step", { i: path().indexOf(at) + 1, n: path().length });
    main.replaceChildren(make("div", { class: "top" }, make("p", { class: "soft" }, step), choice), ...inner);
    if (shown) heading.focus({ preventScroll: true });
    shown = true;
    scrollTo(0, 0);
  };
  let shown = false;
  const tongue = (code) => {
    try {
      return new Intl.DisplayNames([code], { type: "language" }).of(code);
    } catch {
      return code;
    }
  };

  // Questions that are put, as far as the answers tell. An answer to a question that is not put any
  // more, since an earlier one was changed, counts for none of those that follow.
  const put = (question) => !waves.holds(question.place) && question.only.every(([place, codes]) =>
    codes.includes(answers.get(place)) && put(survey.questions.find((each) => each.place === place)));
  const path = () => survey.questions.map((_, i) => i).filter((i) => put(survey.questions[i]));
  const move = (by) => {
    do at += by; while (at >= 0 && at < survey.questions.length && !put(survey.questions[at]));
    screen();
  };

  const welcome = () => {
    const heading = make("h1", {}, text(survey.title));
    const next = (event) => { event.preventDefault(); move(1); };
    show(heading, make("form", { onsubmit: next, autocomplete: "off" }, heading,
      ...paragraphs(text(survey.welcome)),
      survey.questions.some(({ place }) => waves.holds(place)) ? make("p", {}, say("held")) : null,
      make("div", { class: "buttons" }, make("button", {}, say("begin")))));
  };

  const ask = (question) => {
    const heading = make("h1", {}, text(question.text));
    const error = make("p", { class: "error", role: "alert", id: "error" });
    const inputs = text(question.labels).map((label, code) => {
      const input = make("input", { type: "radio", name: "answer", value: String(code),
        autocomplete: "off", onchange: () => { error.textContent = ""; } });
      input.checked = answers.get(question.place) === code;
      return make("label", { class: "answer" }, input, make("span", {}, label));
    }).filter((_, code) => question.hand || code !== question.unanswered);
    const next = (event) => {
      event.preventDefault();
      const chosen = main.querySelector("input:checked");
      if (!chosen) {
        error.textContent = say(question.hand ? "choose_report" : "choose");
        main.querySelector("input").focus();
        return;
      }
      answers.set(question.place, Number(chosen.value));
      move(1);
    };
    const skip = () => {
      answers.set(question.place, question.unanswered);
      move(1);
    };
    // Whether this is the last question can hang on its answer, so the button says only "next".
    show(heading, make("form", { onsubmit: next, autocomplete: "off", novalidate: true },
      make("fieldset", { "aria-describedby": "help error" }, make("legend", {}, heading),
        make("div", { id: "help" }, ...(question.instruction ? paragraphs(text(question.instruction)) : []),
          ...paragraphs(text(question.help)).map((each) => { each.className = "soft"; return each; }),
          question.note ? make("p", { class: "soft" }, say(question.note)) : null),
        ...inputs),
      error,
      make("div", { class: "buttons" },
        make("button", {}, say("next")),
        question.optional ? make("button", { type: "button", class: "plain", onclick: skip }, say("skip")) : null,
        at > path()[0] ? make("button", { type: "button", class: "plain", onclick: () => move(-1) }, say("back")) : null)));
  };

  // After the last question: nothing is drawn before the respondent says so, and once it is drawn
  // it stays, however often the page is opened.
  const ready = () => {
    const heading = make("h1", {}, text(survey.title));
    const go = (event) => { event.preventDefault(); disguise(); };
    show(heading, make("form", { onsubmit: go, autocomplete: "off" }, heading,
      make("div", { class: "buttons" },
        make("button", {}, say(survey.drawn ? "disguise" : "next")),
        make("button", { type: "button", class: "plain", onclick: () => move(-1) }, say("back")))));
  };
  const disguise = () => {
    if (read()) { // drawn in another window meanwhile; a second report would give more away
      answers = new Map();
      screen();
      return;
    }
    // What was kept from an earlier wave can be gone by now; then its question is put.
    const open = path().find((i) => !answers.has(survey.questions[i].place));
    if (open !== undefined) {
      at = open;
      screen();
      return;
    }
    const codes = survey.places.map(() => 0);
    for (const question of survey.questions) {
      codes[question.place] = put(question) ? answers.get(question.place) : question.unanswered;
    }
    if (survey.classifier) classify.settle(survey.classifier, codes, survey.places.length);
    const random = draw.secret();
    const report = waves.report(codes, () => random);
    codes.fill(0);
    answers = new Map();
    const id = [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, "0")).join("");
    keep({ id, report, sent: false });
    screen();
  };

  const word = (question, symbol) => {
    const labels = text(question.reports);
    if (!Array.isArray(symbol)) return labels[symbol];
    return symbol.map((each) => labels[each]).join(", ") || say("none");
  };
  const review = (state) => {
    const heading = make("h1", {}, say("review"));
    const error = make("p", { class: "error", role: "alert" }, held.error ?? "");
    const rows = sent.map((question) => make("div", {},
      make("dt", {}, text(question.text)),
      make("dd", {}, make("strong", {}, word(question, state.report[question.place])), make("br"),
        make("span", { class: "soft" }, say(question.made)))));
    const send = async (event) => {
      event.preventDefault();
      const button = main.querySelector("button");
      button.disabled = true;
      button.textContent = say("sending");
      const { after, failed } = await outlet.send(survey, state);
      if (after) keep(after);
      held = { error: failed ? say(...failed) : "" };
      screen();
    };
    show(heading, make("form", { onsubmit: send, autocomplete: "off" }, heading,
      make("dl", {}, ...rows),
      survey.erased ? make("p", {}, say(survey.erased)) : null,
      survey.drawn && !survey.certain ? make("p", {}, say("uncertain")) : null,
      make("section", { class: "panel" }, make("h2", {}, say("what")),
        ...text(survey.privacy).map((each) => make("p", {}, each)),
        make("p", { class: "soft" }, `${say("design")} `, make("code", {}, survey.design))),
      make("p", { class: "soft" }, say("kept")),
      error,
      make("div", { class: "buttons" }, make("button", {}, say(held.error ? "again" : "send")))));
  };

  const done = () => {
    const heading = make("h1", {}, text(survey.title));
    const said = held.error === "" ? [make("p", {}, say("thanks")), ...paragraphs(text(survey.thanks))]
      : [make("p", {}, say("done"))];
    show(heading, heading, make("div", { role: "status" }, ...said));
  };

  const stop = (why) => {
    const heading = make("h1", {}, text(survey.title));
    show(heading, heading, make("p", { role: "alert" }, say(why)));
  };

  const screen = () => {
    const state = read();
    if (state) {
      kept = state;
      if (state.sent) done();
      else review(state);
    } else if (waves.refusal()) stop(waves.refusal());
    else if (at < 0) welcome();
    else if (at < survey.questions.length) ask(survey.questions[at]);
    else ready();
  };
  // How high each screen before the report is, looked at before the first question is put.
  outlet.began?.([...survey.questions.keys(), -1].map((i) => {
    at = i;
    screen();
    return main.offsetHeight;
  }));
  at = -1;
  shown = false;
  screen();
};
