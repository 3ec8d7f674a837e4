//! A conversation of an editor with another team than the main one: each prompt is a message, answered in one piece.

use agent_client_protocol_schema::{SessionId, StopReason};
use hivewright_actors::task::outcome::Ending;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use super::{
    editor::{Editor, Order},
    thoughts::Thoughts,
    updates::{thought, words},
};
use crate::{
    api::{
        endpoint::ById,
        messages::{MessageReply, MessageRow},
        tasks::{CANCEL_TASK, TaskCancel},
    },
    cli::{
        client::Service,
        context::Context,
        failure::Failure,
        team_message::{ask, unanswered},
    },
};

pub(super) struct OtherTeam {
    pub(super) id: SessionId,
    pub(super) team: String,
    pub(super) editor: Editor,
    pub(super) context: Context,
}

impl OtherTeam {
    /// Answers the request of the editor, and talks until it is gone.
    pub(super) async fn begin(self, request: Value) {
        let known = async { Service::find(&self.context)?.refuse_unknown(&self.team).await };
        if let Err(failure) = known.await {
            return self.editor.failed(request, &failure);
        }
        let mut thoughts = Thoughts::open(&self.context, &self.team).await;
        let mut orders = self.editor.opened(request, &self.id);
        while let Some(order) = orders.recv().await {
            if let Order::Prompt { id, text } = order {
                self.say(id, &text, &mut orders, &mut thoughts).await;
            }
        }
    }

    async fn say(
        &self,
        request: Value,
        text: &str,
        orders: &mut mpsc::UnboundedReceiver<Order>,
        thoughts: &mut Thoughts,
    ) {
        thoughts.expect();
        let (accepted, mut accepts) = oneshot::channel();
        let seen = |row: &MessageRow| {
            if let Some(task) = &row.task_id {
                // Who waits for it is below.
                drop(accepted.send(task.to_string()));
            }
        };
        let mut answering = Box::pin(ask(&self.team, text, seen, &self.context));
        let (mut task, mut stops) = (None, false);
        let answer = loop {
            tokio::select! {
                answer = &mut answering => break answer,
                Ok(accepted) = &mut accepts, if task.is_none() => {
                    let early = thoughts.of(&accepted);
                    early.iter().for_each(|piece| self.editor.update(&self.id, thought(piece)));
                    if stops {
                        self.stop(&accepted).await;
                    }
                    task = Some(accepted);
                }
                piece = thoughts.next() => self.editor.update(&self.id, thought(&piece)),
                order = orders.recv() => match (order, &task) {
                    (None, _) => return,
                    (Some(Order::Cancel), None) => stops = true,
                    (Some(Order::Cancel), Some(task)) => self.stop(task).await,
                    (Some(Order::Prompt { id, .. }), _) => self.editor.busy(id),
                },
            }
        };
        match answer {
            Err(failure) => self.editor.failed(request, &failure),
            Ok(MessageReply { status: Ending::Cancelled, .. }) => {
                self.editor.ended(request, StopReason::Cancelled);
            }
            Ok(MessageReply { text, status: Ending::Done, .. }) => {
                self.editor.update(&self.id, words(&text));
                self.editor.ended(request, StopReason::EndTurn);
            }
            Ok(MessageReply { text, status, code }) => {
                self.editor.failed(request, &unanswered(&text, status, code));
            }
        }
    }

    async fn stop(&self, task: &str) {
        if let Err(failure) = self.cancel(task).await {
            self.editor.update(&self.id, words(&format!("{failure}\n")));
        }
    }

    async fn cancel(&self, task: &str) -> Result<(), Failure> {
        let service = Service::find(&self.context)?;
        let path = ById { id: task.to_owned() };
        let cancel = TaskCancel { reason: None, cascade: false };
        service.send(&CANCEL_TASK, &path, &cancel).await.map(drop)
    }
}
