//! Composes the system prompt of a turn from rules, team, memory and topic.

use std::{io, sync::Arc};

use dashmap::DashMap;
use hivewright_actors::{
    engine::{FixedText, SystemPrompt},
    ids::TeamName,
    task::TopicRef,
};
use parking_lot::Mutex;

use super::{
    folder::{Files, Links},
    library::{Library, Shelf},
    parts::{self, ToolAvailability},
    role::Role,
    rules::{self, Reader, Rule, Tier},
};
use crate::{
    api::teams::{OPERATOR, PROGRAM, TeamItem},
    settings::home::Home,
    system::sha256,
    taint::Taint,
};

#[derive(Clone, Debug)]
pub struct Request {
    pub team: TeamName,
    /// The teams above it, root first.
    pub ancestors: Vec<TeamName>,
    pub description: String,
    /// The tools that are there or not, in the order in which they are to be shown.
    pub builtins: Arc<[ToolAvailability]>,
    /// What else is to be said of tools, a line each.
    pub notes: Vec<String>,
    pub cast: Cast,
}

/// As whom a turn is run, and from what it can choose.
#[derive(Clone, Debug)]
pub struct Cast {
    pub library: Arc<Library>,
    pub role: Role,
    /// The turn can load skills.
    pub loads: bool,
}

impl Cast {
    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.library, &other.library)
            && self.loads == other.loads
            && self.role == other.role
    }
}

/// A prompt without what is of one turn alone.
#[derive(Clone, Debug)]
pub struct Composed {
    told: Arc<Told>,
    /// Rule files that were left out, and why.
    pub warnings: Vec<String>,
    /// Files that were left out since somebody may have changed them who may not.
    pub suspects: Vec<String>,
}

impl Composed {
    /// Names the rules and the role, not memory and topic: it stays the same from turn to turn.
    pub fn prompt_hash(&self) -> &str {
        &self.told.hash
    }

    /// The prompt of a turn, ready for an engine, with what the team remembers, if anything, and the topic.
    pub fn system(&self, memory: &str, topic: Option<&TopicRef>) -> SystemPrompt {
        SystemPrompt {
            shared: self.told.shared.clone(),
            team: self.told.team.clone(),
            // Part 8 comes ready: it is laid out when memory changes, not in each turn.
            turn: parts::join([memory.to_owned(), parts::topic(topic)]),
        }
    }
}

/// The skill to be loaded cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the skill `{skill}` cannot be read: {source}")]
pub struct ComposeError {
    skill: String,
    source: io::Error,
}

/// Composes prompts, and keeps what it read. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Prompts(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    home: Home,
    system: Tier,
    files: Files<Rule>,
    shelf: Shelf,
    /// The last static prefix, so that all turns share one.
    shared: Mutex<FixedText>,
    /// What was last told to each team before its turn's own part.
    told: DashMap<TeamName, Arc<Told>>,
    taint: Taint,
}

/// The parts of a prompt that stay the same until a file changes, with what they were made from.
#[derive(Debug)]
struct Told {
    tiers: Tiers,
    description: String,
    builtins: Arc<[ToolAvailability]>,
    notes: Vec<String>,
    cast: Cast,
    shared: FixedText,
    team: FixedText,
    hash: String,
}

/// The rules of a team, as they were read.
#[derive(Debug, PartialEq, Eq)]
struct Tiers {
    organisation: Tier,
    /// Of the teams above, root first, then its own for itself and those below.
    lineage: Vec<(TeamName, Tier)>,
    own: Tier,
}

impl Tiers {
    fn all(&self) -> impl Iterator<Item = &Tier> {
        let lineage = self.lineage.iter().map(|(_, tier)| tier);
        [&self.organisation].into_iter().chain(lineage).chain([&self.own])
    }
}

impl Prompts {
    /// Prompts from the rules of this home, without what untrusted turns wrote.
    pub fn new(home: Home, taint: Taint) -> Self {
        Self(Arc::new(Inner {
            system: rules::system(),
            files: Files::new(taint.clone()),
            shelf: Shelf::new(home.clone(), taint.clone()),
            shared: Mutex::default(),
            told: DashMap::new(),
            home,
            taint,
        }))
    }

    pub fn taint(&self) -> &Taint {
        &self.0.taint
    }

    /// Forgets what was read of a team that is gone.
    pub fn forget(&self, team: &TeamName) {
        self.0.files.forget(&self.0.home.team(team.as_str()));
        self.0.shelf.forget(team);
        self.0.told.remove(team);
    }

