// @ts-check
// How large a message may be: what is sent has at most 1 MiB, with what stands around the words.

const FRAME = 1024 * 1024;
const AROUND = 1024;

export const MOST_BYTES = FRAME - AROUND;

/** What the words take on the wire. @param {string} text */
export const bytesOf = (text) => new TextEncoder().encode(JSON.stringify(text)).length;

/** @param {number} bytes */
export const tooBig = (bytes) => ({ code: "frame_too_large", message: tooBigWords(bytes) });

/** @param {number} bytes */
export const tooBigWords = (bytes) =>
  `This message is too large to be sent: it has ${bytes.toLocaleString("en")} bytes, ${MOST_BYTES.toLocaleString("en")} is the most. ` +
  "Shorten it, or send it in parts.";
