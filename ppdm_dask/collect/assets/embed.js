// For a page of another platform: puts the respondent's page into a frame and what it hands over,
// the disguised report, into fields of a form. It needs nothing but this file.
(() => {
  "use strict";
  const own = document.currentScript && document.currentScript.src;

  const write = (field, text) => {
    if (typeof field === "function") {
      field(text);
      return true;
    }
    // The setter of the browser, past those of libraries that watch fields.
    const kind = field instanceof HTMLTextAreaElement ? HTMLTextAreaElement : HTMLInputElement;
    Object.getOwnPropertyDescriptor(kind.prototype, "value").set.call(field, text);
    for (const event of ["input", "keyup", "change"]) field.dispatchEvent(new Event(event, { bubbles: true }));
    return field.value === text;
  };

  // into: where the frame goes; fields: by column the field, its selector, or a function that takes
  // the text; next: a button that waits for the report; page: address of the page, where it does not
  // lie beside this file; respondent: tells those apart who use one device; filled: the report is
  // there already; title: of the frame, for screen readers; done: is called once it is there.
  const embed = (given) => {
    if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", () => start(given));
    else start(given);
  };

  const start = ({ into, fields, next, page, respondent, filled, title, done }) => {
    const place = typeof into === "string" ? document.querySelector(into) : into;
    const fail = (why) => {
      if (place) place.textContent = `ppdm: ${why}`;
      throw new Error(`ppdm: ${why}`);
    };
    if (!place) fail(`there is no element ${into} for the page`);
    if (!page && !own) fail("page: the address of embed.html is needed");
    const address = new URL(page || "embed.html", own || location.href);
    if (address.origin === location.origin) {
      fail("the page needs an origin other than this one, whose scripts could read the answers");
    }
    const found = new Map(Object.entries(fields).map(([column, each]) => {
      const field = typeof each === "string" ? document.querySelector(each) : each;
      if (!field) fail(`there is no element ${each} for ${column}`);
      return [column, field];
    }));
    const buttons = next ? [...document.querySelectorAll(next)] : [];
    if (next && !buttons.length) fail(`there is no element ${next} to wait`);
    const wait = (waits) => buttons.forEach((button) => { button.disabled = waits; });
    const elements = [...found.values()].filter((each) => typeof each !== "function");
    // What a field has stays: one answer gives one report.
    let there = Boolean(filled) || (elements.length > 0 && elements.every((each) => each.value !== ""));
    let columns = null;

    const frame = document.createElement("iframe");
    frame.title = title || "Questions; your answers are disguised before they leave this frame";
    frame.setAttribute("sandbox", "allow-scripts allow-same-origin allow-forms");
    frame.setAttribute("allow", "");
    frame.referrerPolicy = "no-referrer";
    frame.style.cssText = "display: block; width: 100%; height: 640px; border: 0";
    const tell = (what, survey, more) =>
      frame.contentWindow.postMessage({ ppdm: what, survey, ...more }, address.origin);

    const take = (texts) => {
      const given = Object.entries(texts);
      if (given.length !== columns.length || !given.every(([column, text]) => columns.includes(column) && typeof text === "string")) {
        return false;
      }
      if (there) return true;
      there = given.map(([column, text]) => write(found.get(column), text)).every(Boolean);
      return there;
    };
    addEventListener("message", ({ source, origin, data }) => {
      if (source !== frame.contentWindow || origin !== address.origin || !data || typeof data !== "object") return;
      const { ppdm, survey } = data;
      if (ppdm === "ready" && Array.isArray(data.columns)) {
        const lacking = data.columns.filter((column) => !found.has(column));
        if (lacking.length) fail(`there is no field for ${lacking.join(", ")}`);
        columns = data.columns;
        tell("hello", survey, { respondent: respondent || "", filled: there });
      } else if (ppdm === "height" && data.height > 0) {
        frame.style.height = `${Math.min(Math.max(data.height, 200), 4000)}px`;
      } else if (ppdm === "report" && columns && data.texts && typeof data.texts === "object") {
        const kept = take(data.texts);
        tell(kept ? "kept" : "lost", survey, {});
        if (kept) {
          wait(false);
          if (done) done(data.texts);
        }
      }
    });
    wait(!there);
    frame.src = address.href;
    place.replaceChildren(frame);
    if (there && done) done();
  };

  window.ppdm = { ...window.ppdm, embed };
})();
