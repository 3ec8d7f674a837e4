// @ts-check
// Mathematics as models write it, a part of TeX, to MathML, which browsers draw by themselves. What it does not know stays as it
// was written; nothing it reads becomes markup.

const MATHML = "http://www.w3.org/1998/Math/MathML";
/** Longer or deeper formulas are shown as they were written. */
const LONGEST = 4_000;
const DEEPEST = 40;

/** @param {string} text words as `name symbol` pairs */
const pairs = (text) => Object.fromEntries(text.split(" ").map((pair) => pair.split("=")));

/** @type {Record<string, string>} */
const LETTERS = pairs(
  "alpha=α beta=β gamma=γ delta=δ epsilon=ϵ varepsilon=ε zeta=ζ eta=η theta=θ vartheta=ϑ iota=ι kappa=κ lambda=λ mu=μ nu=ν xi=ξ " +
    "pi=π varpi=ϖ rho=ρ sigma=σ tau=τ upsilon=υ phi=ϕ varphi=φ chi=χ psi=ψ omega=ω Gamma=Γ Delta=Δ Theta=Θ Lambda=Λ Xi=Ξ Pi=Π " +
    "Sigma=Σ Upsilon=Υ Phi=Φ Psi=Ψ Omega=Ω infty=∞ partial=∂ nabla=∇ ell=ℓ hbar=ℏ Re=ℜ Im=ℑ emptyset=∅ varnothing=∅ aleph=ℵ",
);
/** @type {Record<string, string>} */
const OPERATORS = pairs(
  "times=× div=÷ cdot=⋅ pm=± mp=∓ leq=≤ le=≤ geq=≥ ge=≥ neq=≠ ne=≠ approx=≈ equiv=≡ sim=∼ simeq=≃ cong=≅ propto=∝ ll=≪ gg=≫ in=∈ " +
    "notin=∉ ni=∋ subset=⊂ subseteq=⊆ supset=⊃ supseteq=⊇ cup=∪ cap=∩ setminus=∖ forall=∀ exists=∃ neg=¬ lnot=¬ land=∧ wedge=∧ " +
    "lor=∨ vee=∨ to=→ rightarrow=→ leftarrow=← Rightarrow=⇒ Leftarrow=⇐ leftrightarrow=↔ Leftrightarrow=⇔ iff=⟺ implies=⟹ " +
    "mapsto=↦ ldots=… dots=… cdots=⋯ vdots=⋮ ddots=⋱ circ=∘ bullet=∙ star=⋆ ast=∗ oplus=⊕ otimes=⊗ perp=⊥ parallel=∥ mid=∣ " +
    "angle=∠ degree=° prime=′ langle=⟨ rangle=⟩ lfloor=⌊ rfloor=⌋ lceil=⌈ rceil=⌉ lvert=| rvert=| vert=| Vert=‖ lbrace={ rbrace=} " +
    "therefore=∴ because=∵ colon=: quad=\u2003 qquad=\u2003\u2003",
);
/** Those whose bounds stand above and below. @type {Record<string, string>} */
const LARGE = pairs(
  "sum=∑ prod=∏ coprod=∐ bigcup=⋃ bigcap=⋂ lim=lim max=max min=min sup=sup inf=inf limsup=limsup liminf=liminf",
);
/** @type {Record<string, string>} */
const INTEGRALS = pairs("int=∫ iint=∬ iiint=∭ oint=∮");
const FUNCTIONS = new Set(
  "sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh log ln exp det dim ker deg gcd arg Pr mod".split(" "),
);
/** @type {Record<string, string>} */
const ACCENTS = pairs("hat=^ bar=¯ overline=¯ vec=→ tilde=~ dot=˙ ddot=¨ widehat=^ widetilde=~");
/** @type {Record<string, string>} */
const STYLES = pairs("mathbf=bold boldsymbol=bold mathbb=double-struck mathcal=script mathfrak=fraktur mathit=italic");
const UPRIGHT = new Set(["text", "textrm", "textbf", "textit", "mathrm", "operatorname", "mathsf", "mathtt"]);
const BLANKS = new Set([",", ";", ":", "!", " ", "displaystyle", "textstyle", "limits", "nolimits", "left.", "right."]);
/** What stands around a table. @type {Record<string, [string, string]>} */
const FENCES = { pmatrix: ["(", ")"], bmatrix: ["[", "]"], vmatrix: ["|", "|"], Bmatrix: ["{", "}"], cases: ["{", ""] };

