//! What the scheduler needs from outside, simple enough to reckon with.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::{
    clock::Timestamp,
    ids::{TaskId, TeamKey},
    org::roster::{Availability, Roster},
    retention::terms::{Cut, Keeping, Lot, Terms},
    scheduler::{
        Ports,
        firing::{Findings, Preconditions},
        index::Board,
        ports::{Calendar, Expressions, Language, Matcher},
        trigger::Trigger,
    },
    store::{
        keys::prefix_of,
        reads::Range,
        records::{Record, decode},
    },
    task::records::LaneKey,
};

const MINUTE: u64 = 60_000;

/// A calendar in which every hour is the same: patterns are a minute, `a-b`, `*/n` or `*`.
pub(crate) struct Hours;

/// Expressions that look for a word; `(` is none.
struct Words;

struct Word(String);

/// Teams that do not work.
#[derive(Clone, Default)]
pub(crate) struct Availabilities(pub(crate) Arc<Mutex<HashMap<TeamKey, Availability>>>);

/// What is found about triggers by name, and how long that takes.
#[derive(Clone, Default)]
pub(crate) struct Finds(pub(crate) Arc<Mutex<HashMap<String, (Duration, Findings)>>>);

/// Edges that keep records `fleeting`, all too old, and records `chain` that name tasks.
#[derive(Clone)]
pub(crate) struct Keeps {
    pub(crate) terms: Arc<Mutex<Result<Terms, String>>>,
    /// Up to when the trash was emptied.
    pub(crate) emptied: Arc<Mutex<Vec<Timestamp>>>,
    /// The sessions whose transcripts are there.
    pub(crate) transcripts: Arc<Mutex<Vec<String>>>,
    /// Why none of them can be removed.
    pub(crate) stuck: Arc<Mutex<Option<String>>>,
}

impl Default for Keeps {
    fn default() -> Self {
        Self {
            terms: Arc::new(Mutex::new(Ok(Terms::default()))),
            emptied: Arc::default(),
            transcripts: Arc::default(),
            stuck: Arc::default(),
        }
    }
}

impl Keeping for Keeps {
    fn terms(&self) -> Result<Terms, String> {
        self.terms.lock().unwrap().clone()
    }

    fn lots(&self, _: Cut) -> Vec<Lot> {
        vec![Lot::all(Range::<Fleeting>::all())]
    }

    fn chains(&self) -> Vec<u8> {
        prefix_of(Chain::KIND, &())
    }

    fn told_by(&self, key: &[u8], value: &[u8]) -> Option<TaskId> {
        decode(key, value).ok().map(|Chain(task)| task)
    }

    fn empty_trash(&self, before: Timestamp) {
        self.emptied.lock().unwrap().push(before);
    }

    fn remove_transcript(&self, session: &LaneKey) -> Result<(), String> {
        self.stuck.lock().unwrap().clone().map_or(Ok(()), Err)?;
        self.transcripts.lock().unwrap().retain(|it| *it != session.session_id());
        Ok(())
    }
}

/// A record of the edges that is not kept.
#[derive(Deserialize, Serialize)]
#[serde(transparent)]
pub(crate) struct Fleeting(pub(crate) u32);

impl Record for Fleeting {
    const KIND: &'static str = "edge\0fleeting";
    type Key = String;
}

/// A record of the edges that tells of a task.
#[derive(Deserialize, Serialize)]
#[serde(transparent)]
pub(crate) struct Chain(pub(crate) TaskId);

impl Record for Chain {
    const KIND: &'static str = "edge\0chain";
    type Key = String;
}

/// All of them.
#[derive(Clone, Default)]
pub(crate) struct Outside {
    pub(crate) keeps: Keeps,
    pub(crate) availabilities: Availabilities,
    pub(crate) finds: Finds,
}

impl Outside {
    pub(crate) fn ports(&self) -> Ports {
        Ports {
            board: Board::default(),
            calendar: Arc::new(Hours),
            expressions: Arc::new(Words),
            roster: Arc::new(self.availabilities.clone()),
            preconditions: Arc::new(self.finds.clone()),
            timezone: "UTC".to_owned(),
        }
    }
}

impl Roster for Availabilities {
    fn availability(&self, team: &TeamKey) -> Availability {
        let availabilities = self.0.lock().unwrap();
        availabilities.get(team).copied().unwrap_or(Availability::Active)
    }
}

impl Preconditions for Finds {
    fn look(&self, trigger: &Trigger) -> Option<BoxFuture<'static, Findings>> {
        let finds = self.0.lock().unwrap();
        let (pause, found) = finds.get(&trigger.definition.name)?.clone();
        Some(Box::pin(async move {
            tokio::time::sleep(pause).await;
            found
        }))
    }
}

impl Expressions for Words {
    fn read(
        &self,
        _: Language,
        pattern: &str,
        _: Option<&str>,
    ) -> Result<Arc<dyn Matcher>, String> {
        match pattern {
            "(" => Err("is no expression".to_owned()),
            word => Ok(Arc::new(Word(word.to_lowercase()))),
        }
    }
}

impl Matcher for Word {
    fn find(&self, text: &str) -> Option<Vec<(String, String)>> {
        text.to_lowercase().contains(&self.0).then(Vec::new)
    }
}

fn fits(pattern: &str, minute: u64) -> bool {
    let minute = minute % 60;
    match (pattern.strip_prefix("*/"), pattern.split_once('-')) {
        (Some(step), _) => minute.is_multiple_of(step.parse::<u64>().unwrap_or(1)),
        (_, Some((from, to))) => {
            let bound = |text: &str| text.parse::<u64>().unwrap_or_default();
            (bound(from)..=bound(to)).contains(&minute)
        }
        _ if pattern == "*" => true,
        _ => pattern.parse() == Ok(minute),
    }
}

impl Calendar for Hours {
    fn check_cron(&self, pattern: &str, _: Timestamp) -> Result<(), String> {
        if (0..60).any(|minute| fits(pattern, minute)) {
            Ok(())
        } else {
            Err(format!("\"{pattern}\" is not 0-59"))
        }
    }

    fn check_zone(&self, zone: &str) -> Result<(), String> {
        match zone {
            "UTC" => Ok(()),
            _ => Err(format!("there is no time zone `{zone}`")),
        }
    }

    fn next(&self, pattern: &str, zone: &str, after: Timestamp) -> Option<Timestamp> {
        let ahead = if zone == "half an hour ahead" { 30 } else { 0 };
        let first = after.0 / MINUTE + 1;
        (first..first + 60)
            .find(|minute| fits(pattern, *minute + ahead))
            .map(|minute| Timestamp(minute * MINUTE))
    }

    fn matches(&self, pattern: &str, _: &str, at: Timestamp) -> bool {
        fits(pattern, at.0 / MINUTE)
    }

    fn moment(&self, text: &str, _: &str) -> Result<Timestamp, String> {
        text.parse().map(Timestamp).map_err(|_| "no time".to_owned())
    }

    fn minute_of_day(&self, _: &str, at: Timestamp) -> u32 {
        u32::try_from(at.0 / MINUTE % (24 * 60)).unwrap_or_default()
    }

    fn next_minute_of_day(&self, minute: u32, _: &str, after: Timestamp) -> Option<Timestamp> {
        let day = 24 * 60 * MINUTE;
        let today = after.0 / day * day + u64::from(minute) * MINUTE;
        Some(Timestamp(if today > after.0 { today } else { today + day }))
    }

    fn show(&self, _: &str, at: Timestamp) -> String {
        format!("{}:{:02}", at.0 / MINUTE / 60, at.0 / MINUTE % 60)
    }
}
