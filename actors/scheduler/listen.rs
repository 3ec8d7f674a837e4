//! Messages that were heard, and the triggers that fire for them.

use actix::{AsyncContext, Context, Handler, WrapFuture};
use futures_util::future::join_all;
use tokio::sync::oneshot;

use super::{
    Scheduler,
    body::{self, Quoted},
    config::Config,
    fire::Pending,
    heard::Heard,
    run::Cause,
};
use crate::{queue::keep::Keep, store::records::Writes, task::Source};

impl Scheduler {
    /// Fires what a message concerns, and strikes it off once all of that is durable. One that was
    /// `left` by a former process may have been served in part.
    pub(super) fn hear(&mut self, heard: Heard, left: bool, ctx: &mut Context<Self>) {
        let mut waiting = Vec::new();
        for (id, captures) in self.ears.listen(&heard) {
            let Some(trigger) = self.triggers.get(&id) else {
                continue;
            };
            let key = heard.name();
            if left && self.known.contains_key(&(id.clone(), key.clone())) {
                continue;
            }
            let cause = match trigger.definition.config {
                Config::Keyword(_) => Cause::Keyword,
                _ => Cause::Message,
            };
            let quoted = Quoted {
                sender: &heard.sender,
                channel: heard.channel.as_str(),
                content: &heard.content,
                captures: &captures,
            };
            let order = body::with_message(body::order(trigger), &quoted);
            let pending = Pending {
                key,
                label: heard.label,
                source: Some(Source {
                    channel: heard.channel.clone(),
                    message: None,
                    topic: heard.topic.clone(),
                    notify: None,
                }),
                remember: true,
                ..Pending::timed(cause, heard.at, order)
            };
            let (tell, told) = oneshot::channel();
            self.with_findings(
                &id,
                move |scheduler, id, found, ctx| {
                    let fired = scheduler.fire(id, pending, found, ctx);
                    let _gone = tell.send(fired);
                },
                ctx,
            );
            waiting.push(async move {
                match told.await {
                    Ok(fired) => fired.await.is_ok(),
                    Err(_) => false,
                }
            });
        }
        let queue = self.to.queue.clone();
        let strike_off = async move {
            if join_all(waiting).await.into_iter().all(|done| done) {
                let writes = Writes::new().delete::<Heard>(&heard.name());
                queue.do_send(Keep { writes, stored: None });
            }
        };
        ctx.spawn(strike_off.into_actor(self));
    }
}

impl Handler<Heard> for Scheduler {
    type Result = ();

    fn handle(&mut self, heard: Heard, ctx: &mut Self::Context) {
        self.hear(heard, false, ctx);
    }
}
