//! The skills and subagents of a team, as their files are now.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use dashmap::DashMap;
use hivewright_actors::ids::TeamName;
use parking_lot::Mutex;

use super::{
    folder::{self, Files, Found, Links, Place, Text},
    skills::{SHIPPED, Skill, body},
    subagents::Subagent,
};
use crate::{
    api::teams::{OPERATOR, PROGRAM},
    settings::{folder_access::Access, home::Home, team::AllowedDir},
    taint::Taint,
};

/// The folder of skills, in a workspace and in the data dir.
const SKILLS: &str = "skills";
/// The folder of subagents in a workspace.
const SUBAGENTS: &str = "subagents";
/// So many texts of skills are kept. More are read again.
const KEPT: usize = 64;

/// Reads skills and subagents, and keeps what it read. All calls may block.
#[derive(Debug)]
pub(super) struct Shelf {
    home: Home,
    shipped: Vec<Arc<Skill>>,
    skills: Files<Skill>,
    subagents: Files<Subagent>,
    /// The same library as long as nothing changes.
    libraries: DashMap<TeamName, Arc<Library>>,
    bodies: Arc<Mutex<Bodies>>,
    taint: Taint,
}

/// The texts of skills in use, by file, with what they were read as.
type Bodies = HashMap<PathBuf, (Arc<Skill>, Arc<str>)>;

impl Shelf {
    pub(super) fn new(home: Home, taint: Taint) -> Self {
        let shipped = SHIPPED.iter().filter_map(|(name, source)| {
            let place = Place { name, file: name };
            Skill::parse(&place, source).ok().map(Arc::new)
        });
        Self {
            shipped: shipped.collect(),
            home,
            skills: Files::new(taint.clone()),
            subagents: Files::new(taint.clone()),
            libraries: DashMap::new(),
            bodies: Arc::default(),
            taint,
        }
    }

    /// Forgets what was read of a team that is gone.
    pub(super) fn forget(&self, team: &TeamName) {
        let folder = self.home.team(team.as_str());
        self.skills.forget(&folder);
        self.subagents.forget(&folder);
        self.libraries.remove(team);
        let mut bodies = self.bodies.lock();
        bodies.retain(|path, _| !path.starts_with(&folder));
    }

    /// What a team has now. Unchanged files are only looked at.
    pub(super) fn library(&self, team: &TeamName) -> Arc<Library> {
        let workspace = self.home.team(team.as_str());
        let seen = Seen {
            own: self.skills.read(&workspace, SKILLS, Links::Refused),
            operator: self.skills.read(self.home.data(), SKILLS, Links::Followed),
            subagents: self.subagents.read(&workspace, SUBAGENTS, Links::Refused),
        };
        let known = self.libraries.get(team).map(|known| known.clone());
        if let Some(known) = known
            && *known.seen == seen
        {
            return known;
        }
        let library = Arc::new(Library::new(Arc::new(seen), self, workspace));
        self.libraries.insert(team.clone(), library.clone());
        library
    }
}

/// The folder of the operator's skills, which every team may read, since files lie beside the skills. None if it leads
/// to a place that holds more of ours. Blocks.
pub fn shared_skills(home: &Home) -> Option<AllowedDir> {
    let path = home.skills();
    let real = path.canonicalize().ok()?;
    let holds = |own: &Path| own.canonicalize().is_ok_and(|own| own.starts_with(&real));
    if holds(home.data()) || holds(home.run()) {
        return None;
    }
    Some(AllowedDir { path, access: Access::ReadOnly })
}

#[derive(Debug, PartialEq, Eq)]
struct Seen {
    own: Found<Skill>,
    operator: Found<Skill>,
    subagents: Found<Subagent>,
}

/// The skill is a procedure by which teams look back at their work.
fn is_cycle(skill: &str) -> bool {
    ["learning-cycle", "reflection-cycle"].contains(&skill)
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Giver {
    /// The team itself, in its workspace.
    Team(PathBuf),
    /// The operator, in the data dir.
    Operator(PathBuf),
    Program,
}

/// A skill that a team can use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownSkill {
    skill: Arc<Skill>,
    giver: Giver,
}

impl KnownSkill {
    pub fn name(&self) -> &str {
        &self.skill.name
    }

    /// What it does and when to use it; may be empty.
    pub fn description(&self) -> &str {
        &self.skill.description
    }

    pub fn source<'a>(&self, team: &'a str) -> &'a str {
        match self.giver {
            Giver::Team(_) => team,
            Giver::Operator(_) => OPERATOR,
            Giver::Program => PROGRAM,
        }
    }

    /// The plugin tools it needs, by bare name.
    pub fn required_tools(&self) -> &[String] {
        &self.skill.required
    }

    /// Where the files beside it are, if the file tools and commands of a team can read them. Blocks.
    pub fn folder(&self) -> Option<String> {
        if !self.skill.has_folder() {
            return None;
        }
        let folder = Path::new(SKILLS).join(&self.skill.name);
        match &self.giver {
            Giver::Team(_) => Some(folder.display().to_string()),
            Giver::Operator(data) => {
                let folder = data.join(folder);
                // What a link leads to outside of it is no team's to read.
                let real = folder.canonicalize().ok()?;
                let all = data.join(SKILLS).canonicalize().ok()?;
                real.starts_with(all).then(|| folder.display().to_string())
            }
            Giver::Program => None,
        }
    }
}

