// Cuts the article into slides. Nothing is moved or copied: a slide is a list of the article's own blocks, which are
// shown or hidden. All blocks are measured in one flow; a slide holds what lies between two of its edges.
(() => {
  const { make, say, measured, HEADING, layDown, squeezes, parts, rows, away, boxed, shrink } = window.bookSlides;
  const SPARE = 5;   // pixels left free on every slide, for rounding

  const frames = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  const headingOf = (section) => section.querySelector(`:scope > :is(${HEADING})`);

  const bold = (node) => Number(getComputedStyle(node).fontWeight) >= 600 || (node.children.length === 1 && node.firstChild.nodeName === "STRONG" && node.textContent.trim() === node.firstChild.textContent.trim());

  function unit(nodes, section, limit, around) {
    const [node] = nodes;
    return { nodes, section, limit, around, box: boxed(nodes), heading: node.matches(HEADING), starts: node.matches(".newslide, .tag_newslide, .exercise, .claims .group"),
      ends: node.matches(".predict"), line: node.matches("details.above-input"), title: node.matches(".claims .group") || (node.matches("p") && bold(node)), leads: node.matches("p") && /[:：]$/.test(node.textContent.trim()), input: node.matches(".cell_input") };
  }

  // A block is one unit; if it alone is higher than a slide, each of its parts is one. `around`: what stands over such a
  // part on any slide (the head of its table, a label).
  function cut(nodes, section, limit, units, around = 0) {
    const box = boxed(nodes);
    if (!box) return;
    const [node] = nodes, tall = (box.bottom - box.top) / limit, kept = nodes.length > 1 || tall <= 1 || squeezes(node, tall);
    const inner = kept ? [] : parts(node).length ? parts(node) : rows(node, limit);
    const within = inner.length && boxed(inner.flat());
    if (!within) return void units.push(unit(nodes, section, limit, around));
    const frame = box.bottom - box.top - (within.bottom - within.top);   // paddings, or the head of a table
    const line = inner[0][0].matches("details.above-input") && inner[1] ? boxed(inner[1]).top - within.top : 0;   // of hidden code: stays with its output
    inner.forEach((part, i) => cut(part, section, limit - frame - (i === 1 ? line : 0), units, around + within.top - box.top));
  }

  function unitsOf(article, room, running) {
    const units = [];
    let headings = [];
    const walk = (section) => {
      for (const block of section.children) {
        if (block.tagName === "SECTION") walk(block);
        else if (!away(block)) {
          const from = headings[0]?.box.top, top = boxed([block])?.top;
          cut([block], section, room - (headings.length && top > from ? top - from : running(section)), units);
          headings = units.at(-1)?.heading ? [...headings, units.at(-1)] : [];
        }
      }
    };
    walk(article);
    return units;
  }

  // A run starts at a section (if there was more than a heading before it), at `newslide`, at an exercise, and after a question.
  function runsOf(units) {
    const runs = [];
    units.forEach((unit, i) => {
      const before = units[i - 1];
      if (!before || before.ends || (unit.starts && !before.heading) || (unit.heading && !before.heading)) runs.push([]);
      runs.at(-1).push(unit);
    });
    return runs;
  }

  // Cuts a run into as few slides as can hold it, evenly filled, never behind a heading, seldom behind "as follows:".
  function pack(run, room, running) {
    const best = [{ cost: 0 }];
    for (let end = 1; end <= run.length; end++) {
      best[end] = { cost: Infinity };
      for (let from = end - 1; from >= 0; from--) {
        const used = run[end - 1].box.bottom - run[from].box.top + run[from].around + (run[from].heading ? 0 : running);
        const alone = run.slice(from, end - 1).every((unit) => unit.heading);
        if (used > room && !alone) break;
        const { heading, line, title, leads, input } = run[end - 1];
        const tear = end === run.length ? 0 : heading ? 1e6 : line ? 1e3 : title ? 150 : leads ? 12 : input ? 6 : 0;
        const cost = best[from].cost + 100 + 40 * Math.max(0, 1 - used / room) ** 2 + tear;
        if (cost < best[end].cost) best[end] = { cost, from };
      }
    }
    const slides = [];
    for (let end = run.length; end > 0; end = best[end].from) slides.unshift(run.slice(best[end].from, end));
    return slides;
  }

  // A smaller copy of every section's heading, for the slides that continue it: [section, line].
  function runningHeads(article, head) {
    head.replaceChildren();
    return new Map([...article.querySelectorAll("section")].filter(headingOf).map((section) => {
      const heading = headingOf(section), copy = heading.cloneNode(true);
      heading.tabIndex = -1;
      copy.querySelectorAll(".headerlink").forEach((node) => node.remove());
      copy.querySelectorAll("[id]").forEach((node) => node.removeAttribute("id"));
      const line = head.appendChild(make("p", { className: "present-running", tabIndex: -1 }, ...copy.childNodes));
      const words = line.cloneNode(true);
      words.querySelectorAll("mjx-container").forEach((formula) => formula.replaceWith(formula.querySelector("mjx-assistive-mml")?.textContent ?? ""));
      line.append(make("span", { className: "sr-only", textContent: say(" (continued)", " (계속)") }));
      return [section, Object.assign(line, { words: words.textContent.trim() })];
    }));
  }

  // The article as on the first day: nothing hidden, nothing scaled; answers are closed while it is measured.
  function reset(article) {
    article.style.zoom = "";
    for (const name of ["off-slide", "slide-first", "slide-last", "wraps", "scaled"]) {
      article.querySelectorAll(`.${name}`).forEach((node) => { node.classList.remove(name); if (name === "scaled") node.style.zoom = ""; });
    }
    article.querySelectorAll("figure img").forEach((image) => { image.style.maxHeight = image.style.width = ""; });
    article.querySelectorAll("ol").forEach((list) => [...list.children].forEach((item, i) => { item.value = list.start + i; }));
  }

  // Pictures wait for the reader too, and one that has not come has no height; a picture that is late is not waited for.
  function pictures(article, patience = 5000) {
    const images = [...article.querySelectorAll("img")];
    images.forEach((image) => { image.loading = "eager"; });
    const late = new Promise((done) => setTimeout(done, patience));
    return Promise.race([late, Promise.all(images.map((image) => image.decode().catch(() => {})))]);
  }

  // → slides in order: { units, section, running, title, notes, atoms }. `room`: the height of a slide's content.
  async function paginate(article, head, room) {
    const opened = [...article.querySelectorAll("details[open]")];
    opened.forEach((details) => { details.open = false; });
    article.querySelectorAll(":defined").forEach((node) => node.localName.includes("-") && node.start?.());   // else they wait for the reader
    await pictures(article);
    document.body.classList.add("measuring");
    reset(article);
    layDown(article);
    const lines = runningHeads(article, head);
    await frames();
    const highest = new Map([...lines].map(([section, line]) => [section, measured.call(line).height + 14]));
    const running = (section) => highest.get(section) ?? 0;

    const units = unitsOf(article, room - SPARE, running);
    for (let step = 0; step < 4; step++) {
      if (!units.filter(({ nodes, limit }) => shrink(nodes, limit)).length) break;
      await frames();
    }
    units.forEach((unit) => { unit.box = boxed(unit.nodes); });

    const slides = runsOf(units).flatMap((run) => pack(run, room - SPARE, running(run.at(-1).section))).map((units) => {
      const section = units.filter(({ heading }, i) => heading && units.slice(0, i).every((u) => u.heading)).at(-1)?.section ?? units[0].section;
      return { units, section, running: units[0].heading ? null : lines.get(section), title: lines.get(section)?.words ?? document.title, notes: [] };
    });
    document.body.classList.remove("measuring");
    opened.forEach((details) => { details.open = true; });
    return slides;
  }

  Object.assign(window.bookSlides, { paginate, frames });
})();
