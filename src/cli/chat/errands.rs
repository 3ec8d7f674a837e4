//! Messages to other teams than the main one, in a chat: several may wait for their answers at a time.

use std::{cell::RefCell, collections::VecDeque, pin::Pin, rc::Rc};

use futures_util::{StreamExt, stream::FuturesUnordered};
use hivewright_actors::task::Ending;

use crate::{
    api::messages::{MessagePlacement, MessageReply, MessageRow},
    cli::{Context, errand, failure::Failure},
};

type Answered = (u64, Result<MessageReply, Failure>);

/// Messages that have no answer yet.
#[derive(Default)]
pub(super) struct Errands {
    running: FuturesUnordered<Pin<Box<dyn Future<Output = Answered>>>>,
    /// The same, in the order in which they were given.
    open: VecDeque<Given>,
    last: u64,
}

/// A message to a team.
#[derive(Debug)]
struct Given {
    number: u64,
    team: String,
    became: Rc<RefCell<Became>>,
    /// The answer that was shown for another message of its turn.
    told: Option<String>,
}

/// What is known of a message that was accepted.
#[derive(Debug, Default)]
struct Became {
    task: Option<String>,
    /// It joined a turn that was running already, and has its answer.
    joined: bool,
}

impl Errands {
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// The tasks that the messages became.
    pub(super) fn tasks(&self) -> Vec<String> {
        self.open.iter().filter_map(|given| given.became.borrow().task.clone()).collect()
    }

    pub(super) fn give(&mut self, team: String, content: String, context: &Context) {
        self.last += 1;
        let number = self.last;
        let became = Rc::new(RefCell::new(Became::default()));
        let known = became.clone();
        self.open.push_back(Given { number, team: team.clone(), became, told: None });
        let context = context.clone();
        self.running.push(Box::pin(async move {
            let seen = |row: &MessageRow| {
                let mut became = known.borrow_mut();
                became.task = row.task_id.as_ref().map(ToString::to_string);
                became.joined |= row.placement == Some(MessagePlacement::CurrentTurn);
            };
            let asked = errand::ask(&team, &content, Vec::new(), seen, &context).await;
            (number, asked.map(|(_, reply)| reply))
        }));
    }

    /// The next answer and whose it is; no answer if it was shown already. None is the end. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<(String, Option<Result<MessageReply, Failure>>)> {
        let (number, answer) = self.running.next().await?;
        let place = self.open.iter().position(|given| given.number == number)?;
        let given = self.open.remove(place)?;
        if let Ok(MessageReply { text, status: Ending::Done, .. }) = &answer {
            if given.told.as_ref() == Some(text) {
                return Some((given.team, None));
            }
            self.tell(&given, text);
        }
        Some((given.team, Some(answer)))
    }

    /// An answer is shown. Messages of one turn have the same, and end in any order: those that joined it, and the
    /// first one, which began it.
    fn tell(&mut self, given: &Given, text: &str) {
        let joined = |given: &Given| given.became.borrow().joined;
        let mut begins = joined(given);
        for other in self.open.iter_mut().filter(|other| other.team == given.team) {
            if joined(other) || std::mem::take(&mut begins) {
                other.told.get_or_insert_with(|| text.to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(text: &str) -> Result<MessageReply, Failure> {
        Ok(MessageReply { text: text.to_owned(), status: Ending::Done, code: None })
    }

    /// Messages to a team, of which some joined a turn, and their answers in the order in which they end.
    async fn shown(joined: &[bool], answers: &[(u64, &str)]) -> Vec<String> {
        let mut errands = Errands::default();
        for (number, &joined) in (0..).zip(joined) {
            let became = Rc::new(RefCell::new(Became { task: None, joined }));
            let team = "research".to_owned();
            errands.open.push_back(Given { number, team, became, told: None });
        }
        let mut shown = Vec::new();
        for &(number, text) in answers {
            errands.running.push(Box::pin(std::future::ready((number, reply(text)))));
            let (_, answer) = errands.next().await.unwrap();
            shown.extend(answer.map(|answer| answer.unwrap().text));
        }
        shown
    }

    #[tokio::test]
    async fn the_answer_of_a_turn_is_shown_once_however_many_messages_joined_it() {
        let joined = [false, true, true];

        assert_eq!(shown(&joined, &[(0, "a"), (2, "a"), (1, "a")]).await, ["a"]);
        assert_eq!(shown(&joined, &[(1, "a"), (0, "a"), (2, "a")]).await, ["a"]);
        // A turn that somebody else began, and one that was cut off: each has words of its own.
        assert_eq!(shown(&joined, &[(1, "b"), (0, "a"), (2, "b")]).await, ["b", "a"]);
        // Two that wait for one another say the same by chance.
        assert_eq!(shown(&[false, false], &[(0, "a"), (1, "a")]).await, ["a", "a"]);
    }
}
