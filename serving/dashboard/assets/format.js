// Numbers and times for people. `null` is not known, and shown as a dash.

export const DASH = "–";
const known = (value) => value !== null && value !== undefined;

export const fixed = (value, digits = 2) =>
  known(value) ? value.toFixed(digits).replace("-", "−") : DASH;

export const percent = (value, digits = 0) => (known(value) ? fixed(100 * value, digits) + " %" : DASH);

export const count = (value) => (known(value) ? value.toLocaleString("en-GB") : DASH);

/** `0.38 to 0.46`, or nothing */
export const limits = (i, write = fixed) =>
  i && known(i.value) && known(i.low) && known(i.high) ? `${write(i.low)} to ${write(i.high)}` : "";

/** `0.42 (0.38 to 0.46)` */
export const interval = (i, write = fixed) => {
  if (!i || !known(i.value)) return DASH;
  const both = limits(i, write);
  return write(i.value) + (both ? ` (${both})` : "");
};

export const seconds = (value) => {
  if (!known(value)) return DASH;
  const size = Math.abs(value);
  const text = size >= 100 ? value.toFixed(0) + " s"
    : size >= 1 ? value.toFixed(1) + " s"
    : (1000 * value).toFixed(0) + " ms";
  return text.replace("-", "−");
};

export const tokens = (value) =>
  value >= 10240 ? Math.round(value / 1024) + "k" : String(Math.round(value));

const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

/** `3 min ago`, by the clock of the server. */
export const ago = (at, now) => {
  if (!known(at)) return DASH;
  const passed = Math.max(0, now - at);
  for (const [size, unit] of UNITS) {
    if (passed >= size) return `${Math.floor(passed / size)} ${unit} ago`;
  }
  return "now";
};

const part = (options) => {
  const format = new Intl.DateTimeFormat("en-GB", options);
  return (at) => format.format(new Date(1000 * at));
};
export const clock = part({ hour: "2-digit", minute: "2-digit" });
export const clockSeconds = part({ hour: "2-digit", minute: "2-digit", second: "2-digit" });
export const day = part({ day: "numeric", month: "short" });
export const when = (at) => (known(at) ? `${day(at)} ${clockSeconds(at)}` : DASH);
