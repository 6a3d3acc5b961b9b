// Where a slide's content stands in the page, whatever the window: for the address, for links and for speaker notes.
(() => {
  const { parts } = window.bookSlides;

  // Every smallest part in reading order has a name: its section, and how many parts came before it there.
  function names(article) {
    const found = new Map();
    const walk = (node, section, count) => {
      for (const group of parts(node)) {
        const [first] = group, inside = first.tagName === "SECTION" && first.id;
        if (group.length === 1 && parts(first).length) walk(first, inside ? first : section, inside ? { n: 0 } : count);
        else {
          found.set(first, section.id + (count.n ? `.${count.n}` : ""));
          count.n += 1;
        }
      }
    };
    walk(article, article, { n: 0 });
    return found;
  }

  // Tells every slide the names of its parts.
  function nameParts(article, slides) {
    const home = new Map();
    for (const slide of slides) {
      slide.atoms = [];
      for (const node of slide.units.flatMap((unit) => unit.nodes)) home.set(node, slide);
    }
    for (const [node, name] of names(article)) {
      let at = node;
      while (at && at !== article && !home.has(at)) at = at.parentElement;
      const inside = home.has(at) ? [home.get(at)] : slides.filter((slide) => slide.units.some((unit) => node.contains(unit.nodes[0])));
      inside.forEach((slide) => slide.atoms.push(name));
    }
  }

  const after = (a, b) => Boolean(a.compareDocumentPosition(b) & Node.DOCUMENT_POSITION_FOLLOWING);
  const firstOf = (slide) => slide.units[0].nodes[0];

  // The slide on which an element of the page is, or the one before it.
  function slideOf(slides, node) {
    const held = slides.findIndex(({ units }) => units.some(({ nodes }) => nodes.some((own) => own.contains(node))));
    if (held >= 0) return held;
    const inside = slides.findIndex((slide) => node.contains(firstOf(slide)));
    return inside >= 0 ? inside : Math.max(0, slides.findLastIndex((slide) => after(firstOf(slide), node)));
  }

  // A note belongs to the slide it stands on; at the end of a section, to all slides of that section.
  function giveNotes(article, slides) {
    for (const note of article.querySelectorAll(".speaker-notes")) {
      const section = note.closest("section"), mine = slides.filter((slide) => slide.section === section);
      const goesOn = slides.some(({ units }) => units.some((unit) => unit.section === section && after(note, unit.nodes[0])));
      const here = slides[slideOf(slides, note)];
      (goesOn || !mine.length ? [here] : mine).forEach((slide) => slide.notes.push(note));
    }
  }

  Object.assign(window.bookSlides, { nameParts, giveNotes, slideOf });
})();
