// From values to places, and where the ticks go.

export const linear = ([low, high], [from, to]) => {
  const span = high - low || 1;
  return (value) => from + ((value - low) / span) * (to - from);
};

/** At most about `most` round numbers in [low, high]. */
export const ticks = (low, high, most = 5) => {
  const rough = (high - low) / most || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((v) => v >= rough * 0.999) || power;
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i += 1) found.push(i * step);
  return found;
};

/** Decimals that tell ticks apart. */
export const digits = (values) => {
  const step = values.length > 1 ? values[1] - values[0] : values[0] || 1;
  return Math.max(0, Math.min(4, -Math.floor(Math.log10(step) + 1e-9) + (/2\.?5$/.test(String(step)) ? 1 : 0)));
};

const STEPS = [1, 5, 15, 30, 60, 300, 900, 1800, 3600, 10800, 21600, 43200,
  86400, 172800, 604800, 2592000, 31536000];

/** Round local times in [low, high], at most `most`; `step` says how to write them. */
export const times = (low, high, most) => {
  const step = STEPS.find((v) => (high - low) / v <= most) || STEPS[STEPS.length - 1];
  const shift = -60 * new Date(1000 * low).getTimezoneOffset();
  const found = [];
  for (let at = Math.ceil((low + shift) / step) * step - shift; at <= high; at += step) found.push(at);
  return { step, values: found };
};

/** Index of the element of ascending `values` that is nearest to `value`. */
export const nearest = (values, value) => {
  let low = 0;
  let high = values.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (values[middle] < value) low = middle;
    else high = middle;
  }
  return high >= 0 && Math.abs(values[high] - value) < Math.abs(values[low] - value) ? high : low;
};