    /// What a team can load and be now. Unchanged files are only looked at. Blocks.
    pub fn library(&self, team: &TeamName) -> Arc<Library> {
        self.0.shelf.library(team)
    }

    /// The subagents of a team, by name. Blocks.
    pub fn subagents(&self, team: &TeamName) -> Vec<String> {
        self.library(team).subagents().map(|subagent| subagent.name.clone()).collect()
    }

    /// The rules that a team is told, with who gave them. Blocks.
    pub fn rules(&self, team: &TeamName, ancestors: &[TeamName]) -> Vec<TeamItem> {
        let this = &self.0;
        let tiers = this.tiers(team, ancestors);
        let reader = Reader { team, subagent: false, inner: false };
        let general = [(PROGRAM, &this.system), (OPERATOR, &tiers.organisation)];
        let lineage = tiers.lineage.iter().map(|(giver, tier)| (giver.as_str(), tier));
        let all = general.into_iter().chain(lineage).chain([(team.as_str(), &tiers.own)]);
        all.flat_map(|(giver, tier)| {
            let told = tier.texts.iter().filter(|rule| rule.audience.concerns(&reader));
            told.map(move |rule| TeamItem {
                name: rule.name.clone(),
                source: giver.to_owned(),
                description: rule.title().to_owned(),
            })
        })
        .collect()
    }

    /// Composes one. Unchanged files are only looked at. Blocks.
    pub fn compose(&self, request: &Request) -> Result<Composed, ComposeError> {
        let this = &self.0;
        let tiers = this.tiers(&request.team, &request.ancestors);
        let library = &request.cast.library;
        let warnings =
            [&this.system].into_iter().chain(tiers.all()).flat_map(|tier| &tier.warnings);
        let warnings = warnings.chain(&library.warnings).cloned().collect();
        let suspects = tiers.all().flat_map(|tier| &tier.suspects);
        let suspects = suspects.chain(&library.suspects).cloned().collect();
        let told = this.told(request, tiers)?;
        Ok(Composed { told, warnings, suspects })
    }
}

impl Inner {
    fn tiers(&self, team: &TeamName, ancestors: &[TeamName]) -> Tiers {
        let line = ancestors.iter().chain([team]);
        let lineage = line.map(|team| {
            let folder = self.home.team(team.as_str());
            let rules = self.files.read(&folder, "org-rules", Links::Refused);
            (team.clone(), rules)
        });
        Tiers {
            organisation: self.files.read(self.home.data(), "rules", Links::Followed),
            lineage: lineage.collect(),
            own: self.files.read(&self.home.team(team.as_str()), "team-rules", Links::Refused),
        }
    }

    /// What a team is told in every turn. Put together again only if something of it changed.
    fn told(&self, request: &Request, tiers: Tiers) -> Result<Arc<Told>, ComposeError> {
        let Request { team, description, builtins, notes, cast, .. } = request;
        let known = self.told.get(team).map(|known| known.clone());
        if let Some(known) = known
            && known.tiers == tiers
            && known.description == *description
            && known.builtins == *builtins
            && known.notes == *notes
            && known.cast.is(cast)
        {
            return Ok(known);
        }
        let reader =
            Reader { team, subagent: cast.role.subagent.is_some(), inner: cast.role.inner };
        let general = [&self.system, &tiers.organisation];
        let shared = self.share(parts::shared(general));
        let text = parts::join([
            parts::identity(team, &request.ancestors, description, &self.home.team(team.as_str())),
            parts::availability(builtins, notes),
            parts::role(&reader, general, &tiers.lineage, &tiers.own),
            skills(cast)?,
        ]);
        let told = Arc::new(Told {
            hash: sha256(format!("{shared}\0{text}").as_bytes())[..16].to_owned(),
            shared,
            team: text.into(),
            description: description.clone(),
            builtins: builtins.clone(),
            notes: notes.clone(),
            cast: cast.clone(),
            tiers,
        });
        self.told.insert(team.clone(), told.clone());
        Ok(told)
    }

    fn share(&self, text: String) -> FixedText {
        let mut shared = self.shared.lock();
        if **shared != *text {
            *shared = text.into();
        }
        shared.clone()
    }
}

/// Part 7: who the turn is run as, and what it has loaded or can load.
fn skills(cast: &Cast) -> Result<String, ComposeError> {
    cast.role.text(&cast.library, cast.loads).map_err(|source| ComposeError {
        skill: cast.role.active.as_ref().map(|skill| skill.name().to_owned()).unwrap_or_default(),
        source,
    })
}
