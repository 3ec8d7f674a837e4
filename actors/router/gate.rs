//! Trust gate: everything that comes in passes it before it is anything else.

use std::{sync::Arc, time::Duration};

use actix::{ActorFutureExt, AsyncContext, Context, Handler, Message, WrapFuture};

use super::{
    Router,
    audit::AuditRow,
    grants::Origin,
    rate::{Bucket, too_fast},
    sender::Sender,
    trust,
};
use crate::{
    admission::{Admission, Decision, Reason},
    briefing::Speaker,
    channel::{HangUp, socket::Closing},
    clock::millis,
    frame::ErrorBody,
    identities::{Identities, Linked},
    ids::{ChannelId, MessageId},
    interactions::{Interaction, Said},
    router::records::{Undecided, grants},
    store::records::Writes,
    task::{Label, cause::Cause},
};

/// The code of a refusal that whoever is kept out by name must not hear of.
pub const SILENT: &str = "not_authorized_silently";

/// When a sender may try again whose grants could not be read.
const GRANTS_RETRY: Duration = Duration::from_secs(1);

/// Asks whether a sender would be let in now. Nothing is said yet, so that it leaves no row.
#[derive(Debug, Message)]
#[rtype(result = "bool")]
pub struct WouldAdmit {
    /// Where they would write.
    pub channel: ChannelId,
    pub sender: Sender,
}

/// From now on these say which senders are principals.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Identify(pub Arc<dyn Identities>);

impl Router {
    /// Decides on something that the sender of a channel wants.
    pub(super) fn judge(&self, channel: &ChannelId, sender: &Sender) -> Decision {
        let origin = Origin { channel_type: &sender.channel_type, channel, sender: &sender.id };
        trust::decide(&self.settings.trust, &self.grants, origin)
    }

    /// The principal that a sender was linked to. A claim is no proof, so that it links nobody.
    pub(super) fn linked(&self, sender: &Sender) -> Option<Linked> {
        if sender.asserted_by.is_some() {
            return None;
        }
        let identities = self.identities.as_ref()?;
        identities.linked(&sender.channel_type, &sender.id)
    }

    /// Lets a message in, with what is known of it then, or ends it here.
    pub(super) fn admit(
        &mut self,
        channel: &ChannelId,
        sender: &Sender,
        content: &str,
        id: Option<&MessageId>,
        ctx: &mut Context<Self>,
    ) -> Option<(Admission, Label, Cause)> {
        let decision = self.judge(channel, sender);
        if decision.allowed {
            let label = decision.label(sender.is_operator, sender.asserted_by.is_some());
            let linked = self.linked(sender).map(|linked| linked.principal);
            let admission = Admission {
                channel_type: sender.channel_type.clone(),
                reason: decision.reason,
                asserted_by: sender.asserted_by.clone(),
                listener: sender.listener.clone(),
            };
            return Some((admission, label, sender.cause(label, linked)));
        }
        let row = self.row(channel, sender, decision);
        let person = Speaker::Person(sender.id.clone());
        let said = Said::new(row.at, person, content, Label::Untrusted);
        let interaction = Interaction {
            channel: channel.clone(),
            channel_type: Some(sender.channel_type.clone()),
            topic: None,
            task: None,
            at: row.at,
            duration_ms: None,
            said: vec![said],
            trust_decision: Some(decision),
        };
        let writes = Writes::new().put(&row).put_at(&interaction.key_named(&row.id), &interaction);
        self.commit(writes, ctx);
        self.tell_denied(channel, id, decision, ctx);
        None
    }

    /// Lets a control frame in that acts on `channel`, or refuses it where it came from.
    ///
    /// Each leaves a row, so that they are limited like messages, but do not wait for those.
    pub(super) fn admit_control(
        &mut self,
        from: &ChannelId,
        channel: &ChannelId,
        ctx: &mut Context<Self>,
    ) -> bool {
        if !self.has_control_left(from) {
            return false;
        }
        let Some(conversation) = self.conversations.get(from) else { return false };
        let sender = conversation.sender.clone();
        let decision = self.judge(channel, &sender);
        let row = self.row(channel, &sender, decision);
        self.commit(Writes::new().put(&row), ctx);
        if !decision.allowed {
            self.tell_denied(from, None, decision, ctx);
        }
        decision.allowed
    }

