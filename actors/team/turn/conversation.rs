//! Conversation of a turn: what the model is shown of it, and what is left out so that it fits.

use std::sync::Arc;

use crate::{
    engine::{FixedMessages, Message, ToolOutput},
    history::{SUMMARY, summary_of_steps},
    journal::thread::Earlier,
    shared_list::SharedList,
    usage::Usage,
};

/// A token is about this many characters.
const CHARACTERS_PER_TOKEN: usize = 4;
/// Room that is left beside earlier turns for what a turn brings, in tokens.
const SPARE_TOKENS: u64 = 1_000;
/// Results among this many last messages are never shortened.
const MIN_UNSHORTENED: usize = 5;
/// This many last messages are never summarised.
pub(in crate::team) const KEPT: usize = 16;
/// Old results longer than this are shortened first.
pub(super) const LONG: usize = 2_000;
/// The same where a summary cannot be had, or does not help.
pub(super) const LONG_AT_LAST: usize = 500;

/// What the model is shown of a turn and of those before it, and how large that is.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    /// It stays as it is while the turn runs, unless it is made smaller.
    earlier: Earlier,
    messages: Arc<Vec<Message>>,
    marks: Vec<Mark>,
    /// Of all messages, with system prompt and tools.
    characters: usize,
    /// How many tokens so many of these characters are.
    counted: Option<(u64, usize)>,
    /// The most tokens that fit.
    room: u64,
    /// It could not be made small enough: not tried again before it is this large.
    again_at: u64,
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    /// The step after which, or in which, the message came.
    step: u32,
    characters: usize,
}

impl Conversation {
    /// A conversation that begins with a task, for a model that has so much room. The system prompt and
    /// the tools have so many characters.
    pub(super) fn new(task: String, room: u64, overhead: usize) -> Self {
        let mut conversation = Self { characters: overhead, room, ..Self::default() };
        conversation.push(Message::User(task), 0);
        conversation
    }

    /// The same behind earlier turns.
    pub(super) fn behind(self, earlier: Earlier) -> Self {
        Self { characters: self.characters + earlier.characters(), earlier, ..self }
    }

    pub(super) fn earlier(&self) -> SharedList<Arc<FixedMessages>> {
        self.earlier.parts()
    }

    pub(super) fn messages(&self) -> Arc<Vec<Message>> {
        self.messages.clone()
    }

    pub(super) fn last(&self) -> Option<&Message> {
        self.messages.last()
    }

    /// Adds what was said after, or in, a step.
    pub(super) fn push(&mut self, message: Message, step: u32) {
        let characters = message.characters();
        self.characters += characters;
        self.marks.push(Mark { step, characters });
        Arc::make_mut(&mut self.messages).push(message);
    }

    /// Puts what happened before in front of the task.
    pub(super) fn show(&mut self, before: &str) {
        if let (Some(Message::User(text)), Some(mark)) =
            (Arc::make_mut(&mut self.messages).first_mut(), self.marks.first_mut())
        {
            text.insert_str(0, before);
            let added = before.chars().count();
            mark.characters += added;
            self.characters += added;
        }
    }

    /// The provider has counted: all that there is now. One that counts nothing says nothing.
    pub(super) fn count(&mut self, usage: &Usage) {
        let tokens = usage.tokens();
        if tokens > 0 {
            self.counted = Some((tokens, self.characters));
        }
    }

    /// How many tokens the next call reads: as many as were counted, and an estimate of the rest.
    pub(super) fn size(&self) -> u64 {
        let (tokens, of) = self.counted.unwrap_or_default();
        tokens.saturating_add((self.characters.saturating_sub(of) / CHARACTERS_PER_TOKEN) as u64)
    }

    /// How many of them are instructions and tools, which every conversation of the team has.
    pub(super) fn overhead(&self) -> u64 {
        let of_messages: usize = self.marks.iter().map(|mark| mark.characters).sum();
        let said = of_messages + self.earlier.characters();
        let overhead = self.characters.saturating_sub(said);
        share(self.size(), overhead, self.characters)
    }

