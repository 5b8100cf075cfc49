// The page by itself: its collector takes the report, in the only request that the page makes.
page({
  storage: () => localStorage,
  send: async (survey, { id, report }) => {
    const body = { survey: survey.id, design: survey.design, id, report };
    const token = new URLSearchParams(location.hash.slice(1)).get("token");
    if (token) body.token = token;
    let answer;
    try {
      answer = await fetch(survey.collector, { method: "POST", body: JSON.stringify(body), mode: "cors",
        headers: { "content-type": "application/json" }, credentials: "omit", cache: "no-store",
        referrerPolicy: "no-referrer", redirect: "error" });
    } catch {
      return { failed: ["failed"] };
    }
    if (!answer.ok) return { failed: ["refused", { status: answer.status }] };
    return { after: { sent: true } }; // without the report's name nobody finds it by this device
  },
});