    /// Whether the sender of a channel may send one more control frame. It is told if not.
    pub(super) fn has_control_left(&mut self, from: &ChannelId) -> bool {
        let Some(conversation) = self.conversations.get(from) else { return false };
        let sender = conversation.sender.clone();
        let taken = self.take_control(&sender);
        if let Err(pause) = taken {
            self.refuse(from, too_fast("requests", pause));
        }
        taken.is_ok()
    }

    /// Counts a control frame of a sender, or says after which time they may send one.
    pub(super) fn take_control(&mut self, sender: &Sender) -> Result<(), Duration> {
        let (now, rate) = (self.to.clock.now(), self.settings.rate_of(&sender.channel_type));
        let buckets = &mut self.control_buckets;
        let bucket = buckets.entry(sender.key()).or_insert_with(|| Bucket::new(rate, now));
        bucket.take(now)
    }

    /// The audit row of a message that was let in and became no task.
    pub(super) fn audited(&self, message: &Undecided) -> Writes {
        let (channel, sender) = (message.channel.clone(), message.sender.clone());
        let row = message.admission.clone().map(|admission| {
            AuditRow::admitted(self.audit_id(), message.at, channel, sender, admission)
        });
        Writes::new().put_all(&row)
    }

    pub(super) fn row(&self, channel: &ChannelId, sender: &Sender, decision: Decision) -> AuditRow {
        AuditRow {
            id: self.audit_id(),
            at: self.to.clock.now(),
            channel_type: sender.channel_type.clone(),
            channel: channel.clone(),
            sender: sender.id.clone(),
            asserted_by: sender.asserted_by.clone(),
            listener: sender.listener.clone(),
            decision,
        }
    }

    /// Rows of the same moment are listed in the order in which they came about.
    fn audit_id(&self) -> String {
        let count = self.audit_rows.get();
        self.audit_rows.set(count.wrapping_add(1));
        let chance = self.to.ids.bits() >> 32;
        format!("trust-{count:08x}{chance:08x}")
    }

    /// A sender who is kept out is told so, or cut off without a word.
    fn tell_denied(
        &mut self,
        channel: &ChannelId,
        message: Option<&MessageId>,
        decision: Decision,
        ctx: &mut Context<Self>,
    ) {
        let refusal = ErrorBody::refusal("not_authorized", "Not authorized.");
        if decision.is_silent() {
            if let Some(id) = message {
                self.settle(channel, id, Err(ErrorBody { code: SILENT.to_owned(), ..refusal }));
            }
            // Who wrote without a connection of their own has none to be cut off from.
            if let Some(connection) = self.speaking(channel) {
                self.to.channel.do_send(HangUp {
                    channel: channel.clone(),
                    connection: Some(connection),
                    closing: Closing::Denied,
                });
            }
            return;
        }
        let unreadable = decision.reason == Reason::TrustStoreError;
        let retry_after_ms = unreadable.then(|| millis(GRANTS_RETRY));
        let refusal = ErrorBody { retry_after_ms, ..refusal.about(message.cloned()) };
        self.refuse(channel, refusal);
        if unreadable && self.grants.is_unreadable() {
            self.read_grants(ctx);
        }
    }

    /// Grants that could not be read are tried again for the next message.
    fn read_grants(&mut self, ctx: &mut Context<Self>) {
        let read = self.to.store.read(grants);
        ctx.spawn(read.into_actor(self).map(|found, router, _| match found {
            // Grants that were given meanwhile are among them: they are stored before this is read.
            Ok(grants) => router.grants = grants,
            Err(error) => {
                tracing::error!(%error, "grants of trust cannot be read: nobody is let in by name until they can")
            }
        }));
    }
}

impl Handler<Identify> for Router {
    type Result = ();

    fn handle(&mut self, Identify(identities): Identify, _: &mut Self::Context) {
        self.identities = Some(identities);
    }
}

impl Handler<WouldAdmit> for Router {
    type Result = bool;

    fn handle(&mut self, asked: WouldAdmit, _: &mut Self::Context) -> bool {
        self.judge(&asked.channel, &asked.sender).allowed
    }
}
