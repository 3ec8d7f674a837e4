//! Instructions as files: the rules, skills and subagents in the folder of a team, for whoever edits them.

use std::{fs, io, path::Path};

use hivewright_actors::ids::TeamName;
use rustix::fs::{CWD, renameat};

use super::{
    folder::{Folder, Links, Place, Text},
    rules::Rule,
    skills::{SKILL_FILE, Skill},
    subagents::Subagent,
};
use crate::{
    api::instructions::{InstructionKind, InstructionRow},
    settings::{
        home::Home,
        problem::{Problem, Problems},
    },
    taint::Taint,
    teams::self_changes::LARGEST,
    time,
};

const LONGEST_NAME: usize = 100;

/// One of them, whether or not it is there.
#[derive(Clone, Debug)]
pub struct Instruction {
    pub team: TeamName,
    pub kind: InstructionKind,
    name: String,
}

impl Instruction {
    /// None if the name could lead elsewhere.
    pub fn new(team: TeamName, kind: InstructionKind, name: &str) -> Option<Self> {
        let is_plain = (1..=LONGEST_NAME).contains(&name.len())
            && !name.starts_with('.')
            && !name.contains(|one: char| one == '/' || one.is_control());
        is_plain.then(|| Self { team, kind, name: name.to_owned() })
    }

    /// Its file, from the folder of the team. A skill has a folder of its own, unless it has been a single file. Blocks.
    pub fn file(&self, home: &Home) -> String {
        let Self { kind, name, .. } = self;
        let single = format!("{kind}/{name}.md");
        let folder = format!("{kind}/{name}");
        let team = home.team(self.team.as_str());
        let has = |inside: &str| fs::symlink_metadata(team.join(inside)).is_ok();
        match kind {
            InstructionKind::Skills if has(&folder) || !has(&single) => {
                format!("{folder}/{SKILL_FILE}")
            }
            _ => single,
        }
    }

    /// Moves it to the trash, with all that is in its folder. Blocks.
    pub fn discard(&self, home: &Home, taint: &Taint) -> io::Result<()> {
        let Self { team, kind, name } = self;
        let file = self.file(home);
        let entry = file.split('/').nth(1).unwrap_or_default();
        let folder = open(home, team, *kind, taint)?;
        let buried = format!("{team}-{kind}-{name}-{}", time::compact_now());
        Ok(renameat(&folder.handle, entry, CWD, home.trash().join(buried))?)
    }
}

/// What is wrong with such a text, or else what it is for.
pub fn check(kind: InstructionKind, file: &str, text: &str) -> Result<String, Problems> {
    let place = Place { name: file.split_once('/').map_or(file, |(_, name)| name), file };
    match kind {
        InstructionKind::OrgRules | InstructionKind::TeamRules => {
            read::<Rule>(&place, text).map(|rule| rule.title().to_owned())
        }
        InstructionKind::Skills => read::<Skill>(&place, text).map(|skill| skill.description),
        InstructionKind::Subagents => {
            read::<Subagent>(&place, text).map(|subagent| subagent.description)
        }
    }
}

fn read<T: Text>(place: &Place<'_>, text: &str) -> Result<T, Problems> {
    let largest = T::LIMITS.file.min(LARGEST);
    if text.len() as u64 > largest {
        return Err(place.problem("", format!("is larger than {} KiB", largest / 1024)));
    }
    T::parse(place, text)
}

/// All that are in the folder of a team. Blocks.
pub fn list(home: &Home, team: &TeamName, taint: &Taint) -> Vec<InstructionRow> {
    let kinds = InstructionKind::ALL.iter();
    kinds.flat_map(|kind| of_kind(home, team, *kind, taint).unwrap_or_default()).collect()
}

fn open<'a>(
    home: &Home,
    team: &TeamName,
    kind: InstructionKind,
    taint: &'a Taint,
) -> io::Result<Folder<'a>> {
    Ok(Folder::open(&home.team(team.as_str()), kind.as_str(), Links::Refused, taint)?)
}

fn of_kind(
    home: &Home,
    team: &TeamName,
    kind: InstructionKind,
    taint: &Taint,
) -> io::Result<Vec<InstructionRow>> {
    let folder = open(home, team, kind, taint)?;
    let inside = (kind == InstructionKind::Skills).then_some(SKILL_FILE);
    let rows = folder.names(inside)?.into_iter().filter_map(|inner| {
        let file = format!("{kind}/{inner}");
        let found = match folder.read_file(&inner, Skill::LIMITS.file) {
            Ok((_, text)) => check(kind, &file, &text),
            // A folder without a skill in it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => Err(Problem::of_file(Path::new(&file), error.to_string()).into()),
        };
        let (description, problems) = match found {
            Ok(description) => (description, Problems::default()),
            Err(problems) => (String::new(), problems),
        };
        let name = inner.split_once('/').map_or(inner.trim_end_matches(".md"), |(name, _)| name);
        Some(InstructionRow {
            kind,
            name: name.to_owned(),
            file,
            description,
            problems: problems.0,
        })
    });
    Ok(rows.collect())
}
