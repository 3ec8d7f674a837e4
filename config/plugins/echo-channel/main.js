// A channel is a function that sends, and one that takes what comes in. Who may talk, what is a topic and what was sent already
// the service knows; a channel translates.
import { channel, config, state } from "hive:host";

const KEPT = 20;

const { inbound } = channel({
  // An answer is sent again until this says `delivered` or `undeliverable`, always under the same `delivery_id`.
  async send({ delivery_id, recipient, content }) {
    const { post_url } = config.channel;
    if (post_url === undefined) {
      const sent = [...((await state.get("sent")) ?? []).filter((one) => one.delivery_id !== delivery_id)];
      sent.push({ delivery_id, recipient, content: content.slice(0, 500) });
      await state.set("sent", sent.slice(-KEPT));
      state.show({ sent: sent.slice(-KEPT) });
      return { status: "delivered" };
    }
    const answer = await fetch(post_url, {
      method: "POST",
      headers: { "content-type": "application/json", "idempotency-key": delivery_id },
      body: JSON.stringify({ to: recipient, text: content }),
    });
    if (answer.ok) return { status: "delivered" };
    if (answer.status >= 500 || answer.status === 429) return { status: "retry", after_ms: 5000 };
    return { status: "undeliverable", reason: `the address answered ${answer.status}` };
  },

  // The signature was checked before this is called.
  async webhook({ body_base64 }) {
    const bytes = Uint8Array.from(atob(body_base64), (letter) => letter.charCodeAt(0));
    const { event_id, from, text } = JSON.parse(new TextDecoder().decode(bytes));
    if (!event_id || !from || !text) return { status: 422, body: "event_id, from and text are needed" };
    const message = { event_id, conversation: from, sender: { id: from, name: from }, text, attachments: [] };
    const { accepted, duplicate } = await inbound({ ...message, received_at: new Date().toISOString() });
    return { status: accepted || duplicate ? 200 : 403 };
  },

  // One question; its answer becomes the settings of the channel.
  setup: {
    begin: () => ({
      kind: "awaiting_user_input",
      fields: [{ key: "secret", label: "Secret that callers sign with", type: "password" }],
    }),
    submit: ({ values }) =>
      values.secret?.length >= 16
        ? { kind: "done", config: { secret: values.secret } }
        : { kind: "error", message: "A secret has at least 16 characters." },
    poll: () => ({ kind: "error", message: "There is nothing to wait for." }),
    cancel: () => ({ kind: "error", message: "Cancelled." }),
  },
});