/** @param {string} tag @param {Record<string, string>} attributes @param {(Node | string)[]} children */
function node(tag, attributes, children) {
  const element = document.createElementNS(MATHML, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}
const row = (/** @type {Node[]} */ nodes) => (nodes.length === 1 ? nodes[0] : node("mrow", {}, nodes));
const operator = (/** @type {string} */ text, attributes = {}) => node("mo", attributes, [text]);

/** A bracket grows only where it is told to. @param {string} text */
const plain = (text) => operator(text, /[()[\]{}|‖]/.test(text) ? { stretchy: "false" } : {});

class Reader {
  at = 0;
  depth = 0;

  /** @param {string} text */
  constructor(text) {
    this.tokens = text.match(/\\[a-zA-Z]+\*?|\\.|\d+(?:\.\d+)?|[a-zA-Z]|\S/gsu) ?? [];
  }

  get next() {
    return this.tokens[this.at];
  }

  /** The words between braces, as they are. */
  words() {
    if (this.next !== "{") return this.tokens[this.at++] ?? "";
    const words = [];
    let open = 0;
    do {
      const token = this.tokens[this.at++];
      if (token === undefined) throw new Error("a brace is not closed");
      open += token === "{" ? 1 : token === "}" ? -1 : 0;
      words.push(token);
    } while (open > 0);
    return words.slice(1, -1).join("");
  }

  /** All up to one of these, which is left. @param {string[]} ends @returns {Node[]} */
  upTo(...ends) {
    if ((this.depth += 1) > DEEPEST) throw new Error("too deep");
    /** @type {Node[]} */ const nodes = [];
    while (this.next !== undefined && !ends.includes(this.next)) nodes.push(this.scripted());
    if (ends.length && this.next === undefined) throw new Error("something is not closed");
    this.depth -= 1;
    return nodes;
  }

  /** Something with what stands above and below it. @returns {Node} */
  scripted() {
    const begins = this.next;
    const base = this.one();
    /** @type {Node | null} */ let above = null;
    /** @type {Node | null} */ let below = null;
    let primes = "";
    for (;;) {
      if (this.next === "\\limits" || this.next === "\\nolimits") this.at += 1;
      else if (this.next === "'") ((this.at += 1), (primes += "′"));
      else if (this.next === "^") ((this.at += 1), (above = this.one()));
      else if (this.next === "_") ((this.at += 1), (below = this.one()));
      else break;
    }
    if (primes) above = row([operator(primes), ...(above ? [above] : [])]);
    const bounded = begins !== undefined && begins.slice(1) in LARGE;
    if (above && below) return node(bounded ? "munderover" : "msubsup", {}, [base, below, above]);
    if (above) return node(bounded ? "mover" : "msup", {}, [base, above]);
    return below ? node(bounded ? "munder" : "msub", {}, [base, below]) : base;
  }

  /** @returns {Node} */
  one() {
    const token = this.tokens[this.at++];
    if (token === undefined) throw new Error("something is missing");
    if (token === "{") {
      const inside = this.upTo("}");
      this.at += 1;
      return row(inside);
    }
    if (token === "}" || token === "&") throw new Error(`${token} has no place here`);
    if (/^\d/.test(token)) return node("mn", {}, [token]);
    if (/^\p{L}$/u.test(token)) return node("mi", {}, [token]);
    return token.startsWith("\\") && token.length > 1 ? this.command(token.slice(1)) : plain(token);
  }

  /** @param {string} name @returns {Node} */
  command(name) {
    if (name in LETTERS) return node("mi", {}, [LETTERS[name]]);
    if (name in OPERATORS) return operator(OPERATORS[name]);
    if (name in LARGE) return operator(LARGE[name], { movablelimits: "true" });
    if (name in INTEGRALS) return operator(INTEGRALS[name]);
    if (FUNCTIONS.has(name)) return node("mi", { mathvariant: "normal" }, [name]);
    if (name in ACCENTS) return node("mover", { accent: "true" }, [this.one(), operator(ACCENTS[name])]);
    if (name in STYLES) return node("mstyle", { mathvariant: STYLES[name] }, [this.one()]);
    if (UPRIGHT.has(name.replace("*", ""))) return node("mtext", {}, [this.words()]);
    if (BLANKS.has(name)) return node("mspace", { width: name === "!" ? "0em" : "0.2em" }, []);
    if (/^[dt]?frac$|^[dt]?binom$/.test(name)) return this.fraction(name.endsWith("binom"));
    if (name === "sqrt") return this.root();
    if (name === "left") return this.fenced();
    if (name === "begin") return this.table(this.words());
    if (/^[^a-zA-Z]$/.test(name)) return plain(name === "|" ? "‖" : name);
    throw new Error(`\\${name} is not known`);
  }

  /** @param {boolean} binomial */
  fraction(binomial) {
    const parts = [this.one(), this.one()];
    if (!binomial) return node("mfrac", {}, parts);
    return row([operator("("), node("mfrac", { linethickness: "0" }, parts), operator(")")]);
  }

  root() {
    if (this.next !== "[") return node("msqrt", {}, [this.one()]);
    this.at += 1;
    const degree = row(this.upTo("]"));
    this.at += 1;
    return node("mroot", {}, [this.one(), degree]);
  }

  fence() {
    const token = this.tokens[this.at++] ?? ".";
    if (token === ".") return [];
    const name = token.length > 1 ? token.slice(1) : token;
    return [
      operator(OPERATORS[name] ?? (name === "|" && token.length > 1 ? "‖" : name), { fence: "true", stretchy: "true" }),
    ];
  }

  fenced() {
    const opens = this.fence();
    const inside = this.upTo("\\right");
    this.at += 1;
    return row([...opens, ...inside, ...this.fence()]);
  }

  /** @param {string} name */
  table(name) {
    if (name === "array") this.words();
    /** @type {Node[][]} */ const rows = [[]];
    for (;;) {
      rows.at(-1)?.push(node("mtd", {}, this.upTo("&", "\\\\", "\\end")));
      const token = this.tokens[this.at++];
      if (token === "\\\\") rows.push([]);
      else if (token === "\\end") break;
    }
    this.words();
    const [open, close] = FENCES[name] ?? ["", ""];
    const lines = rows.map((cells) => node("mtr", {}, cells));
    /** @type {Record<string, string>} */
    const align = name === "cases" || name.startsWith("align") ? { columnalign: "left" } : {};
    return row([
      ...(open ? [operator(open, { fence: "true", stretchy: "true" })] : []),
      node("mtable", align, lines),
      ...(close ? [operator(close, { fence: "true", stretchy: "true" })] : []),
    ]);
  }
}

/** A formula as an element; null if it says something that is not known here. @param {string} text @param {boolean} whole it stands by itself */
export function formula(text, whole) {
  if (text.length > LONGEST) return null;
  try {
    const inside = new Reader(text).upTo();
    return node("math", { display: whole ? "block" : "inline" }, [node("mrow", {}, inside)]);
  } catch {
    return null;
  }
}
