//! Runaway guard: how much work one first task has led to, and whether it goes round in circles.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::{
    ids::{TaskId, TeamName},
    store::records::digest,
    task::{Lineage, Task},
};

/// A task may be this far from the first.
const MAX_HOPS: usize = 16;
/// A task may have this many unfinished tasks below it.
const MAX_UNFINISHED: usize = 20;
/// A step of a turn may make this many.
const MAX_PER_STEP: u32 = 10;
/// One cause may lead to this many in all.
const MAX_IN_ALL: u32 = 200;
/// The same words may go from one team to another this often.
const MAX_SAME_WORDS: u32 = 2;
/// Work may go to and fro between two teams this often.
const MAX_ROUND_TRIPS: u32 = 3;

/// Who makes a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Giver {
    /// The task whose turn makes it.
    pub task: TaskId,
    pub step: u32,
    /// What is asked, in the words of whoever asks: without what each task gets anew, such as an id.
    pub words: String,
}

/// Why one cause may not lead to more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Runaway {
    /// Too far from the first task.
    #[error("this work is {0} tasks away from its first cause; at most {MAX_HOPS} are allowed")]
    Hops(usize),
    /// Too much at once, or in all.
    #[error("{0}")]
    Fanout(String),
    /// Round in circles.
    #[error("{0}")]
    Loop(String),
}

impl Runaway {
    /// As answers name it.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Hops(_) => "hop_limit",
            Self::Fanout(_) => "fanout_limit",
            Self::Loop(_) => "loop_detected",
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Causes {
    causes: HashMap<TaskId, Cause>,
    /// How many tasks the present step of a turn has made.
    steps: HashMap<TaskId, (u32, u32)>,
}

#[derive(Debug, Default)]
struct Cause {
    counts: Counts,
    open: HashSet<TaskId>,
    /// Unfinished tasks by the task that made them.
    below: HashMap<TaskId, usize>,
}

/// What is stored of a cause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Tasks that it led to.
    made: u32,
    /// How often the same words went from one team to another.
    words: BTreeMap<String, u32>,
    /// How often work went to and fro between two teams.
    trips: BTreeMap<String, u32>,
}

crate::records! {
    /// By the first task of all.
    Counts: "cause", TaskId;
}

impl Causes {
    /// What a former process left of the causes of these open tasks.
    pub(super) fn recover(
        &mut self,
        rows: Vec<(TaskId, Counts)>,
        open: &[Box<Task>],
    ) -> Vec<TaskId> {
        for (root, counts) in rows {
            let cause = Cause { counts, ..Cause::default() };
            self.causes.insert(root, cause);
        }
        for task in open {
            self.opened(task);
        }
        let over = self.causes.extract_if(|_, cause| cause.open.is_empty());
        over.map(|(root, _)| root).collect()
    }

    /// Counts a task that a turn makes, or says why it may not. The counts are to be stored with it.
    pub(super) fn admit(&mut self, task: &Task, giver: &Giver) -> Result<Counts, Runaway> {
        let Some(line) = &task.lineage else { return Ok(Counts::default()) };
        if line.hops() > MAX_HOPS {
            return Err(Runaway::Hops(line.hops()));
        }
        let cause = self.causes.entry(line.root.clone()).or_default();
        if cause.counts.made >= MAX_IN_ALL {
            return Err(Runaway::Fanout(format!(
                "one cause has led to {MAX_IN_ALL} tasks, and may not lead to more"
            )));
        }
        if cause.below.get(&giver.task).copied().unwrap_or_default() >= MAX_UNFINISHED {
            return Err(Runaway::Fanout(format!(
                "this task has {MAX_UNFINISHED} unfinished tasks; wait for some of them"
            )));
        }
        let step = self.steps.entry(giver.task.clone()).or_default();
        if step.0 != giver.step {
            *step = (giver.step, 0);
        }
        if step.1 >= MAX_PER_STEP {
            return Err(Runaway::Fanout(format!(
                "one step may make {MAX_PER_STEP} tasks; make the others in the next"
            )));
        }
        let counts = cause.counts.with(task, line, &giver.words)?;
        step.1 += 1;
        cause.counts = counts.clone();
        Ok(counts)
    }

    /// A task has led to others: its cause is not over before it has ended.
    pub(super) fn led_to_more(&mut self, task: &Task) {
        self.causes.entry(task.root().clone()).or_default();
        self.opened(task);
    }

    pub(super) fn opened(&mut self, task: &Task) {
        // Most messages lead to nothing: a cause begins with the first task it led to.
        let Some(cause) = self.causes.get_mut(task.root()) else {
            if let Some(line) = &task.lineage {
                self.causes.insert(line.root.clone(), Cause::default());
                self.opened(task);
            }
            return;
        };
        if cause.open.insert(task.id.clone())
            && let Some(parent) = task.lineage.as_ref().and_then(Lineage::parent)
        {
            *cause.below.entry(parent.clone()).or_default() += 1;
        }
    }

    /// A task has ended. Returns the cause if that was the last of it, and whether it had a row.
    pub(super) fn ended(&mut self, task: &Task) -> Option<(TaskId, bool)> {
        self.steps.remove(&task.id);
        let root = task.root();
        let Some(cause) = self.causes.get_mut(root) else { return Some((root.clone(), false)) };
        if cause.open.remove(&task.id)
            && let Some(parent) = task.lineage.as_ref().and_then(Lineage::parent)
            && let Some(below) = cause.below.get_mut(parent)
        {
            *below -= 1;
        }
        if !cause.open.is_empty() {
            return None;
        }
        self.causes.remove(root);
        Some((root.clone(), true))
    }
}

impl Counts {
    fn with(&self, task: &Task, line: &Lineage, words: &str) -> Result<Self, Runaway> {
        let mut counts = self.clone();
        counts.made += 1;
        let to = &task.lane.team;
        let Some(from) = line.path.last().map(|above| &above.team) else { return Ok(counts) };
        let said = format!("{from}>{to}:{:016x}", digest(&plain(words)));
        let said = counts.words.entry(said).or_default();
        if *said >= MAX_SAME_WORDS {
            return Err(Runaway::Loop(format!(
                "{from} has given {to} the same words {MAX_SAME_WORDS} times: {}",
                chain(line, to)
            )));
        }
        *said += 1;
        if came_from(line, from, to) {
            let (one, other) = if from < to { (from, to) } else { (to, from) };
            let trips = counts.trips.entry(format!("{one}<>{other}")).or_default();
            if *trips >= MAX_ROUND_TRIPS {
                return Err(Runaway::Loop(format!(
                    "work has gone to and fro between {one} and {other} {MAX_ROUND_TRIPS} times: {}",
                    chain(line, to)
                )));
            }
            *trips += 1;
        }
        Ok(counts)
    }
}

/// The team that gives work to `to` works on something that `to` gave it.
fn came_from(line: &Lineage, from: &TeamName, to: &TeamName) -> bool {
    let mut above = line.path.iter().rev();
    above.next().is_some_and(|last| last.team == *from)
        && above.next().is_some_and(|before| before.team == *to)
}

fn chain(line: &Lineage, to: &TeamName) -> String {
    let mut names: Vec<&str> = line.path.iter().map(|above| above.team.as_str()).collect();
    names.push(to.as_str());
    names.join(" → ")
}

/// Words without case and white space.
fn plain(text: &str) -> String {
    text.split_whitespace().flat_map(|word| word.chars().flat_map(char::to_lowercase)).collect()
}

#[cfg(test)]
mod tests;
