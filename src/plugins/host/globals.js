// What code finds beside the language. Run once in a new engine, before any code of others; `native` is the only way
// out, and stays in here.
let isMade = false;

export default (native) => {
  // Others may import this by its name.
  if (isMade) throw new TypeError("there are globals already");
  isMade = true;

  // No code is made from text.
  const refuse = function Function() {
    throw new TypeError("code cannot be made from text here");
  };
  refuse.prototype = Function.prototype;
  for (const made of [function () {}, async function () {}, function* () {}, async function* () {}]) {
    const fixed = { value: refuse, writable: false, configurable: false };
    Object.defineProperty(Object.getPrototypeOf(made), "constructor", fixed);
  }
  delete globalThis.eval;

  const { parse, stringify } = JSON;
  const text = (value) => String(value).toWellFormed();
  const define = (values) => {
    for (const [name, value] of Object.entries(values)) {
      Object.defineProperty(globalThis, name, { value, writable: true, configurable: true });
    }
  };

  // Bytes cross the border as text: one character for each.
  const toBinary = (bytes) => {
    let binary = "";
    for (let at = 0; at < bytes.length; at += 8192) {
      binary += String.fromCharCode.apply(null, bytes.subarray(at, at + 8192));
    }
    return binary;
  };
  const bytesOf = (data) => {
    if (data instanceof ArrayBuffer) return new Uint8Array(data);
    if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    throw new TypeError("expected bytes: an ArrayBuffer or a view of one");
  };

  class TextEncoder {
    get encoding() {
      return "utf-8";
    }
    encode(input = "") {
      return native.encode(text(input));
    }
  }

  class TextDecoder {
    #fatal;
    constructor(label = "utf-8", { fatal = false } = {}) {
      if (!/^\s*(utf-?8|unicode-1-1-utf-8)\s*$/i.test(label)) {
        throw new RangeError(`only utf-8 can be decoded, not ${text(label)}`);
      }
      this.#fatal = Boolean(fatal);
    }
    get encoding() {
      return "utf-8";
    }
    decode(data) {
      return data === undefined ? "" : native.decode(toBinary(bytesOf(data)), this.#fatal);
    }
  }

  class URLSearchParams {
    #pairs = [];
    #changed = () => {};
    constructor(init = "") {
      if (typeof init === "object" && init !== null && typeof init[Symbol.iterator] === "function") {
        for (const [name, value] of init) this.#pairs.push([text(name), text(value)]);
      } else if (typeof init === "object" && init !== null) {
        for (const name of Object.keys(init)) this.#pairs.push([text(name), text(init[name])]);
      } else {
        this.#pairs = parse(native.readQuery(text(init).replace(/^\?/, "")));
      }
    }
    // The one of a URL tells it of changes.
    static of(query, changed) {
      const params = new URLSearchParams(query);
      params.#changed = changed;
      return params;
    }
    get size() {
      return this.#pairs.length;
    }
    append(name, value) {
      this.#pairs.push([text(name), text(value)]);
      this.#changed(this);
    }
    delete(name) {
      this.#pairs = this.#pairs.filter(([known]) => known !== text(name));
      this.#changed(this);
    }
    get(name) {
      return this.#pairs.find(([known]) => known === text(name))?.[1] ?? null;
    }
    getAll(name) {
      return this.#pairs.filter(([known]) => known === text(name)).map(([, value]) => value);
    }
    has(name) {
      return this.#pairs.some(([known]) => known === text(name));
    }
    set(name, value) {
      const first = this.#pairs.find(([known]) => known === text(name));
      if (first === undefined) {
        this.#pairs.push([text(name), text(value)]);
      } else {
        first[1] = text(value);
        this.#pairs = this.#pairs.filter((pair) => pair === first || pair[0] !== first[0]);
      }
      this.#changed(this);
    }
    sort() {
      this.#pairs.sort(([one], [other]) => (one < other ? -1 : one > other ? 1 : 0));
      this.#changed(this);
    }
    forEach(callback) {
      for (const [name, value] of this.#pairs) callback(value, name, this);
    }
    *entries() {
      yield* this.#pairs.map(([name, value]) => [name, value]);
    }
    *keys() {
      yield* this.#pairs.map(([name]) => name);
    }
    *values() {
      yield* this.#pairs.map(([, value]) => value);
    }
    [Symbol.iterator]() {
      return this.entries();
    }
    toString() {
      return native.writeQuery(stringify(this.#pairs));
    }
  }
  const paramsOf = URLSearchParams.of;
  delete URLSearchParams.of;

  class URL {
    #parts;
    #params;
    constructor(url, base) {
      const read = native.readUrl(text(url), base === undefined ? "" : text(base));
      if (read === "") throw new TypeError(`invalid URL: ${text(url)}`);
      this.#parts = parse(read);
    }
    static canParse(url, base) {
      return native.readUrl(text(url), base === undefined ? "" : text(base)) !== "";
    }
    get origin() {
      return this.#parts.origin;
    }
    get searchParams() {
      this.#params ??= paramsOf(this.#parts.search, (params) => this.#set("search", params.toString()));
      return this.#params;
    }
    #set(part, value) {
      const changed = native.changeUrl(this.#parts.href, part, text(value));
      if (changed === "") {
        if (part === "href") throw new TypeError(`invalid URL: ${text(value)}`);
        return;
      }
      this.#parts = parse(changed);
    }
    static {
      const parts = [
        "href",
        "protocol",
        "username",
        "password",
        "host",
        "hostname",
        "port",
        "pathname",
        "search",
        "hash",
      ];
      for (const part of parts) {
        Object.defineProperty(URL.prototype, part, {
          get() {
            return this.#parts[part];
          },
          set(value) {
            this.#set(part, value);
            if (part === "href" || part === "search") this.#params = undefined;
          },
          enumerable: true,
          configurable: true,
        });
      }
    }
    toString() {
      return this.#parts.href;
    }
    toJSON() {
      return this.#parts.href;
    }
  }

  // Requests to the parent process, by number.
  const pending = new Map();
  let asked = 0;
  const ask = (method, params) =>
    new Promise((resolve, reject) => {
      const id = ++asked;
      native.ask(id, method, stringify(params));
      pending.set(id, { resolve, reject });
    });

  class Headers {
    #named = new Map();
    constructor(init = {}) {
      const pairs = init instanceof Headers || Array.isArray(init) ? init : Object.entries(init);
      for (const [name, value] of pairs) this.append(name, value);
    }
    append(name, value) {
      const key = text(name).toLowerCase();
      const before = this.#named.get(key);
      this.#named.set(key, before === undefined ? text(value) : `${before}, ${text(value)}`);
    }
    get(name) {
      return this.#named.get(text(name).toLowerCase()) ?? null;
    }
    has(name) {
      return this.#named.has(text(name).toLowerCase());
    }
    set(name, value) {
      this.#named.set(text(name).toLowerCase(), text(value));
    }
    delete(name) {
      this.#named.delete(text(name).toLowerCase());
    }
    forEach(callback) {
      for (const [name, value] of this.#named) callback(value, name, this);
    }
    entries() {
      return this.#named.entries();
    }
    keys() {
      return this.#named.keys();
    }
    [Symbol.iterator]() {
      return this.#named.entries();
    }
  }

  class Response {
    #binary;
    constructor(answer) {
      this.#binary = native.fromBase64(answer.body_base64 ?? "");
      this.status = answer.status;
      this.ok = answer.status >= 200 && answer.status < 300;
      this.url = answer.url ?? "";
      this.truncated = Boolean(answer.truncated);
      this.headers = new Headers(answer.headers ?? {});
    }
    async text() {
      return native.decode(this.#binary, false);
    }
    async json() {
      return parse(await this.text());
    }
    async bytes() {
      return Uint8Array.from(this.#binary, (letter) => letter.charCodeAt(0));
    }
    async arrayBuffer() {
      return (await this.bytes()).buffer;
    }
  }

  const bodyOf = (body, headers) => {
    if (body === undefined || body === null) return undefined;
    if (body instanceof URLSearchParams) {
      if (!headers.has("content-type")) {
        headers.set("content-type", "application/x-www-form-urlencoded;charset=UTF-8");
      }
      return toBinary(native.encode(body.toString()));
    }
    if (typeof body === "object") return toBinary(bytesOf(body));
    return toBinary(native.encode(text(body)));
  };

  const fetch = async (input, init = {}) => {
    const headers = new Headers(init.headers ?? {});
    const body = bodyOf(init.body, headers);
    const answer = await ask("host/fetch", {
      url: text(input),
      method: text(init.method ?? "GET").toUpperCase(),
      headers: Object.fromEntries(headers),
      ...(body === undefined ? {} : { body_base64: native.toBase64(body) }),
    });
    return new Response(answer);
  };

  const timers = new Map();
  let timed = 0;
  const setTimeout = (callback, delay = 0, ...args) => {
    if (typeof callback !== "function") throw new TypeError("setTimeout takes a function");
    const at = native.now() + Math.max(0, Number(delay) || 0);
    timers.set(++timed, { at, run: () => callback(...args) });
    return timed;
  };
  const clearTimeout = (id) => {
    timers.delete(id);
  };

  const shown = (value) => {
    if (typeof value === "string") return value;
    if (value instanceof Error) return `${value.name}: ${value.message}`;
    try {
      return stringify(value) ?? String(value);
    } catch {
      return String(value);
    }
  };
  const say =
    (level) =>
    (...values) =>
      native.log(level, text(values.map(shown).join(" ")));
  const console = {
    debug: say("debug"),
    error: say("error"),
    info: say("info"),
    log: say("info"),
    warn: say("warning"),
  };

  define({
    Function: refuse,
    TextEncoder,
    TextDecoder,
    URL,
    URLSearchParams,
    atob: (data) => native.fromBase64(text(data)),
    btoa: (data) => native.toBase64(String(data)),
    clearTimeout,
    console,
    fetch,
    setTimeout,
  });

  // What went wrong, in words, with the place in the code if it is known.
  const told = (error) => {
    // Without memory there is none for an error either.
    if (error === null) return { message: "out of memory, or `null` was thrown" };
    if (!(error instanceof Error)) return { message: `threw ${shown(error)}` };
    const place = /([\w./-]+\.m?js):(\d+)(?::(\d+))?/.exec(String(error.stack ?? ""));
    return {
      message: text(`${error.name}: ${error.message}`),
      ...(place && { file: place[1], line: Number(place[2]), column: Number(place[3] ?? 1) }),
    };
  };

  // What the host itself calls.
  return {
    ask,
    text,
    told: (error) => stringify(told(error)),
    // Settles a request.
    answer(id, fine, json) {
      const waiting = pending.get(id);
      if (waiting === undefined) return;
      pending.delete(id);
      const value = parse(json);
      if (fine) waiting.resolve(value);
      else waiting.reject(new TypeError(String(value)));
    },
    // Runs the timers that are due. Says in how many milliseconds the next one is, or -1.
    tick() {
      const now = native.now();
      const due = [...timers].filter(([, timer]) => timer.at <= now).sort(([, one], [, other]) => one.at - other.at);
      for (const [id, timer] of due) {
        // One that ran before may have taken it back.
        if (!timers.delete(id)) continue;
        try {
          timer.run();
        } catch (error) {
          native.log("error", told(error).message);
        }
      }
      if (due.length > 0) return 0;
      let next = Infinity;
      for (const { at } of timers.values()) next = at < next ? at : next;
      return timers.size === 0 ? -1 : Math.max(1, next - now);
    },
    // Nothing is left that could end what is not ended.
    isIdle: () => pending.size === 0 && timers.size === 0,
    // What a module offers as a tool.
    offer(module) {
      const types = Object.fromEntries(Object.keys(module).map((name) => [name, typeof module[name]]));
      const { description, inputSchema, effect, hosts, timeoutMs } = module;
      return stringify({ types, description, inputSchema, effect, hosts, timeoutMs });
    },
    // Calls the function of a tool; the end comes as `native.end`.
    run(module, input) {
      const running = (async () => module.execute(parse(input)))();
      running.then(
        (value) => {
          let ended = "";
          try {
            ended = typeof value === "string" ? text(value) : (stringify(value) ?? "");
          } catch (error) {
            return native.end(false, stringify(told(error)));
          }
          return native.end(true, ended);
        },
        (error) => native.end(false, stringify(told(error))),
      );
    },
  };
};
