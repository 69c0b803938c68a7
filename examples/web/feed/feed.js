// SPDX-License-Identifier: MIT
// The feed's client. A card is seen when half of it was on the screen for a second (30% of a card that is larger than
// the screen); seen cards are buffered and sent every few seconds, and when the page is left.

const VISIBLE_MS = 1000;
const FLUSH_MS = 3000;
const PAGE = 20;

const byId = (id) => document.getElementById(id);
const cards = byId('cards');
const note = byId('note');
let more = true;
let loading = false;
let feed = 0;  // which feed the page shows: another after each login and logout
let buffer = [];

async function call(path, body) {
  const response = await fetch(path, body === undefined ? {} : {
    method: 'POST',
    headers: {'Content-Type': 'application/json'},
    body: JSON.stringify(body),
  });
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(answer.error || `${path} answered ${response.status}`);
  return answer;
}

const tell = (text) => {
  note.textContent = text;
};

function rows(list, entries) {
  list.replaceChildren(...Object.entries(entries).flatMap(([name, value]) => {
    const term = document.createElement('dt');
    const detail = document.createElement('dd');
    term.textContent = name;
    detail.textContent = value;
    return [term, detail];
  }));
}

// Impressions

const needed = (entry) =>
    entry.boundingClientRect.height > innerHeight ? 0.3 * innerHeight / entry.boundingClientRect.height : 0.5;
const timers = new Map();

function stopTimer(card) {
  clearTimeout(timers.get(card));
  timers.delete(card);
}

const observer = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    const card = entry.target;
    if (!entry.isIntersecting || entry.intersectionRatio < needed(entry) || document.hidden) {
      stopTimer(card);
    } else if (!timers.has(card)) {
      const since = performance.now();
      const ratio = entry.intersectionRatio;
      timers.set(card, setTimeout(() => seen(card, performance.now() - since, ratio), VISIBLE_MS));
    }
  }
}, {threshold: [0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6]});

function seen(card, milliseconds, ratio) {
  stopTimer(card);
  observer.unobserve(card);
  card.dataset.seen = 'true';
  buffer.push({
    id: crypto.randomUUID ? crypto.randomUUID() : `${Date.now()}-${Math.random()}`,
    item: card.dataset.item,
    at: Math.floor(Date.now() / 1000),
    surface: 'web',
    visible_ms: Math.round(milliseconds),
    visible_percent: Math.round(ratio * 100),
  });
}

async function flush() {
  if (buffer.length === 0) return;
  const events = buffer;
  buffer = [];
  try {
    const answer = await call('/api/impressions', {version: 1, events});
    behind(answer);
    for (const {item} of events) {
      const card = cards.querySelector(`[data-item="${CSS.escape(item)}"]`);
      if (card) card.dataset.flushed = 'true';
    }
  } catch (error) {
    buffer = events.concat(buffer);  // the ids make sending twice harmless
    tell(`Not saved yet: ${error.message}`);
  }
}

// The page may be gone before an answer comes: the browser delivers a beacon all the same.
function leave() {
  for (const card of [...timers.keys()]) stopTimer(card);
  if (buffer.length === 0) return;
  const body = new Blob([JSON.stringify({version: 1, events: buffer})], {type: 'application/json'});
  if (navigator.sendBeacon('/api/impressions', body)) buffer = [];
}
addEventListener('pagehide', leave);
document.addEventListener('visibilitychange', () => {
  if (document.hidden) return leave();
  for (const card of cards.children)
    if (!card.dataset.seen) {
      observer.unobserve(card);
      observer.observe(card);
    }
});
setInterval(flush, FLUSH_MS);

// The page

const hue = (text) => [...text].reduce((sum, letter) => (sum * 31 + letter.codePointAt(0)) % 360, 7);

