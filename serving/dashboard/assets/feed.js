// The board, live: events say that there is a new one, which is then fetched. Comes back by itself.

const FIRST = 1000;
const LONGEST = 30000;

/**
 * Calls `onBoard(board)` at each new board and `onStatus(status)` at each change:
 * `{ kind: "loading" | "live" | "lost" | "trouble", retryAt }`.
 * A hidden page lets go of its connection and takes it up again when it is seen.
 */
export class Feed {
  constructor(onBoard, onStatus) {
    this.onBoard = onBoard;
    this.onStatus = onStatus;
    this.etag = null;
    this.wait = FIRST;
    document.addEventListener("visibilitychange", () => (document.hidden ? this.close() : this.open()));
    window.addEventListener("online", () => this.open());
  }

  open() {
    this.close();
    this.source = new EventSource("events");
    this.source.addEventListener("board", (event) => this.told(JSON.parse(event.data)));
    this.source.addEventListener("trouble", () => {
      this.expect(15);
      this.status({ kind: "trouble" });
    });
    this.source.addEventListener("error", () => this.again());
    this.expect(15);
  }

  close() {
    clearTimeout(this.retry);
    clearTimeout(this.silence);
    if (this.source) this.source.close();
    this.source = null;
  }

  /** Nothing for that long means that the connection is gone, whatever the browser thinks. */
  expect(seconds) {
    clearTimeout(this.silence);
    this.silence = setTimeout(() => this.again(), 1000 * seconds);
  }

  again() {
    this.close();
    this.status({ kind: "lost", retryAt: Date.now() + this.wait });
    this.retry = setTimeout(() => this.open(), this.wait);
    this.wait = Math.min(LONGEST, 2 * this.wait);
  }

  async told({ etag, every, at }) {
    this.expect(3 * every + 5);
    this.wait = FIRST;
    if (etag !== this.etag) {
      const source = this.source;
      try {
        const answer = await fetch("board.json", { cache: "no-cache" });
        if (!answer.ok) throw new Error(String(answer.status));
        const board = await answer.json();
        if (source !== this.source) return; // closed meanwhile
        this.etag = etag;
        this.onBoard(board);
      } catch {
        if (source === this.source) this.again();
        return;
      }
    }
    this.status({ kind: "live", at });
  }

  status(status) {
    this.onStatus(status);
  }
}
