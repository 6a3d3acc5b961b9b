// The stage: every window shows a slide of the same logical size (1280 × 720 less the bar, higher on a squarer screen),
// zoomed. So a slide looks the same on every projector, figures included, and another window seldom moves a break.
window.bookSlides = (() => {
  const WIDTH = 1280, HEIGHT = 720, BAR = 44, SMALLEST = 0.75;   // a phone gets fewer words a slide, not smaller ones
  const MARGIN = { top: 40, bottom: 16 };
  const page = document.documentElement;

  // Size of the stage and of its content in logical pixels, and the zoom that brings it on the window.
  function stage() {
    const zoom = Math.max(SMALLEST, Math.min(innerWidth / WIDTH, innerHeight / HEIGHT));
    const width = innerWidth / zoom, height = innerHeight / zoom - BAR;
    const side = width < 800 ? 22 : Math.max(56, (width - 1080) / 2);
    return { zoom, width, height, side, content: { width: width - 2 * side, height: height - MARGIN.top - MARGIN.bottom } };
  }

  // `room` is the share of the window the slides keep beside the notes: the slide only gets smaller, no break moves.
  function set({ zoom, width, height, side }, room = 1) {
    const values = { zoom: zoom * room, bar: zoom, width: `${width}px`, height: `${height}px`, side: `${side}px`, room,
      top: `${MARGIN.top}px`, bottom: `${MARGIN.bottom}px`, lift: `${room < 1 ? (height / room - height) / 2 : 0}px` };
    for (const [name, value] of Object.entries(values)) page.style.setProperty(`--slide-${name}`, value);
  }

  // Figures compare the pointer with their own boxes and draw in their own pixels. A zoomed figure therefore sees both
  // in the pixels it draws in, so that a click hits what is under it at any zoom.
  const measured = Element.prototype.getBoundingClientRect;
  const zoomOf = (node) => {
    const { host } = node.getRootNode();
    return host && host.offsetWidth ? measured.call(host).width / host.offsetWidth : 1;
  };
  Element.prototype.getBoundingClientRect = function () {
    const box = measured.call(this), zoom = zoomOf(this);
    return Math.abs(zoom - 1) < 0.002 ? box : new DOMRect(box.x / zoom, box.y / zoom, box.width / zoom, box.height / zoom);
  };
  for (const type of ["pointerdown", "pointermove", "pointerup", "pointerover", "mousedown", "mousemove", "mouseup", "click"]) {
    addEventListener(type, (event) => {
      const node = event.composedPath()[0], zoom = node instanceof Element ? zoomOf(node) : 1;
      if (Math.abs(zoom - 1) < 0.002) return;
      for (const axis of ["clientX", "clientY"]) Object.defineProperty(event, axis, { value: event[axis] / zoom });
    }, true);
  }

  const korean = page.lang.startsWith("ko");
  const say = (english, other) => (korean ? other : english);

  // make("button", { className: "x", textContent: "label" }, child, …), in another document if one is given.
  function make(tag, properties = {}, ...children) {
    const node = (properties.of ?? document).createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
      if (name.includes("-") || name === "role") node.setAttribute(name, value);
      else if (name !== "of") node[name] = value;
    }
    node.append(...children);
    return node;
  }

  return { stage, set, measured, say, make };
})();
