//! A conversation that begins anew: what was said before is not shown to the model any more.

use actix::{Context, Handler, Message};

use super::Team;
use crate::{clock::Timestamp, ids::TopicId};

/// The conversation of a lane began anew. It is stored.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct BeganAnew {
    /// The topic, in a team that works in topics.
    pub topic: Option<TopicId>,
    /// When: what was said before is forgotten.
    pub at: Timestamp,
}

impl Handler<BeganAnew> for Team {
    type Result = ();

    fn handle(&mut self, BeganAnew { topic, at }: BeganAnew, _: &mut Context<Self>) {
        if let Some(memory) = &mut self.lanes.get(&topic).memory {
            memory.recent.retain(|line| line.at >= at);
            memory.summary.take_if(|line| line.at < at);
        }
    }
}
