//! Titles of topics: after an answer a model is asked for one. Until then, and if that fails, the first words are the name.

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};
use serde_json::Value;

use super::{
    Router,
    managing::{ChangeTopic, TopicPatch},
};
use crate::{
    classifier::Purpose,
    excerpt,
    ids::ChannelId,
    task::{Kind, Task, records as tasks},
};

/// As much of message and answer as it takes to see what they are about, in characters.
const MAX_QUOTED_CHARACTERS: usize = 1_000;

impl Router {
    /// A message was answered: its topic may want a title. Nobody waits for it.
    pub(super) fn seek_title(&mut self, channel: &ChannelId, task: &Task, ctx: &mut Context<Self>) {
        let Some(id) = task.lane.topic.clone().filter(|_| task.kind == Kind::Chat) else { return };
        let conversation = self.conversations.get(channel);
        let topic = conversation.and_then(|found| found.topics.get(id.as_str()));
        let is_wanted = topic.is_some_and(|topic| topic.untitled && !topic.closed);
        let is_wanted = is_wanted && self.to.classifier.may_know(Purpose::Titles);
        if !self.settings.titles || !is_wanted || !self.untitled.insert(id.clone()) {
            return;
        }
        let (classifier, of) = (self.to.classifier.clone(), task.id.clone());
        let read = self.to.store.read(move |storage| tasks::find(storage, &of));
        // On a task of its own: a panic in there costs a title, not the router.
        let asked = crate::spawn::local(async move {
            let task = read.await.ok().flatten()?;
            classifier.ask(Purpose::Titles, question(&task)).await
        });
        let channel = channel.clone();
        ctx.spawn(asked.into_actor(self).map(move |answer, router, ctx| {
            router.untitled.remove(&id);
            // Without one the next answer in the topic asks again.
            if let Some(answer) = answer.ok().flatten() {
                let title = Some(parse_title(&answer).unwrap_or_default());
                let change = TopicPatch { title, ..TopicPatch::default() };
                ctx.notify(ChangeTopic { channel, topic: id, change });
            }
        }));
    }
}

/// The question for the model. What was said is quoted: it is data.
fn question(task: &Task) -> String {
    let answer = task.outcome.as_ref().map_or("", |outcome| outcome.text.as_str());
    let quoted = |text: &str| Value::from(excerpt::line(text, MAX_QUOTED_CHARACTERS)).to_string();
    format!(
        "What is this conversation about? Answer with JSON only: {{\"title\":\"<2 to 6 words in the language of the \
         message>\"}}.\n\nMessage:\n{}\n\nAnswer:\n{}",
        quoted(&task.body),
        quoted(answer)
    )
}

fn parse_title(answer: &str) -> Option<String> {
    // Whatever stands around the object, fences most of all, is not part of it.
    let object = answer.get(answer.find('{')?..=answer.rfind('}')?)?;
    let answer: Value = serde_json::from_str(object).ok()?;
    answer.get("title")?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_read_from_an_object_and_nothing_else() {
        assert_eq!(parse_title("```json\n{\"title\": \"Bees\"}\n```").as_deref(), Some("Bees"));
        for answer in ["", "Bees", "{}", "}{", r#"{"title":7}"#, r#"{"title":"Bees""#] {
            assert_eq!(parse_title(answer), None, "{answer}");
        }
    }
}