    /// It is to be made smaller before the next call.
    pub(super) fn is_large(&self) -> bool {
        self.size() > self.limit().max(self.again_at.min(self.room))
    }

    /// It is larger than it should become.
    pub(super) fn is_above_limit(&self) -> bool {
        self.size() > self.limit()
    }

    /// The model can read it.
    pub(super) fn fits(&self) -> bool {
        self.size() <= self.room
    }

    fn limit(&self) -> u64 {
        limit(self.room)
    }

    /// The most bytes of a request to summarise a part of it.
    pub(super) fn most_of_summary(&self) -> usize {
        most_of_summary(self.room)
    }

    /// The provider says that it does not fit, whatever was counted here.
    pub(super) fn overflowed(&mut self) {
        let size = self.size().max(self.room.saturating_add(1));
        self.counted = Some((size, self.characters));
    }

    /// Puts sizes in place of results that are longer than this and of their pictures, but for the last messages.
    /// Returns whether there were any.
    pub(super) fn shorten(&mut self, over: usize) -> bool {
        let old = self.messages.len().saturating_sub(MIN_UNSHORTENED);
        let is_long = |output: &ToolOutput| shortened(output, over).is_some();
        let has_long = |message: &Message| match message {
            Message::ToolResults(results) => results.iter().any(is_long),
            _ => false,
        };
        if !self.messages[..old].iter().any(has_long) {
            return false;
        }
        self.shrink(|messages, marks| {
            for (message, mark) in messages[..old].iter_mut().zip(marks) {
                let Message::ToolResults(results) = message else { continue };
                for output in results {
                    if let Some(shorter) = shortened(output, over) {
                        *output = shorter;
                    }
                }
                mark.characters = message.characters();
            }
        });
        true
    }

    /// The step from which on all is kept, if something before it can be summarised: the task and the
    /// last messages are kept, and a call with its result.
    pub(super) fn cut(&self) -> Option<u32> {
        let mut cut = self.messages.len().checked_sub(KEPT)?;
        while !matches!(self.messages.get(cut)?, Message::Assistant(_)) {
            cut = cut.checked_sub(1)?;
        }
        let step = self.marks.get(cut)?.step;
        let told = self.messages[1..cut].iter();
        let is_summary =
            |message: &Message| matches!(message, Message::User(text) if text.starts_with(SUMMARY));
        // A summary of a summary tells nothing.
        told.clone().any(|message| !is_summary(message)).then_some(step)
    }

    /// What comes before a step, without the task.
    pub(super) fn before(&self, step: u32) -> &[Message] {
        let end = self.marks.iter().skip(1).take_while(|mark| mark.step < step);
        &self.messages[1..1 + end.count()]
    }

    /// A summary is shorter than what comes before a step.
    pub(super) fn is_shorter(&self, summary: &str, step: u32) -> bool {
        let told = self.before(step).iter().map(Message::characters);
        summary_of_steps(summary).chars().count() < told.sum()
    }

    /// Puts a summary in place of what comes before a step.
    pub(super) fn summarise(&mut self, step: u32, summary: &str) {
        let gone = 1..1 + self.before(step).len();
        let summary = Message::User(summary_of_steps(summary));
        let mark = Mark { step: 0, characters: summary.characters() };
        self.shrink(|messages, marks| {
            messages.splice(gone.clone(), [summary]);
            marks.splice(gone, [mark]);
        });
    }

    /// The most characters that earlier turns may have: half of the room, and what the rest leaves of the limit.
    fn most_earlier(&self) -> usize {
        let rest = (self.characters - self.earlier.characters()) / CHARACTERS_PER_TOKEN;
        let left = self.limit().saturating_sub(rest as u64 + SPARE_TOKENS);
        characters(left.min(self.room / 2))
    }

    /// Earlier turns take more than their share.
    pub(super) fn has_much_before(&self) -> bool {
        self.earlier.characters() > self.most_earlier()
    }

