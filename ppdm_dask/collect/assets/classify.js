// Whether a model predicts a respondent's class from the other answers, by the steps that the model
// states (Classifier.client_steps).  Sums are those of Python, addition by addition.
const classify = (() => {
  const steps = {
    tree: (step, codes) => {
      let node = step.root;
      while (typeof node !== "number") node = node.below[codes[node.place]];
      return node;
    },

    scores: (step, codes) => {
      const sums = [...step.prior];
      for (const { places, gains } of step.tables) {
        const own = places.reduce((table, place) => table[codes[place]], gains);
        own.forEach((gain, c) => { sums[c] += gain; });
      }
      const best = Math.max(...sums);
      return step.classes[sums.findIndex((sum) => sum >= best - step.tie)];
    },
  };

  const predict = (step, codes) => steps[step.op](step, codes);

  // The code of what was found: that the prediction is wrong, or that it is right.
  const outcome = ({ step, target, outcomes }, codes) =>
    outcomes[Number(predict(step, codes) === codes[target])];

  // Puts the outcome among the codes; answers that are never sent, past the first `n`, go no further.
  const settle = (test, codes, n) => {
    codes[test.place] = outcome(test, codes);
    codes.fill(0, n);
    codes.length = n;
  };

  return { outcome, predict, settle };
})();
