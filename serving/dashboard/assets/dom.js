// Elements from data. Text only ever becomes a text node, so a name cannot become markup.

const SVG = "http://www.w3.org/2000/svg";

const fill = (node, props, kids) => {
  for (const [name, value] of Object.entries(props || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...kids.flat().filter((kid) => kid !== null && kid !== undefined));
  return node;
};

/** An HTML element: `h("p", { class: "note" }, "text", child)`. */
export const h = (tag, props, ...kids) => fill(document.createElement(tag), props, kids);

/** An SVG element. */
export const s = (tag, props, ...kids) => fill(document.createElementNS(SVG, tag), props, kids);

/** A name somebody else chose: what it does to the direction of text ends with it. */
export const given = (text) => h("bdi", { class: "given" }, visible(text));

/** Control characters and marks of direction as they are written, not as they act. */
export const visible = (text) =>
  String(text).replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
    (c) => "\\u" + c.codePointAt(0).toString(16).padStart(4, "0"));

/** Put `kids` in place of what `node` holds. */
export const put = (node, ...kids) => node.replaceChildren(...kids.flat().filter((k) => k !== null));

/** Change text only when it differs: a live region speaks at every change. */
export const say = (node, text) => { if (node.textContent !== text) node.textContent = text; };
