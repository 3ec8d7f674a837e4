// A channel is a function that sends, and a way to bring in what people write. Who may talk, what is a topic and what was sent
// already the service knows; a channel translates.
import { channel, config, state } from "hive:host";

// So many messages are kept to look at, if there is no address to post them to.
const KEPT = 20;
// They are asked for once, and then changed here: two messages may be on their way at a time.
let kept;

const { inbound } = channel({
  // A message is sent again until this says `delivered` or `undeliverable`, always under the same `delivery_id`.
  async send({ delivery_id, recipient, content, kind, reply_to }) {
    const { post_url } = config.channel;
    if (post_url === undefined) {
      kept ??= state.get("sent").then((before) => before ?? []);
      const sent = await kept;
      if (!sent.some((one) => one.delivery_id === delivery_id)) {
        sent.push({ delivery_id, recipient, kind, reply_to, content: content.slice(0, 500) });
        sent.splice(0, sent.length - KEPT);
      }
      await state.set("sent", sent);
      state.show({ sent });
      return { status: "delivered" };
    }
    const answer = await fetch(post_url, {
      method: "POST",
      headers: { "content-type": "application/json", "idempotency-key": delivery_id },
      body: JSON.stringify({ to: recipient, text: content, kind, reply_to }),
    });
    if (answer.ok) return { status: "delivered" };
    if (answer.status >= 500 || answer.status === 429) return { status: "retry", after_ms: 5000 };
    return { status: "undeliverable", reason: `the address answered ${answer.status}` };
  },

  // A call of the network. Its signature was checked before this is called.
  async webhook({ body_base64 }) {
    const bytes = Uint8Array.from(atob(body_base64), (letter) => letter.charCodeAt(0));
    let message;
    try {
      message = JSON.parse(new TextDecoder().decode(bytes));
    } catch {
      return { status: 400, body: "the body is no JSON" };
    }
    const { event_id, from, text } = message;
    if (!event_id || !from || !text) return { status: 422, body: "event_id, from and text are needed" };
    // What is accepted is safe. The same `event_id` again is the same message, so that a network may repeat itself.
    const taken = await inbound({ event_id, conversation: from, sender: { id: from, name: from }, text });
    if (taken.accepted) return { status: 200 };
    return { status: taken.code === "not_authorized" ? 403 : 503, body: taken.error ?? "" };
  },

  // One question; its answer becomes the settings of the channel.
  setup: {
    begin: () => ({
      kind: "awaiting_user_input",
      fields: [{ key: "secret", label: "Secret that callers sign with", type: "password" }],
    }),
    submit: ({ values }) =>
      values.secret.length >= 24
        ? { kind: "done", config: { secret: values.secret } }
        : { kind: "error", message: "A secret has at least 24 characters." },
  },
});