/// All that a team can load and be.
#[derive(Debug)]
pub struct Library {
    seen: Arc<Seen>,
    skills: BTreeMap<String, Arc<KnownSkill>>,
    subagents: BTreeMap<String, Arc<Subagent>>,
    /// Files that were left out or should be looked at, and why.
    pub warnings: Vec<String>,
    /// Files that somebody may have changed who may not, and why.
    pub suspects: Vec<String>,
    bodies: Arc<Mutex<Bodies>>,
    taint: Taint,
}

impl Library {
    fn new(seen: Arc<Seen>, shelf: &Shelf, workspace: PathBuf) -> Self {
        let mut library = Self {
            skills: BTreeMap::new(),
            subagents: BTreeMap::new(),
            warnings: Vec::new(),
            suspects: [&*seen.own.suspects, &seen.subagents.suspects].concat(),
            bodies: shelf.bodies.clone(),
            taint: shelf.taint.clone(),
            seen: seen.clone(),
        };
        let operator = Giver::Operator(shelf.home.data().to_owned());
        library.shelve(&seen.own.texts, &Giver::Team(workspace));
        library.shelve(&seen.operator.texts, &operator);
        library.shelve(&shelf.shipped, &Giver::Program);
        for warnings in [&seen.own.warnings, &seen.operator.warnings, &seen.subagents.warnings] {
            library.warnings.extend(warnings.iter().cloned());
        }
        for subagent in &seen.subagents.texts {
            library.employ(subagent);
        }
        library
    }

    /// Adds the skills of one giver, behind those that are there.
    fn shelve(&mut self, skills: &[Arc<Skill>], giver: &Giver) {
        let mut folders: Vec<_> = skills.iter().collect();
        // The folder wins over the file.
        folders.sort_by_key(|skill| (!skill.has_folder(), &skill.file));
        let mut here: BTreeMap<&str, &Skill> = BTreeMap::new();
        for skill in folders {
            self.warnings.extend(skill.warnings.iter().cloned());
            if let Some(first) = here.insert(&skill.name, skill) {
                self.warnings.push(format!(
                    "skill `{}`: there are `{SKILLS}/{}` and `{SKILLS}/{}`; the latter is left out",
                    skill.name, first.file, skill.file
                ));
                continue;
            }
            self.skills.entry(skill.name.clone()).or_insert_with(|| {
                Arc::new(KnownSkill { skill: skill.clone(), giver: giver.clone() })
            });
        }
    }

    fn employ(&mut self, subagent: &Arc<Subagent>) {
        let Subagent { name, file, .. } = &**subagent;
        self.warnings.extend(subagent.warnings.iter().cloned());
        if let Some(first) = self.subagents.get(name) {
            self.warnings.push(format!(
                "{file}: name: `{name}` is in {} already; the subagent is left out",
                first.file
            ));
            return;
        }
        let (known, unknown): (Vec<_>, Vec<_>) = subagent
            .skills
            .iter()
            .cloned()
            .partition(|skill| self.skills.contains_key(skill) && !is_cycle(skill));
        for skill in &unknown {
            self.warnings
                .push(format!("{file}: skills: there is no skill `{skill}`; it is left out"));
        }
        let subagent = if unknown.is_empty() {
            subagent.clone()
        } else {
            Arc::new(Subagent { skills: known, ..(**subagent).clone() })
        };
        self.subagents.insert(name.clone(), subagent);
    }

    pub fn skill(&self, name: &str) -> Option<&Arc<KnownSkill>> {
        self.skills.get(name)
    }

    pub fn skills(&self) -> impl Iterator<Item = &Arc<KnownSkill>> {
        self.skills.values()
    }

    pub fn subagent(&self, name: &str) -> Option<&Arc<Subagent>> {
        self.subagents.get(name)
    }

    pub fn subagents(&self) -> impl Iterator<Item = &Arc<Subagent>> {
        self.subagents.values()
    }

    /// The skills that no subagent lists: for everybody.
    pub(super) fn unowned(&self) -> Vec<Arc<KnownSkill>> {
        let owned: BTreeSet<_> = self.subagents().flat_map(|subagent| &subagent.skills).collect();
        let free = self.catalogue().filter(|skill| !owned.contains(&skill.skill.name));
        free.cloned().collect()
    }

    /// The skills that a turn can be given. The service starts its cycles itself, with their text:
    /// nobody else needs to find those.
    pub fn catalogue(&self) -> impl Iterator<Item = &Arc<KnownSkill>> {
        self.skills().filter(|skill| !is_cycle(skill.name()))
    }

    /// The full text of a skill. Blocks.
    pub fn body(&self, known: &KnownSkill) -> io::Result<Arc<str>> {
        let KnownSkill { skill, giver } = known;
        let (parent, links) = match giver {
            Giver::Team(workspace) => (workspace, Links::Refused),
            Giver::Operator(data) => (data, Links::Followed),
            Giver::Program => {
                let shipped = SHIPPED.iter().find(|(name, _)| **name == skill.file);
                return shipped
                    .map(|(_, source)| body(source).into())
                    .ok_or_else(|| io::ErrorKind::NotFound.into());
            }
        };
        let path = parent.join(SKILLS).join(&skill.file);
        if let Some((read, body)) = self.bodies.lock().get(&path)
            && read == skill
        {
            return Ok(body.clone());
        }
        let source = folder::source::<Skill>(parent, SKILLS, links, &skill.file, &self.taint)?;
        let text: Arc<str> = body(&source).into();
        let mut bodies = self.bodies.lock();
        if bodies.len() >= KEPT {
            bodies.clear();
        }
        bodies.insert(path, (skill.clone(), text.clone()));
        Ok(text)
    }
}