function cardOf(item) {
  const card = document.createElement('li');
  card.className = item.tall ? 'card tall' : 'card';
  card.dataset.item = item.id;
  const title = `post-${item.id}`;
  card.innerHTML = `
    <article aria-labelledby="${title}">
      <div class="picture" aria-hidden="true"></div>
      <div class="words">
        <h2 id="${title}"></h2>
        <p></p>
        <div class="row"><span class="badge"></span><button type="button" class="hide">Hide</button></div>
      </div>
    </article>`;
  const picture = card.querySelector('.picture');
  picture.style.background =
      `linear-gradient(135deg, hsl(${hue(item.creator)} 60% 70%), hsl(${hue(item.topic)} 60% 55%))`;
  picture.textContent = item.picture;
  card.querySelector('h2').textContent = item.title;
  card.querySelector('p').textContent = `by ${item.creator}, ${item.topic}`;
  card.querySelector('.badge').textContent = `${item.pool}: ${item.reason}`;
  const hide = card.querySelector('.hide');
  hide.setAttribute('aria-label', `Hide ${item.title}`);
  hide.addEventListener('click', () => hideCard(card, item));
  return card;
}

async function loadMore() {
  if (loading || !more) return;
  loading = true;
  const asked = feed;
  cards.setAttribute('aria-busy', 'true');
  try {
    await flush();
    const have = [...cards.children].map((card) => card.dataset.item);
    const answer = await call('/api/page', {limit: PAGE, have});
    if (asked !== feed) return;
    for (const item of answer.items) {
      const card = cardOf(item);
      cards.append(card);
      observer.observe(card);
    }
    more = answer.items.length > 0;
    tell(more ? '' : 'You have seen everything there is. Come back later.');
    behind(answer);
  } catch (error) {
    if (asked === feed) tell(`Could not load more: ${error.message}`);
  } finally {
    if (asked === feed) {
      loading = false;
      cards.setAttribute('aria-busy', 'false');
    }
  }
}

function behind(answer) {
  if (answer.page) rows(byId('page'), answer.page);
  if (answer.filter) rows(byId('filter'), answer.filter);
  if (answer.ingest) rows(byId('ingest'), answer.ingest);
  if (answer.hidden) showHidden(answer.hidden);
  if (answer.user !== undefined) showUser(answer.user);
}

async function hideCard(card, item) {
  try {
    const next = card.nextElementSibling || card.previousElementSibling;
    behind(await call('/api/hide', {item: item.id}));
    stopTimer(card);
    observer.unobserve(card);
    card.remove();
    tell(`${item.title} is hidden.`);
    next?.querySelector('button')?.focus();
  } catch (error) { tell(`Could not hide it: ${error.message}`); }
}

let hiddenShown = '[]';
function showHidden(items) {
  // A button that is replaced loses its click and the focus.
  if (JSON.stringify(items) === hiddenShown) return;
  hiddenShown = JSON.stringify(items);
  byId('hidden').replaceChildren(...items.map((item) => {
    const row = document.createElement('li');
    const name = document.createElement('span');
    const undo = document.createElement('button');
    name.textContent = item.title;
    undo.type = 'button';
    undo.textContent = 'Show again';
    undo.setAttribute('aria-label', `Show ${item.title} again`);
    undo.addEventListener('click', async () => {
      try {
        behind(await call('/api/unhide', {item: item.id}));
      } catch (error) { tell(`Could not undo it: ${error.message}`); }
    });
    row.append(name, undo);
    return row;
  }));
}

function showUser(user) {
  byId('who').textContent = user ? `logged in as ${user}` : 'anonymous';
  byId('logout').hidden = !user;
  byId('login').querySelector('[type=submit]').hidden = Boolean(user);
  byId('name').hidden = Boolean(user);
  byId('name').required = !user;
}

function startAgain() {
  observer.disconnect();
  cards.replaceChildren();
  more = true;
  loading = false;
  ++feed;
  return loadMore();
}

byId('login').addEventListener('submit', async (event) => {
  event.preventDefault();
  try {
    await flush();
    behind(await call('/api/login', {name: byId('name').value.trim()}));
    await startAgain();
  } catch (error) { tell(`Could not log in: ${error.message}`); }
});
byId('logout').addEventListener('click', async () => {
  await flush();
  behind(await call('/api/logout', {}));
  await startAgain();
});

new IntersectionObserver((entries) => {
  if (entries.some((entry) => entry.isIntersecting)) loadMore();
}, {rootMargin: '600px'}).observe(byId('end'));
setInterval(async () => {
  if (!document.hidden) behind(await call('/api/status').catch(() => ({})));
}, 2000);
loadMore();