    /// Where all is kept from on, if some earlier turns can be left out: half of their share stays. None of them
    /// does where all is too large as it is.
    pub(super) fn cut_earlier(&self) -> Option<u64> {
        let cut = self.earlier.cut(self.most_earlier() / 2);
        cut.or_else(|| self.earlier.cut(0).filter(|_| self.is_above_limit()))
    }

    /// The messages of earlier turns that come before an event.
    pub(super) fn earlier_before(&self, seq: u64) -> Vec<Message> {
        self.earlier.before(seq)
    }

    /// Leaves out earlier turns before an event. A summary stands for them, if there is one.
    pub(super) fn leave_out(&mut self, seq: u64, summary: Option<&str>) {
        let (size, before) = (self.size(), self.characters);
        let own = before - self.earlier.characters();
        self.earlier.keep_from(seq, summary);
        self.characters = own + self.earlier.characters();
        self.rescale(size, before);
    }

    /// What has been left out is settled: it is this large now.
    pub(super) fn settle(&mut self, tokens: u64) {
        self.counted = Some((tokens, self.characters));
        self.again_at = 0;
        if self.is_above_limit() {
            self.leave();
        }
    }

    /// It cannot be made smaller now: that is tried again when it has grown.
    pub(super) fn leave(&mut self) {
        self.again_at = self.size().saturating_add(self.room / 10);
    }

    /// It may be made smaller at once.
    pub(super) fn retry(&mut self) {
        self.again_at = 0;
    }

    /// Leaves something out. What remains is as many tokens a character as all was.
    fn shrink(&mut self, change: impl FnOnce(&mut Vec<Message>, &mut Vec<Mark>)) {
        let (size, before) = (self.size(), self.characters);
        let of_messages = |marks: &[Mark]| marks.iter().map(|mark| mark.characters).sum::<usize>();
        let overhead = before - of_messages(&self.marks);
        change(Arc::make_mut(&mut self.messages), &mut self.marks);
        self.characters = overhead + of_messages(&self.marks);
        self.rescale(size, before);
    }

    /// So many characters were of this size: those that remain have their share of it.
    fn rescale(&mut self, size: u64, before: usize) {
        self.counted = Some((share(size, self.characters, before), self.characters));
    }
}

/// What some of so many characters have of a size.
fn share(size: u64, some: usize, all: usize) -> u64 {
    let share = u128::from(size) * some as u128 / all.max(1) as u128;
    u64::try_from(share).unwrap_or(u64::MAX)
}

/// Four fifths of what fits.
fn limit(room: u64) -> u64 {
    room.saturating_mul(4) / 5
}

/// The most bytes of a request for a summary, where so many tokens fit.
pub(in crate::team) fn most_of_summary(room: u64) -> usize {
    characters(limit(room))
}

/// The most characters of a conversation that are read back, where so many tokens fit.
pub(in crate::team) fn most_of_thread(room: u64) -> usize {
    characters(room)
}

fn characters(tokens: u64) -> usize {
    usize::try_from(tokens).unwrap_or(usize::MAX).saturating_mul(CHARACTERS_PER_TOKEN)
}

/// What stands for a result that is too long or has pictures, if that is shorter.
fn shortened(output: &ToolOutput, over: usize) -> Option<ToolOutput> {
    // Bytes are no fewer than characters.
    let is_long = output.content.len() > over && output.content.chars().count() > over;
    let has_pictures = !output.pictures.is_empty();
    if !is_long && !has_pictures {
        return None;
    }
    let mut shorter = output.clone();
    if is_long {
        let characters = output.content.chars().count();
        shorter.content = format!(
            "[{characters} characters left out to save room; result of call {}. Call the tool again if \
             they are needed.]",
            output.id
        );
    }
    if has_pictures {
        shorter.content.push_str("\n[Its pictures are left out to save room.]");
        shorter.pictures.clear();
    }
    Some(shorter)
}

/// About how many tokens so many characters are.
pub(in crate::team) fn tokens(characters: usize) -> u64 {
    (characters / CHARACTERS_PER_TOKEN) as u64
}

#[cfg(test)]
mod tests;
