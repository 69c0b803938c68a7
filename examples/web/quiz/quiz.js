// SPDX-License-Identifier: MIT
// One learner's window of a match of two. Both get the same questions; the server says why each was chosen.

const byId = (id) => document.getElementById(id);
let player = null;
let shown = null; // the question on the screen
let timer = null;
let answers = 0; // sent and come back: what was asked for before either is old

async function call(path, body) {
  const response = await fetch(path, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
  });
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(answer.error || `${path} answered ${response.status}`);
  return answer;
}

function rows(list, entries) {
  list.replaceChildren(...Object.entries(entries || {}).flatMap(([name, value]) => {
    const term = document.createElement("dt");
    const detail = document.createElement("dd");
    term.textContent = name;
    detail.textContent = value;
    return [term, detail];
  }));
}

const tell = (text) => { byId("note").textContent = text; };

function show(state) {
  rows(byId("score"), state.score);
  rows(byId("match"), state.match);
  if (state.waiting) {
    byId("question").textContent = "Waiting for an opponent…";
    byId("answers").replaceChildren();
  } else if (state.finished) {
    byId("question").textContent = state.finished;
    byId("reason").hidden = true;
    byId("answers").replaceChildren();
    shown = null;
    clearInterval(timer);
    byId("join").hidden = false;
  } else if (state.question && state.question.id !== shown) {
    shown = state.question.id;
    byId("question").textContent = state.question.text;
    byId("reason").textContent = state.question.reason;
    byId("reason").hidden = false;
    byId("answers").replaceChildren(...state.question.answers.map((text, index) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = text;
      button.addEventListener("click", () => answer(index));
      return button;
    }));
    byId("question").focus();
    tell("");
  }
}

async function answer(index) {
  ++answers;
  for (const button of byId("answers").children) button.disabled = true;
  try {
    const state = await call("/api/answer", { player, question: shown, answer: index });
    ++answers;
    tell(state.right ? "Right." : `Wrong: it is ${state.solution}.`);
    show(state);
  } catch (error) {
    tell(`Could not send the answer: ${error.message}`);
    for (const button of byId("answers").children) button.disabled = false;
  }
}

byId("join").addEventListener("submit", async (event) => {
  event.preventDefault();
  player = byId("name").value.trim();
  try {
    show(await call("/api/join", { player }));
    byId("who").textContent = `playing as ${player}`;
    byId("join").hidden = true;
    clearInterval(timer);
    timer = setInterval(async () => {
      try {
        const before = answers;
        const state = await call("/api/state", { player });
        if (before === answers) show(state);
      } catch (error) {
        tell(`The server does not answer: ${error.message}`);
      }
    }, 700);
  } catch (error) {
    tell(`Could not join: ${error.message}`);
  }
});
